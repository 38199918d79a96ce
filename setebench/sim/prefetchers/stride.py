"""Stride prefetcher: equal distances between the accesses of one instruction, of one page, or of both together."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import claim, find_record
from setebench.sim.prefetchers.common import goes, hand_out, may_go

(R_LAST, R_STRIDE, R_RUN, R_AHEAD, R_WORDS) = range(2, 7)
BY_IP, BY_PAGE = range(2)  # the third index is by both


@compiled
def train_stride(c: Ints, s: Ints, p: int, q: int) -> None:
    """Lines up to `max_distance` strides ahead, `degree` per access at most, once the distance repeats."""
    address = s[lay.S_SEEN_ADDRESS]
    key = s[lay.S_SEEN_IP] & ((1 << c[p + lay.STRIDE_IP_BITS]) - 1)
    if c[p + lay.STRIDE_INDEXED_BY] != BY_IP:
        page = address >> lay.PAGE_BITS
        key = page if c[p + lay.STRIDE_INDEXED_BY] == BY_PAGE else (page << 26) | key
    record = find_record(s, q, c[p + lay.STRIDE_ENTRIES], R_WORDS, key)
    if record < 0:
        record = claim(s, q, c[p + lay.STRIDE_ENTRIES], R_WORDS, key)
        s[record + R_LAST] = address
        s[record + R_RUN] = 1
        return
    stride = address - s[record + R_LAST]
    if stride == 0:
        return
    s[record + R_LAST] = address
    if stride == s[record + R_STRIDE]:
        s[record + R_RUN] += 1
        s[record + R_AHEAD] = max(s[record + R_AHEAD] - 1, 0)
    else:
        s[record + R_STRIDE] = stride
        s[record + R_RUN] = 2
        s[record + R_AHEAD] = 0
    if s[record + R_RUN] < c[p + lay.STRIDE_TRIGGER] or not goes(c, p + lay.STRIDE_DIRECTIONS, stride):
        return
    if not c[p + lay.STRIDE_MIN_STRIDE_BYTES] <= abs(stride) <= c[p + lay.STRIDE_MAX_STRIDE_BYTES]:
        return
    for _ in range(c[p + lay.STRIDE_DEGREE]):
        ahead = s[record + R_AHEAD] + 1
        target = (address + ahead * stride) >> c[lay.C_LINE_BITS]
        if ahead > c[p + lay.STRIDE_MAX_DISTANCE] or not may_go(c, s, p, s[lay.S_SEEN_LINE], target):
            break
        s[record + R_AHEAD] = ahead
        hand_out(c, s, target)

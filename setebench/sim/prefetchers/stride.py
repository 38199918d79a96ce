"""Stride prefetcher: equal distances between the accesses of one instruction, of one page, or of both together."""

from __future__ import annotations

from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import C_LINE_BITS, P_OWN, PAGE_BITS, S_SEEN_ADDRESS, S_SEEN_IP
from setebench.sim.prefetchers.common import LEAST_RECENT, claim, find_record, goes, hand_out, may_go, use

(
    D_TRIGGER,
    D_DEGREE,
    D_DISTANCE,
    D_MIN,
    D_MAX,
    D_DIRECTIONS,
    D_ENTRIES,
    D_REPLACEMENT,
    D_INDEX,
    D_IP_BITS,
) = range(P_OWN, P_OWN + 10)
(R_LAST, R_STRIDE, R_RUN, R_AHEAD, R_WORDS) = range(2, 7)
BY_IP, BY_PAGE = range(2)  # the third index is by both


@compiled
def _key(c: Ints, s: Ints, p: int) -> int:
    masked = s[S_SEEN_IP] & ((1 << c[p + D_IP_BITS]) - 1)
    page = s[S_SEEN_ADDRESS] >> PAGE_BITS
    if c[p + D_INDEX] == BY_IP:
        return masked
    return page if c[p + D_INDEX] == BY_PAGE else (page << 26) | masked


@compiled
def train_stride(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Lines up to `max_distance` strides ahead, `degree` per access at most, once the distance repeats."""
    address = s[S_SEEN_ADDRESS]
    key = _key(c, s, p)
    record = find_record(s, q, c[p + D_ENTRIES], R_WORDS, key)
    if record < 0:
        record = claim(s, q, c[p + D_ENTRIES], R_WORDS, key)
        s[record + R_LAST] = address
        s[record + R_RUN] = 1
        return n
    if c[p + D_REPLACEMENT] == LEAST_RECENT:
        use(s, record)
    stride = address - s[record + R_LAST]
    if stride == 0:
        return n
    s[record + R_LAST] = address
    if stride == s[record + R_STRIDE]:
        s[record + R_RUN] += 1
        s[record + R_AHEAD] = max(s[record + R_AHEAD] - 1, 0)
    else:
        s[record + R_STRIDE] = stride
        s[record + R_RUN] = 2
        s[record + R_AHEAD] = 0
    if s[record + R_RUN] < c[p + D_TRIGGER] or not c[p + D_MIN] <= abs(stride) <= c[p + D_MAX]:
        return n
    if not goes(c, p + D_DIRECTIONS, stride):
        return n
    line_bits = c[C_LINE_BITS]
    for _ in range(c[p + D_DEGREE]):
        ahead = s[record + R_AHEAD] + 1
        target = (address + ahead * stride) >> line_bits
        if ahead > c[p + D_DISTANCE] or not may_go(c, s, p, address >> line_bits, target):
            break
        s[record + R_AHEAD] = ahead
        n = hand_out(c, s, n, target)
    return n

"""Stride prefetcher: equal distances between the accesses of one instruction, of one page, or of both together."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import C_LINE_BITS, P_OWN, PAGE_BITS, S_SEEN_ADDRESS, S_SEEN_IP, S_SEEN_OWNER
from setebench.sim.prefetchers.common import (
    BY_IP,
    BY_PAGE,
    DIRECTIONS,
    DOWN,
    INDEXES,
    LEAST_RECENT,
    REPLACEMENTS,
    UP,
    claim,
    find_record,
    hand_out,
    may_go,
    use,
)

(
    D_TRIGGER,
    D_DEGREE,
    D_DISTANCE,
    D_MIN,
    D_MAX,
    D_DIRECTIONS,
    D_ENTRIES,
    D_INDEX,
    D_IP_MASK,
    D_REPLACEMENT,
) = range(P_OWN, P_OWN + 10)
(R_LAST, R_STRIDE, R_RUN, R_AHEAD, R_WORDS) = range(2, 7)


def stride_settings(kind: spec.Stride, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    own = [kind.trigger, kind.degree, kind.max_distance, kind.min_stride_bytes, kind.max_stride_bytes]
    own += [DIRECTIONS[kind.directions], kind.entries, INDEXES[kind.indexed_by], (1 << kind.ip_bits) - 1]
    own.append(REPLACEMENTS.index(kind.replacement))
    return own, kind.entries * R_WORDS


@compiled
def _key(c: Ints, s: Ints, p: int) -> int:
    masked = s[S_SEEN_IP] & c[p + D_IP_MASK]
    page = s[S_SEEN_ADDRESS] >> PAGE_BITS
    owner = s[S_SEEN_OWNER]
    if c[p + D_INDEX] == BY_IP:
        return masked * 8 + owner
    if c[p + D_INDEX] == BY_PAGE:
        return page * 8 + owner
    return ((page << 26) | masked) * 8 + owner


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
    if not c[p + D_DIRECTIONS] & (UP if stride > 0 else DOWN):
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

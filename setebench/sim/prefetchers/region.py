"""Region prefetcher: records which lines of a region one generation touched, and fetches them in the next alike one.

State: a table of active regions (footprint being recorded) followed by a table of footprints, in which every line of
the region has a bit that says whether the latest generation touched it.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled, first_bit
from setebench.sim.kernel.records import claim, find_record, oldest_record, record_at, record_for
from setebench.sim.prefetchers.common import hand_out, may_go

BY_IP, BY_IP_OFFSET = range(2)  # the third index is by offset alone
(A_KEY, A_FIRST, A_LINES, A_WORDS) = range(2, 6)
(F_LINES, F_WORDS) = range(2, 4)


@compiled
def _fetch(c: Ints, s: Ints, p: int, q: int, key: int, line: int, offset: int) -> None:
    """The lines of the region that the latest generation of this key touched, counted from the first access."""
    lines = c[p + lay.REGION_REGION_SIZE_BYTES] >> c[lay.C_LINE_BITS]
    record = find_record(s, q + c[p + lay.REGION_ACTIVE_REGIONS] * A_WORDS, c[p + lay.REGION_ENTRIES], F_WORDS, key)
    left = s[record + F_LINES] & ~1 if record >= 0 else 0
    while left != 0:
        # footprints are kept relative to the first line touched, so they hold for any starting line
        target = line - offset + ((offset + first_bit(left)) & (lines - 1))
        left &= left - 1
        if may_go(c, s, p, line, target):
            hand_out(c, s, target)


@compiled
def train_region(c: Ints, s: Ints, p: int, q: int) -> None:
    """Note the access in its active region, or open the region and fetch what earlier generations touched."""
    lines, regions = c[p + lay.REGION_REGION_SIZE_BYTES] >> c[lay.C_LINE_BITS], c[p + lay.REGION_ACTIVE_REGIONS]
    line = s[lay.S_SEEN_LINE]
    region = line // lines
    offset = line & (lines - 1)
    active = find_record(s, q, regions, A_WORDS, region)
    if active >= 0:
        s[active + A_LINES] |= 1 << ((offset - s[active + A_FIRST]) & (lines - 1))
        return
    oldest = oldest_record(s, q, regions)
    if s[q + oldest] > 0:  # a finished generation is kept as the footprint of its key
        active = record_at(q, regions, A_WORDS, oldest)
        record = record_for(s, q + regions * A_WORDS, c[p + lay.REGION_ENTRIES], F_WORDS, s[active + A_KEY])
        s[record + F_LINES] = s[active + A_LINES]
    masked = s[lay.S_SEEN_IP] & ((1 << c[p + lay.REGION_IP_BITS]) - 1)
    key = offset
    if c[p + lay.REGION_INDEXED_BY] == BY_IP:
        key = masked
    elif c[p + lay.REGION_INDEXED_BY] == BY_IP_OFFSET:
        key = (masked << 6) | offset
    active = claim(s, q, regions, A_WORDS, region)
    s[active + A_KEY] = key
    s[active + A_FIRST] = offset
    s[active + A_LINES] = 1
    _fetch(c, s, p, q, key, line, offset)

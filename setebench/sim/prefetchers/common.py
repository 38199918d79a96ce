"""What prefetcher kinds share: tables of records, the page-boundary rules, handing out lines.

A record's first two words are its key plus one (0: empty) and a stamp of when it was used last; the rest is the kind's
own.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled


@compiled
def goes(c: Ints, at: int, step: int) -> bool:
    """Whether the directions at `at` (up, down, both) are those of a step."""
    return c[at] == 2 or c[at] == (0 if step > 0 else 1)


@compiled
def find_record(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Offset of the record with that key, or -1."""
    for i in range(records):
        if s[table + i * words] == key + 1:
            return table + i * words
    return -1


@compiled
def use(s: Ints, record: int) -> None:
    """Make a record the latest used."""
    s[lay.S_STAMP] += 1
    s[record + 1] = s[lay.S_STAMP]


@compiled
def claim(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Clear the empty record, or the one with the oldest stamp, and give it the key; returns its offset."""
    oldest = table
    for i in range(1, records):
        record = table + i * words
        if s[record + 1] < s[oldest + 1]:
            oldest = record
    for k in range(words):
        s[oldest + k] = 0
    s[oldest] = key + 1
    use(s, oldest)
    return oldest


@compiled
def record_for(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Offset of the record with that key, a new one where there is none, as the latest used."""
    record = find_record(s, table, records, words, key)
    if record < 0:
        return claim(s, table, records, words, key)
    use(s, record)
    return record


@compiled
def _page_word(c: Ints, s: Ints, p: int, page: int) -> int:
    """Page-table word of a virtual (level 1) or physical (level 2) page number, 0 for none."""
    if page < 0 or page >= c[lay.C_PAGES]:
        return 0
    if c[p + lay.P_LEVEL] == 2:
        page = s[c[lay.C_FRAME_TABLE] + page] - 1
        if page < 0:
            return 0
    return s[c[lay.C_PAGE_TABLE] + page]


@compiled
def may_go(c: Ints, s: Ints, p: int, line: int, target: int) -> bool:
    """Whether the boundary rules of the prefetcher at `p` let it go from one line to another."""
    bits = c[lay.C_PAGE_LINES_BITS]
    if line >> bits == target >> bits:
        return True
    if target < 0:
        return False
    if c[p + lay.P_CROSSES_4K]:
        return True
    huge_bits = bits + lay.HUGE_BITS - lay.PAGE_BITS
    if not c[p + lay.P_CROSSES_4K_IN_2M] or line >> huge_bits != target >> huge_bits:
        return False
    return (_page_word(c, s, p, line >> bits) & lay.HUGE) != 0


@compiled
def hand_out(c: Ints, s: Ints, line: int) -> None:
    """Request a line."""
    s[s[lay.S_WANTED]] = line
    s[lay.S_WANTED] += 1


@compiled
def next_lines(c: Ints, s: Ints, p: int, step: int, degree: int) -> None:
    """Request so many lines, a step apart, behind the access that is shown."""
    line = s[lay.S_SEEN_LINE]
    for k in range(1, degree + 1):
        if not may_go(c, s, p, line, line + k * step):
            break
        hand_out(c, s, line + k * step)

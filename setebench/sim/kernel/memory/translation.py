"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages.

A TLB's sets are tables of records whose keys are numbers of pages. Which set a page's record lies in is bits of the
number, or a hash of it.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import free_entry, hold_entry
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.records import claim, find_record, next_match

ABSENT, PRESENT_PAGE, UNMAPPED = range(3)
HUGE_PAGES = 1 << (lay.HUGE_BITS - lay.PAGE_BITS)
TLB_RECORD = 2  # words: a key and a stamp


@inlined
def page_state(c: Ints, s: Ints, address: int) -> int:
    """UNMAPPED, ABSENT (mapped, never touched) or PRESENT_PAGE."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    if page < 0 or page >= c[lay.C_PAGES]:
        return UNMAPPED
    word = s[c[lay.C_PAGE_TABLE] + page]
    if not word & lay.MAPPED:
        return UNMAPPED
    return PRESENT_PAGE if word & lay.PRESENT else ABSENT


@inlined
def sharers(c: Ints, s: Ints, line: int) -> int:
    """The cores that may have a line in caches of their own, as bits: those that ever got one of its page's."""
    return s[c[lay.C_SHARERS] + (line >> c[lay.C_PAGE_LINES_BITS])]


@inlined
def fault(s: Ints, th: int, address: int) -> None:
    """Note a touch of an address without a page."""
    s[lay.S_FAULT] = s[th + lay.T_ROW] + 1
    s[lay.S_FAULT_ADDRESS] = address


@compiled
def make_present(c: Ints, s: Ints, page: int) -> int:
    """Note the first touch of a page; returns its cost."""
    table = c[lay.C_PAGE_TABLE]
    if not s[table + page] & lay.HUGE:
        s[table + page] |= lay.PRESENT
        return c[lay.C_MEMORY_PAGE_FAULT_4K_CYCLES]
    first = page & ~(HUGE_PAGES - 1)
    for part in range(first, first + HUGE_PAGES):
        s[table + part] |= lay.PRESENT
    return c[lay.C_MEMORY_PAGE_FAULT_2M_CYCLES]


@inlined
def _set_of(c: Ints, x: int, core: int, key: int) -> int:
    """Where the set of a page begins."""
    if c[x + lay.X_INDEX]:
        above = key >> c[x + lay.X_SET_BITS]
        key ^= above ^ (above >> c[x + lay.X_SET_BITS])
    number = core * c[x + lay.X_SETS] + (key & (c[x + lay.X_SETS] - 1))
    return c[x + lay.X_TABLE] + number * c[x + lay.X_WAYS] * TLB_RECORD


@inlined
def _first_table(c: Ints, s: Ints, page: int) -> tuple[int, int]:
    """The first-level TLB for a page, and the number by which TLBs have it."""
    if s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE_TLB:
        return lay.C_TLB + lay.X_WORDS, page >> (lay.HUGE_BITS - lay.PAGE_BITS)
    return lay.C_TLB, page


@compiled
def tlb_misses(c: Ints, s: Ints, core: int, address: int) -> int:
    """How many TLB levels a load of the address would miss, 0 to 2, without changing anything."""
    x, key = _first_table(c, s, (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS)
    for level in range(2):
        if next_match(s, _set_of(c, x, core, key), c[x + lay.X_WAYS], key, 0) >= 0:
            return level
        x += 2 * lay.X_WORDS
    return 2


@compiled
def _translate_slow(c: Ints, s: Ints, core: int, page: int, t: int) -> int:
    """Look the page up in both TLBs, walk where needed; returns when the translation is there."""
    x, key = _first_table(c, s, page)
    penalty = 0
    for _ in range(2):
        ways = c[x + lay.X_WAYS]
        if ways > 0:
            records = _set_of(c, x, core, key)
            if find_record(s, records, ways, TLB_RECORD, key) >= 0:
                return t + penalty
            claim(s, records, ways, TLB_RECORD, key)
            penalty = c[x + lay.X_MISS_PENALTY_CYCLES]
        x += 2 * lay.X_WORDS
    walkers = c[lay.C_WALK_SLOTS] + core * c[lay.C_WALKERS]
    walker = free_entry(s, walkers, c[lay.C_WALKERS], t)
    done = max(t, s[walker]) + penalty
    hold_entry(s, walkers, c[lay.C_WALKERS], walker, done)
    return done


@inlined
def translate(c: Ints, s: Ints, th: int, address: int, t: int) -> int:
    """When the physical address of a mapped address is known, given that the access starts at t.

    A first touch makes the page present and costs a minor fault.
    """
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    if s[th + lay.T_PAGE] == page:
        return t
    s[th + lay.T_PAGE] = page
    if not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        t += make_present(c, s, page)
    return _translate_slow(c, s, s[th + lay.T_CORE], page, t)

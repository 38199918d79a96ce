"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages.

An entry of a TLB holds the number of a page plus one. Which set it lies in is bits of the number, or a hash of it.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import free_entry, hold_entry
from setebench.sim.kernel.compiler import Ints, compiled, equal_words, first_bit, inlined

ABSENT, PRESENT_PAGE, UNMAPPED = range(3)
HUGE_PAGES = 1 << (lay.HUGE_BITS - lay.PAGE_BITS)
WAY_BITS = 17  # a fully associative table may have 65,536 ways


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
def _first_of_set(c: Ints, x: int, core: int, key: int) -> int:
    """Where a page's set begins, relative to the table's arrays."""
    if c[x + lay.X_INDEX]:
        above = key >> c[x + lay.X_SET_BITS]
        key ^= above ^ (above >> c[x + lay.X_SET_BITS])
    return (core * c[x + lay.X_SETS] + (key & (c[x + lay.X_SETS] - 1))) * c[x + lay.X_WAYS]


@compiled
def _lookup(c: Ints, s: Ints, x: int, core: int, key: int) -> int:
    """Index of a page in a TLB, relative to its arrays, or -1."""
    first, ways = _first_of_set(c, x, core, key), c[x + lay.X_WAYS]
    tags = c[x + lay.X_TAGS] + first
    for way in range(0, ways, lay.HOST_LINE_WORDS):  # what is compared beyond the ways are other sets' tags, or stamps
        found: int = equal_words(s, tags + way, 0, key + 1) & ((1 << min(ways - way, lay.HOST_LINE_WORDS)) - 1)
        if found:
            place: int = first_bit(found)
            return first + way + place
    return -1


@compiled
def _use(c: Ints, s: Ints, x: int, at: int) -> None:
    s[lay.S_STAMP] += 1
    s[c[x + lay.X_STAMPS] + at] = s[lay.S_STAMP]


@compiled
def _insert(c: Ints, s: Ints, x: int, core: int, key: int) -> None:
    """Put a page into a TLB."""
    first = _first_of_set(c, x, core, key)
    stamps = c[x + lay.X_STAMPS] + first
    oldest = lay.NEVER
    for way in range(c[x + lay.X_WAYS]):  # as a minimum of numbers: branches would be guessed wrong
        oldest = min(oldest, (s[stamps + way] << WAY_BITS) | way)
    at = first + (oldest & ((1 << WAY_BITS) - 1))
    s[c[x + lay.X_TAGS] + at] = key + 1
    _use(c, s, x, at)


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
    if _lookup(c, s, x, core, key) >= 0:
        return 0
    return 1 if _lookup(c, s, x + 2 * lay.X_WORDS, core, key) >= 0 else 2


@compiled
def _walk(c: Ints, s: Ints, core: int, penalty: int, t: int) -> int:
    """When a page walk that takes so long is done, given the walkers."""
    walkers = c[lay.C_WALK_SLOTS] + core * c[lay.C_WALKERS]
    walker = free_entry(s, walkers, c[lay.C_WALKERS], t)
    done = max(t, s[walker]) + penalty
    hold_entry(s, walkers, c[lay.C_WALKERS], walker, done)
    return done


@compiled
def _translate_slow(c: Ints, s: Ints, core: int, page: int, t: int) -> int:
    """Look the page up in both TLBs, walk where needed; returns when the translation is there."""
    x, key = _first_table(c, s, page)
    penalty = 0
    for table in (x, x + 2 * lay.X_WORDS):
        at = _lookup(c, s, table, core, key)
        if at >= 0:
            _use(c, s, table, at)
            return t + penalty
        if c[table + lay.X_WAYS] > 0:
            _insert(c, s, table, core, key)
            penalty = c[table + lay.X_MISS_PENALTY_CYCLES]
    return _walk(c, s, core, penalty, t)


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

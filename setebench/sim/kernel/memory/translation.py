"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages.

An entry of a TLB holds the number of a page plus one. Which set it lies in is bits of the number, or a hash of it.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import free_entry, hold_entry
from setebench.sim.kernel.compiler import LANES, Ints, compiled, equal_words, first_bit, inlined

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
    if c[x + lay.X_HASHED]:
        above = key >> c[x + lay.X_SET_BITS]
        key ^= above ^ (above >> c[x + lay.X_SET_BITS])
    return (core * c[x + lay.X_SETS] + (key & (c[x + lay.X_SETS] - 1))) * c[x + lay.X_WAYS]


@compiled
def _lookup(c: Ints, s: Ints, x: int, core: int, key: int) -> int:
    """Index of a page in a TLB, relative to its arrays, or -1."""
    first, ways = _first_of_set(c, x, core, key), c[x + lay.X_WAYS]
    tags = c[x + lay.X_TAGS] + first
    for way in range(0, ways, LANES):  # what is compared beyond the ways are other sets' tags, or stamps
        found = equal_words(s, tags + way, 0, key + 1) & ((1 << min(ways - way, LANES)) - 1)
        if found:
            return first + way + first_bit(found)
    return -1


@compiled
def _use(c: Ints, s: Ints, x: int, at: int) -> None:
    s[lay.S_STAMP] += 1
    s[c[x + lay.X_STAMPS] + at] = s[lay.S_STAMP]


@compiled
def _insert(c: Ints, s: Ints, x: int, core: int, key: int) -> int:
    """Put a page into a TLB; returns its index."""
    first = _first_of_set(c, x, core, key)
    stamps = c[x + lay.X_STAMPS] + first
    oldest = lay.NEVER
    for way in range(c[x + lay.X_WAYS]):  # as a minimum of numbers: branches would be guessed wrong
        oldest = min(oldest, (s[stamps + way] << WAY_BITS) | way)
    at = first + (oldest & ((1 << WAY_BITS) - 1))
    s[c[x + lay.X_TAGS] + at] = key + 1
    _use(c, s, x, at)
    return at


@inlined
def _hint(c: Ints, key: int, huge: bool) -> int:
    """Where the state notes into which entry of a level-1 table a page was last put."""
    return c[lay.C_TLB_HINT] + key + (c[lay.C_PAGES] if huge else 0)


@compiled
def _l1_lookup(c: Ints, s: Ints, x: int, core: int, key: int, huge: bool) -> int:
    """As `_lookup`, by way of where the page was last put: level-1 tables are large and fully associative."""
    if c[x + lay.X_WAYS] == 0:
        return -1
    hint = s[_hint(c, key, huge)] - 1
    entries = c[x + lay.X_SETS] * c[x + lay.X_WAYS]
    if hint >= core * entries and hint < (core + 1) * entries and s[c[x + lay.X_TAGS] + hint] == key + 1:
        return hint
    if not s[lay.S_ACTIVE] & ~(1 << core):  # with one core, the hint is never another one's
        return -1
    return _lookup(c, s, x, core, key)


@compiled
def tlb_misses(c: Ints, s: Ints, core: int, address: int) -> int:
    """How many TLB levels a load of the address would miss, 0 to 2, without changing anything."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    huge = (s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE_TLB) != 0
    key = page >> (lay.HUGE_BITS - lay.PAGE_BITS) if huge else page
    x = lay.C_TLB + (lay.X_WORDS if huge else 0)
    if _l1_lookup(c, s, x, core, key, huge) >= 0:
        return 0
    x += 2 * lay.X_WORDS
    return 1 if c[x + lay.X_WAYS] > 0 and _lookup(c, s, x, core, key) >= 0 else 2


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
    huge = (s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE_TLB) != 0
    key = page >> (lay.HUGE_BITS - lay.PAGE_BITS) if huge else page
    x = lay.C_TLB + (lay.X_WORDS if huge else 0)
    at = _l1_lookup(c, s, x, core, key, huge)
    if at >= 0:
        _use(c, s, x, at)
        return t
    if c[x + lay.X_WAYS] > 0:
        s[_hint(c, key, huge)] = _insert(c, s, x, core, key) + 1
    penalty = c[x + lay.X_PENALTY]
    x += 2 * lay.X_WORDS
    if c[x + lay.X_WAYS] > 0:
        at = _lookup(c, s, x, core, key)
        if at >= 0:
            _use(c, s, x, at)
            return t + penalty
        _insert(c, s, x, core, key)
        penalty = c[x + lay.X_PENALTY]
    return _walk(c, s, core, penalty, t)


@inlined
def translate(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """When the physical address of a mapped address is known, given that the access starts at t.

    A first touch makes the page present and costs a minor fault.
    """
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    latest = c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_PAGE
    if s[latest] == page:
        return t
    s[latest] = page
    if not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        t += make_present(c, s, page)
    return _translate_slow(c, s, core, page, t)

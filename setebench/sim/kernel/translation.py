"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages."""

from __future__ import annotations

from setebench.sim.events import E_FAULTS, E_TLB1_MISSES, E_TLB2_MISSES, E_WALKS
from setebench.sim.kernel.basics import count, free_entry, hold_entry
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import (
    BASE_ADDRESS,
    C_FAULT_2M,
    C_FAULT_4K,
    C_PAGE_TABLE,
    C_PAGES,
    C_THREADS,
    C_TLB,
    C_TLB_HINT,
    C_WALK_SLOTS,
    C_WALKERS,
    HUGE,
    HUGE_BITS,
    HUGE_TLB,
    MAPPED,
    NEVER,
    PAGE_BITS,
    PRESENT,
    S_ACTIVE,
    S_STAMP,
    T_PAGE,
    T_WORDS,
    X_PENALTY,
    X_SETS,
    X_STAMPS,
    X_TAGS,
    X_WAYS,
    X_WORDS,
)

ABSENT, PRESENT_PAGE, UNMAPPED = range(3)
HUGE_PAGES = 1 << (HUGE_BITS - PAGE_BITS)
WAY_BITS = 17  # a fully associative table may have 65,536 ways


@inlined
def page_state(c: Ints, s: Ints, address: int) -> int:
    """UNMAPPED, ABSENT (mapped, never touched) or PRESENT_PAGE."""
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    if page < 0 or page >= c[C_PAGES]:
        return UNMAPPED
    word = s[c[C_PAGE_TABLE] + page]
    if not word & MAPPED:
        return UNMAPPED
    return PRESENT_PAGE if word & PRESENT else ABSENT


@compiled
def make_present(c: Ints, s: Ints, page: int) -> int:
    """Note the first touch of a page; returns its cost."""
    table = c[C_PAGE_TABLE]
    if not s[table + page] & HUGE:
        s[table + page] |= PRESENT
        return c[C_FAULT_4K]
    first = page & ~(HUGE_PAGES - 1)
    for part in range(first, first + HUGE_PAGES):
        s[table + part] |= PRESENT
    return c[C_FAULT_2M]


@compiled
def _table_lookup(c: Ints, s: Ints, x: int, core: int, key: int) -> int:
    """Index of the key in a TLB, relative to its arrays, or -1."""
    first = (core * c[x + X_SETS] + (key & (c[x + X_SETS] - 1))) * c[x + X_WAYS]
    tags = c[x + X_TAGS] + first
    for way in range(c[x + X_WAYS]):
        if s[tags + way] == key + 1:
            return first + way
    return -1


@compiled
def _table_use(c: Ints, s: Ints, x: int, at: int) -> None:
    s[S_STAMP] += 1
    s[c[x + X_STAMPS] + at] = s[S_STAMP]


@compiled
def _table_insert(c: Ints, s: Ints, x: int, core: int, key: int) -> int:
    """Put a key into a TLB; returns its index."""
    ways = c[x + X_WAYS]
    first = (core * c[x + X_SETS] + (key & (c[x + X_SETS] - 1))) * ways
    stamps = c[x + X_STAMPS] + first
    oldest = NEVER
    for way in range(ways):  # as a minimum of numbers: branches would be guessed wrong
        oldest = min(oldest, (s[stamps + way] << WAY_BITS) | way)
    best = oldest & ((1 << WAY_BITS) - 1)
    s[c[x + X_TAGS] + first + best] = key + 1
    _table_use(c, s, x, first + best)
    return first + best


@inlined
def _hint(c: Ints, key: int, huge: bool) -> int:
    """Where the state notes into which entry of a level-1 table a page was last put."""
    return c[C_TLB_HINT] + key + (c[C_PAGES] if huge else 0)


@compiled
def _l1_lookup(c: Ints, s: Ints, x: int, core: int, key: int, huge: bool) -> int:
    """As `_table_lookup`, by way of where the page was last put: level-1 tables are large and fully associative."""
    if c[x + X_WAYS] == 0:
        return -1
    hint = s[_hint(c, key, huge)] - 1
    entries = c[x + X_SETS] * c[x + X_WAYS]
    if hint >= core * entries and hint < (core + 1) * entries and s[c[x + X_TAGS] + hint] == key + 1:
        return hint
    if not s[S_ACTIVE] & ~(1 << core):  # with one core, the hint is never another one's
        return -1
    return _table_lookup(c, s, x, core, key)


@compiled
def tlb_misses(c: Ints, s: Ints, core: int, address: int) -> int:
    """How many TLB levels the address would miss, 0 to 2, without changing anything."""
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    huge = (s[c[C_PAGE_TABLE] + page] & HUGE_TLB) != 0
    key = page >> (HUGE_BITS - PAGE_BITS) if huge else page
    x = C_TLB + (X_WORDS if huge else 0)
    if _l1_lookup(c, s, x, core, key, huge) >= 0:
        return 0
    x += 2 * X_WORDS
    if c[x + X_WAYS] > 0 and _table_lookup(c, s, x, core, key) >= 0:
        return 1
    return 2


@compiled
def _translate_slow(c: Ints, s: Ints, core: int, page: int, t: int) -> int:
    """Look the page up in both TLBs, walk where needed; returns when the translation is there."""
    huge = (s[c[C_PAGE_TABLE] + page] & HUGE_TLB) != 0
    key = page >> (HUGE_BITS - PAGE_BITS) if huge else page
    x = C_TLB + (X_WORDS if huge else 0)
    at = _l1_lookup(c, s, x, core, key, huge)
    if at >= 0:
        _table_use(c, s, x, at)
        return t
    if c[x + X_WAYS] > 0:
        count(c, s, core, E_TLB1_MISSES, 1)
        s[_hint(c, key, huge)] = _table_insert(c, s, x, core, key) + 1
    penalty = c[x + X_PENALTY]
    x += 2 * X_WORDS
    if c[x + X_WAYS] > 0:
        at = _table_lookup(c, s, x, core, key)
        if at >= 0:
            _table_use(c, s, x, at)
            return t + penalty
        _table_insert(c, s, x, core, key)
        count(c, s, core, E_TLB2_MISSES, 1)
        penalty = c[x + X_PENALTY]
    count(c, s, core, E_WALKS, 1)
    walkers = c[C_WALK_SLOTS] + core * c[C_WALKERS]
    walker = free_entry(s, walkers, c[C_WALKERS], t)
    start = max(t, s[walker])
    hold_entry(s, walkers, c[C_WALKERS], walker, start + penalty)
    return start + penalty


@inlined
def translate(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """When the physical address of a mapped address is known, given that the access starts at t.

    A first touch makes the page present and costs a minor fault.
    """
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    last = c[C_THREADS] + cpu * T_WORDS + T_PAGE
    if s[last] == page:
        return t
    s[last] = page
    if not s[c[C_PAGE_TABLE] + page] & PRESENT:
        count(c, s, core, E_FAULTS, 1)
        t += make_present(c, s, page)
    return _translate_slow(c, s, core, page, t)

"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages.

An entry of a TLB holds a tag: the number of a page plus one, or of a group of neighbouring pages (coalesced into one
entry) less than zero. Which set it lies in is bits of the number, a hash of it, or a hash of its own for each way
(skewed).
"""

from __future__ import annotations

from setebench.sim.events import E_FAULTS, E_TLB1_MISSES, E_TLB2_MISSES, E_WALKS
from setebench.sim.kernel.basics import count, free_entry, hold_entry
from setebench.sim.kernel.compiler import LANES, Ints, compiled, equal_words, first_bit, inlined
from setebench.sim.layout import (
    BASE_ADDRESS,
    BY_PAGE,
    BY_TLB_BITS,
    BY_TLB_SKEW,
    C_FAULT_2M,
    C_FAULT_4K,
    C_PAGE_TABLE,
    C_PAGES,
    C_STORE_TLB,
    C_THREADS,
    C_TLB,
    C_TLB_HINT,
    C_WALK_SLOTS,
    C_WALKERS,
    FRAME_BITS,
    HUGE,
    HUGE_BITS,
    HUGE_TLB,
    MAPPED,
    NEVER,
    PAGE_BITS,
    PRESENT,
    S_ACTIVE,
    S_STAMP,
    STORE_TABLES,
    T_PAGE,
    T_STORE_PAGE,
    T_WORDS,
    WALK_CACHE,
    X_GROUP_BITS,
    X_INDEX,
    X_PENALTY,
    X_SET_BITS,
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
def _group(c: Ints, s: Ints, page: int, bits: int) -> int:
    """The tag of a page in a table whose entries may hold an aligned group of 2**bits pages: that of the group where
    all of it is there in one stretch of physical memory, as aligned."""
    table = c[C_PAGE_TABLE]
    first = page >> bits << bits
    frame = s[table + first] >> FRAME_BITS
    if frame & ((1 << bits) - 1):
        return page + 1
    for part in range(1 << bits):
        word = s[table + first + part]
        if not word & PRESENT or word >> FRAME_BITS != frame + part:
            return page + 1
    return -(first + 1)


@inlined
def _tag(c: Ints, s: Ints, x: int, key: int) -> int:
    """What a table holds for a page: its number plus one, or less than zero for a group of pages."""
    if c[x + X_INDEX] == BY_PAGE or c[x + X_GROUP_BITS] == 0:
        return key + 1
    return _group(c, s, key, c[x + X_GROUP_BITS])


@inlined
def _page_of(tag: int) -> int:
    """The page of a tag, or the first of a group."""
    return tag - 1 if tag > 0 else -tag - 1


@compiled
def _mixed_set(c: Ints, x: int, tag: int, way: int) -> int:
    """As `_set_of`, of a table whose entries hold groups of pages or whose index is a hash."""
    number = _page_of(tag) >> c[x + X_GROUP_BITS]
    if c[x + X_INDEX] != BY_TLB_BITS:
        bits = c[x + X_SET_BITS]
        above = number >> bits
        if c[x + X_INDEX] == BY_TLB_SKEW:
            above *= 2 * way + 1
        number ^= above ^ (above >> bits)
    return number & (c[x + X_SETS] - 1)


@inlined
def _set_of(c: Ints, x: int, tag: int, way: int) -> int:
    """The set of a tag in one way of a table; the same in all ways but for a skewed one."""
    if c[x + X_INDEX] == BY_PAGE:
        return (tag - 1) & (c[x + X_SETS] - 1)
    return _mixed_set(c, x, tag, way)


@compiled
def _skewed_way(c: Ints, x: int, core: int, tag: int, way: int) -> int:
    """Where a tag may lie in one way of a skewed table, relative to its arrays."""
    return (core * c[x + X_SETS] + _set_of(c, x, tag, way)) * c[x + X_WAYS] + way


@compiled
def _table_lookup(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """Index of the tag in a TLB, relative to its arrays, or -1."""
    if c[x + X_INDEX] == BY_TLB_SKEW:
        for way in range(c[x + X_WAYS]):
            at = _skewed_way(c, x, core, tag, way)
            if s[c[x + X_TAGS] + at] == tag:
                return at
        return -1
    first = (core * c[x + X_SETS] + _set_of(c, x, tag, 0)) * c[x + X_WAYS]
    tags, ways = c[x + X_TAGS] + first, c[x + X_WAYS]
    for way in range(0, ways, LANES):  # what is compared beyond the ways are other sets' tags, or stamps
        found = equal_words(s, tags + way, 0, tag) & ((1 << min(ways - way, LANES)) - 1)
        if found:
            return first + way + first_bit(found)
    return -1


@compiled
def _table_use(c: Ints, s: Ints, x: int, at: int) -> None:
    s[S_STAMP] += 1
    s[c[x + X_STAMPS] + at] = s[S_STAMP]


@compiled
def _oldest_skewed(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """The place of a skewed table that a tag takes: the one used longest ago of those it may lie in."""
    best = _skewed_way(c, x, core, tag, 0)
    for way in range(1, c[x + X_WAYS]):
        at = _skewed_way(c, x, core, tag, way)
        if s[c[x + X_STAMPS] + at] < s[c[x + X_STAMPS] + best]:
            best = at
    return best


@compiled
def _table_insert(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """Put a tag into a TLB; returns its index."""
    if c[x + X_INDEX] == BY_TLB_SKEW:
        at = _oldest_skewed(c, s, x, core, tag)
    else:
        ways = c[x + X_WAYS]
        first = (core * c[x + X_SETS] + _set_of(c, x, tag, 0)) * ways
        stamps = c[x + X_STAMPS] + first
        oldest = NEVER
        for way in range(ways):  # as a minimum of numbers: branches would be guessed wrong
            oldest = min(oldest, (s[stamps + way] << WAY_BITS) | way)
        at = first + (oldest & ((1 << WAY_BITS) - 1))
    s[c[x + X_TAGS] + at] = tag
    _table_use(c, s, x, at)
    return at


@inlined
def _hint(c: Ints, key: int, huge: bool) -> int:
    """Where the state notes into which entry of a level-1 table a page was last put."""
    return c[C_TLB_HINT] + key + (c[C_PAGES] if huge else 0)


@compiled
def _l1_lookup(c: Ints, s: Ints, x: int, core: int, tag: int, huge: bool) -> int:
    """As `_table_lookup`, by way of where the page was last put: level-1 tables are large and fully associative."""
    if c[x + X_WAYS] == 0:
        return -1
    hint = s[_hint(c, _page_of(tag), huge)] - 1
    entries = c[x + X_SETS] * c[x + X_WAYS]
    if hint >= core * entries and hint < (core + 1) * entries and s[c[x + X_TAGS] + hint] == tag:
        return hint
    if not s[S_ACTIVE] & ~(1 << core):  # with one core, the hint is never another one's
        return -1
    return _table_lookup(c, s, x, core, tag)


@compiled
def tlb_misses(c: Ints, s: Ints, core: int, address: int) -> int:
    """How many TLB levels a load of the address would miss, 0 to 2, without changing anything."""
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    huge = (s[c[C_PAGE_TABLE] + page] & HUGE_TLB) != 0
    key = page >> (HUGE_BITS - PAGE_BITS) if huge else page
    x = C_TLB + (X_WORDS if huge else 0)
    if _l1_lookup(c, s, x, core, _tag(c, s, x, key), huge) >= 0:
        return 0
    x += 2 * X_WORDS
    if c[x + X_WAYS] > 0 and _table_lookup(c, s, x, core, _tag(c, s, x, key)) >= 0:
        return 1
    return 2


@compiled
def _upper_levels(c: Ints, s: Ints, core: int, page: int) -> int:
    """What a page walk takes longer because the upper levels of the page table are not at hand."""
    x = C_TLB + WALK_CACHE * X_WORDS
    if c[x + X_WAYS] == 0:
        return 0
    tag = (page >> (HUGE_BITS - PAGE_BITS)) + 1
    at = _table_lookup(c, s, x, core, tag)
    if at >= 0:
        _table_use(c, s, x, at)
        return 0
    _table_insert(c, s, x, core, tag)
    return c[x + X_PENALTY]


@compiled
def _walk(c: Ints, s: Ints, core: int, penalty: int, t: int) -> int:
    """When a page walk that takes so long is done, given the walkers."""
    count(c, s, core, E_WALKS, 1)
    walkers = c[C_WALK_SLOTS] + core * c[C_WALKERS]
    walker = free_entry(s, walkers, c[C_WALKERS], t)
    done = max(t, s[walker]) + penalty
    hold_entry(s, walkers, c[C_WALKERS], walker, done)
    return done


@compiled
def _translate_slow(c: Ints, s: Ints, core: int, page: int, stores: bool, t: int) -> int:
    """Look the page up in both TLBs, walk where needed; returns when the translation is there. `stores`: by the table
    of stores alone, where the machine has one."""
    huge = (s[c[C_PAGE_TABLE] + page] & HUGE_TLB) != 0
    key = page >> (HUGE_BITS - PAGE_BITS) if huge else page
    x = C_TLB + ((STORE_TABLES if stores else 0) + (1 if huge else 0)) * X_WORDS
    tag = _tag(c, s, x, key)
    at = _table_lookup(c, s, x, core, tag) if stores else _l1_lookup(c, s, x, core, tag, huge)
    if at >= 0:
        _table_use(c, s, x, at)
        return t
    if c[x + X_WAYS] > 0:
        count(c, s, core, E_TLB1_MISSES, 1)
        at = _table_insert(c, s, x, core, tag)
        if not stores:
            s[_hint(c, _page_of(tag), huge)] = at + 1
    penalty = c[x + X_PENALTY]
    x = C_TLB + (3 if huge else 2) * X_WORDS
    if c[x + X_WAYS] > 0:
        tag = _tag(c, s, x, key)
        at = _table_lookup(c, s, x, core, tag)
        if at >= 0:
            _table_use(c, s, x, at)
            return t + penalty
        _table_insert(c, s, x, core, tag)
        count(c, s, core, E_TLB2_MISSES, 1)
        penalty = c[x + X_PENALTY]
    if not huge:
        penalty += _upper_levels(c, s, core, page)
    return _walk(c, s, core, penalty, t)


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
    return _translate_slow(c, s, core, page, False, t)


@compiled
def _translate_by_own(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """As `translate`, of a store that has a first-level table apart from loads'."""
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    last = c[C_THREADS] + cpu * T_WORDS + T_STORE_PAGE
    if s[last] == page:
        return t
    s[last] = page
    if not s[c[C_PAGE_TABLE] + page] & PRESENT:
        count(c, s, core, E_FAULTS, 1)
        t += make_present(c, s, page)
    return _translate_slow(c, s, core, page, True, t)


@inlined
def translate_store(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """As `translate`, of a store."""
    if c[C_STORE_TLB]:
        return _translate_by_own(c, s, cpu, core, address, t)
    return translate(c, s, cpu, core, address, t)

"""Address translation: two levels of data TLBs per page size, page walks, first touches of pages.

An entry of a TLB holds a tag: the number of a page plus one, or of a group of neighbouring pages (coalesced into one
entry) less than zero. Which set it lies in is bits of the number, a hash of it, or a hash of its own for each way
(skewed).
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


@compiled
def _group(c: Ints, s: Ints, page: int, bits: int) -> int:
    """The tag of a page in a table whose entries may hold an aligned group of 2**bits pages: that of the group where
    all of it is there in one stretch of physical memory, as aligned."""
    table = c[lay.C_PAGE_TABLE]
    first = page >> bits << bits
    frame = s[table + first] >> lay.FRAME_BITS
    if frame & ((1 << bits) - 1):
        return page + 1
    for part in range(1 << bits):
        word = s[table + first + part]
        if not word & lay.PRESENT or word >> lay.FRAME_BITS != frame + part:
            return page + 1
    return -(first + 1)


@inlined
def _tag(c: Ints, s: Ints, x: int, key: int) -> int:
    """What a table holds for a page: its number plus one, or less than zero for a group of pages."""
    if c[x + lay.X_INDEX] == lay.BY_PAGE or c[x + lay.X_GROUP_BITS] == 0:
        return key + 1
    return _group(c, s, key, c[x + lay.X_GROUP_BITS])


@inlined
def _page_of(tag: int) -> int:
    """The page of a tag, or the first of a group."""
    return tag - 1 if tag > 0 else -tag - 1


@compiled
def _mixed_set(c: Ints, x: int, tag: int, way: int) -> int:
    """As `_set_of`, of a table whose entries hold groups of pages or whose index is a hash."""
    number = _page_of(tag) >> c[x + lay.X_GROUP_BITS]
    if c[x + lay.X_INDEX] != lay.BY_TLB_BITS:
        bits = c[x + lay.X_SET_BITS]
        above = number >> bits
        if c[x + lay.X_INDEX] == lay.BY_TLB_SKEW:
            above *= 2 * way + 1
        number ^= above ^ (above >> bits)
    return number & (c[x + lay.X_SETS] - 1)


@inlined
def _set_of(c: Ints, x: int, tag: int, way: int) -> int:
    """The set of a tag in one way of a table; the same in all ways but for a skewed one."""
    if c[x + lay.X_INDEX] == lay.BY_PAGE:
        return (tag - 1) & (c[x + lay.X_SETS] - 1)
    return _mixed_set(c, x, tag, way)


@compiled
def _skewed_way(c: Ints, x: int, core: int, tag: int, way: int) -> int:
    """Where a tag may lie in one way of a skewed table, relative to its arrays."""
    return (core * c[x + lay.X_SETS] + _set_of(c, x, tag, way)) * c[x + lay.X_WAYS] + way


@compiled
def _table_lookup(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """Index of the tag in a TLB, relative to its arrays, or -1."""
    if c[x + lay.X_INDEX] == lay.BY_TLB_SKEW:
        for way in range(c[x + lay.X_WAYS]):
            at = _skewed_way(c, x, core, tag, way)
            if s[c[x + lay.X_TAGS] + at] == tag:
                return at
        return -1
    first = (core * c[x + lay.X_SETS] + _set_of(c, x, tag, 0)) * c[x + lay.X_WAYS]
    tags, ways = c[x + lay.X_TAGS] + first, c[x + lay.X_WAYS]
    for way in range(0, ways, LANES):  # what is compared beyond the ways are other sets' tags, or stamps
        found = equal_words(s, tags + way, 0, tag) & ((1 << min(ways - way, LANES)) - 1)
        if found:
            return first + way + first_bit(found)
    return -1


@compiled
def _table_use(c: Ints, s: Ints, x: int, at: int) -> None:
    s[lay.S_STAMP] += 1
    s[c[x + lay.X_STAMPS] + at] = s[lay.S_STAMP]


@compiled
def _oldest_skewed(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """The place of a skewed table that a tag takes: the one used longest ago of those it may lie in."""
    best = _skewed_way(c, x, core, tag, 0)
    for way in range(1, c[x + lay.X_WAYS]):
        at = _skewed_way(c, x, core, tag, way)
        if s[c[x + lay.X_STAMPS] + at] < s[c[x + lay.X_STAMPS] + best]:
            best = at
    return best


@compiled
def _table_insert(c: Ints, s: Ints, x: int, core: int, tag: int) -> int:
    """Put a tag into a TLB; returns its index."""
    if c[x + lay.X_INDEX] == lay.BY_TLB_SKEW:
        at = _oldest_skewed(c, s, x, core, tag)
    else:
        ways = c[x + lay.X_WAYS]
        first = (core * c[x + lay.X_SETS] + _set_of(c, x, tag, 0)) * ways
        stamps = c[x + lay.X_STAMPS] + first
        oldest = lay.NEVER
        for way in range(ways):  # as a minimum of numbers: branches would be guessed wrong
            oldest = min(oldest, (s[stamps + way] << WAY_BITS) | way)
        at = first + (oldest & ((1 << WAY_BITS) - 1))
    s[c[x + lay.X_TAGS] + at] = tag
    _table_use(c, s, x, at)
    return at


@inlined
def _hint(c: Ints, key: int, huge: bool) -> int:
    """Where the state notes into which entry of a level-1 table a page was last put."""
    return c[lay.C_TLB_HINT] + key + (c[lay.C_PAGES] if huge else 0)


@compiled
def _l1_lookup(c: Ints, s: Ints, x: int, core: int, tag: int, huge: bool) -> int:
    """As `_table_lookup`, by way of where the page was last put: level-1 tables are large and fully associative."""
    if c[x + lay.X_WAYS] == 0:
        return -1
    hint = s[_hint(c, _page_of(tag), huge)] - 1
    entries = c[x + lay.X_SETS] * c[x + lay.X_WAYS]
    if hint >= core * entries and hint < (core + 1) * entries and s[c[x + lay.X_TAGS] + hint] == tag:
        return hint
    if not s[lay.S_ACTIVE] & ~(1 << core):  # with one core, the hint is never another one's
        return -1
    return _table_lookup(c, s, x, core, tag)


@compiled
def tlb_misses(c: Ints, s: Ints, core: int, address: int) -> int:
    """How many TLB levels a load of the address would miss, 0 to 2, without changing anything."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    huge = (s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE_TLB) != 0
    key = page >> (lay.HUGE_BITS - lay.PAGE_BITS) if huge else page
    x = lay.C_TLB + (lay.X_WORDS if huge else 0)
    if _l1_lookup(c, s, x, core, _tag(c, s, x, key), huge) >= 0:
        return 0
    x += 2 * lay.X_WORDS
    if c[x + lay.X_WAYS] > 0 and _table_lookup(c, s, x, core, _tag(c, s, x, key)) >= 0:
        return 1
    return 2


@compiled
def _upper_levels(c: Ints, s: Ints, core: int, page: int) -> int:
    """What a page walk takes longer because the upper levels of the page table are not at hand."""
    x = lay.C_TLB + lay.WALK_CACHE * lay.X_WORDS
    if c[x + lay.X_WAYS] == 0:
        return 0
    tag = (page >> (lay.HUGE_BITS - lay.PAGE_BITS)) + 1
    at = _table_lookup(c, s, x, core, tag)
    if at >= 0:
        _table_use(c, s, x, at)
        return 0
    _table_insert(c, s, x, core, tag)
    return c[x + lay.X_PENALTY]


@compiled
def _walk(c: Ints, s: Ints, core: int, penalty: int, t: int) -> int:
    """When a page walk that takes so long is done, given the walkers."""
    walkers = c[lay.C_WALK_SLOTS] + core * c[lay.C_WALKERS]
    walker = free_entry(s, walkers, c[lay.C_WALKERS], t)
    done = max(t, s[walker]) + penalty
    hold_entry(s, walkers, c[lay.C_WALKERS], walker, done)
    return done


@compiled
def _translate_slow(c: Ints, s: Ints, core: int, page: int, stores: bool, t: int) -> int:
    """Look the page up in both TLBs, walk where needed; returns when the translation is there. `stores`: by the table
    of stores alone, where the machine has one."""
    huge = (s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE_TLB) != 0
    key = page >> (lay.HUGE_BITS - lay.PAGE_BITS) if huge else page
    x = lay.C_TLB + ((lay.STORE_TABLES if stores else 0) + (1 if huge else 0)) * lay.X_WORDS
    tag = _tag(c, s, x, key)
    at = _table_lookup(c, s, x, core, tag) if stores else _l1_lookup(c, s, x, core, tag, huge)
    if at >= 0:
        _table_use(c, s, x, at)
        return t
    if c[x + lay.X_WAYS] > 0:
        at = _table_insert(c, s, x, core, tag)
        if not stores:
            s[_hint(c, _page_of(tag), huge)] = at + 1
    penalty = c[x + lay.X_PENALTY]
    x = lay.C_TLB + (3 if huge else 2) * lay.X_WORDS
    if c[x + lay.X_WAYS] > 0:
        tag = _tag(c, s, x, key)
        at = _table_lookup(c, s, x, core, tag)
        if at >= 0:
            _table_use(c, s, x, at)
            return t + penalty
        _table_insert(c, s, x, core, tag)
        penalty = c[x + lay.X_PENALTY]
    if not huge:
        penalty += _upper_levels(c, s, core, page)
    return _walk(c, s, core, penalty, t)


@inlined
def translate(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """When the physical address of a mapped address is known, given that the access starts at t.

    A first touch makes the page present and costs a minor fault.
    """
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    last = c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_PAGE
    if s[last] == page:
        return t
    s[last] = page
    if not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        t += make_present(c, s, page)
    return _translate_slow(c, s, core, page, False, t)


@compiled
def _translate_by_own(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """As `translate`, of a store that has a first-level table apart from loads'."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    last = c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_STORE_PAGE
    if s[last] == page:
        return t
    s[last] = page
    if not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        t += make_present(c, s, page)
    return _translate_slow(c, s, core, page, True, t)


@inlined
def translate_store(c: Ints, s: Ints, cpu: int, core: int, address: int, t: int) -> int:
    """As `translate`, of a store."""
    if c[lay.C_STORE_TLB]:
        return _translate_by_own(c, s, cpu, core, address, t)
    return translate(c, s, cpu, core, address, t)

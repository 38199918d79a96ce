"""gem5: a Python class for each classic cache, and TLB sizes.

`size` in bytes ("32768B"), `assoc` in ways, `mshrs` in entries, latencies in cycles of the cache's clock, which is the
core's. A hit costs the larger of `tag_latency` and `data_latency`; a miss its level's `tag_latency`, all that is
below, and `response_latency`. So level 1 gets its load-to-use latency as `data_latency`, and each further level what
it has more than the tags and responses on the way, which are assumed to be 1 each; crossbars' own latencies are to be
taken off by whoever puts them in. Rounded to the nearest, at least 1. `tgts_per_mshr` has no default in gem5 and is
assumed. gem5 takes powers of two alone: of sets, of ways of a tree of pseudo-LRU. `clusivity` is mostly exclusive
where lines were seen to leave the outer cache for the inner one, and mostly inclusive where that was seen not to be,
or lines leave the inner cache with the outer. Prefetchers: `StridePrefetcher` and `TaggedPrefetcher` with gem5's own
numbers; streams have no class of their own kind. Names: gem5, src/mem/cache/Cache.py, prefetch/Prefetcher.py,
arch/x86/X86TLB.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format, Sheet
from setebench.export.source import Source
from setebench.export.values import Known, Open, Row, Value, assumed, reworded

TAG = RESPONSE = 1
TARGETS = 20  # of an MSHR: what gem5's own example caches have (configs/common/Caches.py)
POLICIES = {
    "lru": "LRURP()",
    "tree_plru": "TreePLRURP()",
    "bit_plru": "NRURP()",
    "random": "RandomRP()",
    "srrip": "RRIPRP()",
}
CLASSES = {1: "SetebenchL1D(Cache)", 2: "SetebenchL2(Cache)", 3: "SetebenchL3(Cache)", 4: "SetebenchL4(Cache)"}
POWERS = tuple(1 << power for power in range(24))
TAGGED = "TaggedPrefetcher(degree=1)"
PREFETCHERS = (("stride", "StridePrefetcher()"), ("next_line", TAGGED), ("pair", TAGGED))


def rows(source: Source) -> Iterator[Row]:
    for level in source.levels:
        yield from ((f"{CLASSES[level]} {key}", known) for key, known in _cache(source, level))
    yield "SetebenchTLB(X86TLB) size", source.count("tlb.l1.entries.4k")


def _cache(source: Source, level: int) -> Iterator[Row]:
    yield "size", reworded(source.buildable(level, source.size(level)), lambda size: repr(f"{size}B"))
    yield "assoc", source.buildable(level, source.ways(level))
    yield "replacement_policy", source.replacement(level, POLICIES, POWERS)
    yield "tag_latency", assumed(TAG, "cycles", "no finding divides a latency")
    less = (level - 1) * (TAG + RESPONSE)
    how = f"latency.l{level} less {less} cycles of tags and responses before it"
    yield "data_latency", source.less(level, less, how)
    yield "response_latency", assumed(RESPONSE, "cycles", "no finding divides a latency")
    yield "mshrs", source.count(f"mshr.l{level}.demand")
    yield "tgts_per_mshr", assumed(TARGETS, "targets", "as gem5's example caches")
    if level > 1:
        yield "clusivity", _clusivity(source, level)
    if level < 3:
        yield "prefetcher", source.nearest(level, PREFETCHERS)


def _clusivity(source: Source, level: int) -> Known:
    """gem5 decides whether misses fill a cache by whether they leave it to what was evicted above."""
    exclusive = source.flag(f"cache.l{level}.exclusive_of_l{level - 1}")
    if isinstance(exclusive, Value):
        return reworded(exclusive, lambda yes: "'mostly_excl'" if yes else "'mostly_incl'")
    inclusive = source.flag(f"cache.l{level - 1}.inclusive_in_l{level}")
    if isinstance(inclusive, Value) and not inclusive.value:
        return Open(inclusive.parameters[0], "not inclusive, which does not say that it is exclusive")
    return reworded(inclusive, lambda _yes: "'mostly_incl'")


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    yield from source.heading("#", "gem5: caches and TLB, with what was measured")
    yield "from m5.objects import *"
    for name, part in sheet.parts().items():
        yield from ("", "", f"class {name}:")
        yield from (f"    {line}" for line in (*part.lines("#", "{key} = {value}"), "pass", *part.missing("#")))


FORMAT = Format("gem5", "gem5: Python classes of classic caches and the TLB", rows, lines)

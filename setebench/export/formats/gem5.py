"""gem5: a Python class for each classic cache, and TLB sizes.

`size` in bytes ("32768B"), `assoc` in ways, `mshrs` in entries, latencies in cycles of the cache's clock, which is
the core's. A hit costs the larger of `tag_latency` and `data_latency`; a miss its level's `tag_latency`, all that is
below, and `response_latency`. So level 1 gets its load-to-use latency as `data_latency`, and each further level what
it has more than the tags and responses on the way, which are assumed to be 1 each; crossbars' own latencies are to be
taken off by whoever puts them in. Rounded to the nearest, at least 1. `tgts_per_mshr` has no default in gem5 and is
assumed. gem5 takes powers of two alone: of sets, of ways of a tree of pseudo-LRU, of a prefetcher's entries (four at
least). `clusivity` is mostly exclusive where lines were seen to leave the outer cache for the inner one, and mostly
inclusive where that was seen not to be, or lines leave the inner cache with the outer. Prefetchers:
`StridePrefetcher` (`degree` in lines, `distance` in strides skipped, `table_entries`) and `TaggedPrefetcher`
(`degree`); streams have no class of their own kind. Names: gem5, src/mem/cache/Cache.py, prefetch/Prefetcher.py,
arch/x86/X86TLB.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.export.format import Format
from setebench.export.prefetchers import not_expressed, parameter, present
from setebench.export.source import Source
from setebench.export.values import Known, Open, Sheet, Value, assumed, derived, weakest

TAG = 1
RESPONSE = 1
TARGETS = 20
"""Of an MSHR: what gem5's own example caches have (configs/common/Caches.py)."""

POLICIES = {
    "lru": "LRURP()",
    "tree_plru": "TreePLRURP()",
    "bit_plru": "NRURP()",
    "random": "RandomRP()",
    "srrip": "RRIPRP()",
}
CLASSES = {1: "SetebenchL1D", 2: "SetebenchL2", 3: "SetebenchL3", 4: "SetebenchL4"}
POWERS = tuple(1 << power for power in range(24))


@dataclass(frozen=True)
class _Class:
    """One class of the file: its name, its base, and its fields."""

    name: str
    base: str
    sheet: Sheet


def write(source: Source) -> str:
    """A Python module for a gem5 script to import."""
    classes = [_cache(source, level) for level in source.levels]
    classes.append(_tlb(source))
    lines = source.heading("#", "gem5: caches and TLB, with what was measured")
    lines.append("from m5.objects import *")
    for each in classes:
        lines += ["", "", f"class {each.name}({each.base}):"]
        for entry in each.sheet.entries:
            lines += [f"    # {entry.value.comment}", f"    {entry.key} = {entry.value.value}"]
        lines += ["    pass", *(f"    {line}" for line in each.sheet.missing("#"))]
    return "\n".join(lines) + "\n"


def _cache(source: Source, level: int) -> _Class:
    sheet = Sheet()
    sheet.put("size", _size(source.buildable(level, source.size(level))))
    sheet.put("assoc", source.buildable(level, source.ways(level)))
    sheet.put("replacement_policy", source.replacement(level, POLICIES, POWERS))
    sheet.put("tag_latency", assumed(TAG, "cycles", "no finding divides a latency"))
    sheet.put("data_latency", _data_latency(source, level))
    sheet.put("response_latency", assumed(RESPONSE, "cycles", "no finding divides a latency"))
    sheet.put("mshrs", source.count(f"mshr.l{level}.demand"))
    sheet.put("tgts_per_mshr", assumed(TARGETS, "targets", "as gem5's example caches"))
    if level > 1:
        sheet.put("clusivity", _clusivity(source, level))
    if level < 3:
        sheet.put("prefetcher", _prefetcher(source, level))
    return _Class(CLASSES[level], "Cache", sheet)


def _size(known: Known) -> Known:
    return known if isinstance(known, Open) else replace(known, value=repr(f"{known.value}B"))


def _data_latency(source: Source, level: int) -> Known:
    if level == 1:
        return derived(lambda cycles: max(cycles, 1), "cycles", (source.latency("l1"),), "")
    less = (level - 1) * (TAG + RESPONSE)
    how = f"latency.l{level} less {less} cycles of tags and responses before it"
    return derived(lambda cycles: max(cycles - less, 1), "cycles", (source.latency(f"l{level}"),), how)


def _clusivity(source: Source, level: int) -> Known:
    """gem5 tells whether misses fill a cache from whether they leave it to what was evicted above."""
    exclusive = source.flag(f"cache.l{level}.exclusive_of_l{level - 1}")
    if isinstance(exclusive, Value):
        return replace(exclusive, value="'mostly_excl'" if exclusive.value else "'mostly_incl'")
    inclusive = source.flag(f"cache.l{level - 1}.inclusive_in_l{level}")
    if isinstance(inclusive, Open):
        return inclusive
    if not inclusive.value:
        return Open(inclusive.parameters[0], "not inclusive, which does not say that it is exclusive")
    return replace(inclusive, value="'mostly_incl'")


def _prefetcher(source: Source, level: int) -> Known:
    there = present(source, level)
    if "stride" in there:
        return _stride(source, level, not_expressed(there, "stride"))
    near = next((kind for kind in ("next_line", "pair") if kind in there), None)
    if near is not None:
        why = f"nearest in kind to l{level}.{near}{not_expressed(there, near)}"
        return assumed("TaggedPrefetcher(degree=1)", "", why)
    found = ", ".join(there) or "nothing that is settled"
    return Open(f"prefetcher.l{level}", f"gem5 has no class for what was found: {found}")


def _stride(source: Source, level: int, others: str) -> Known:
    given = {
        "degree": parameter(source, level, "stride", "degree"),
        "table_entries": parameter(source, level, "stride", "streams"),
    }
    settled = {
        name: known
        for name, known in given.items()
        if isinstance(known, Value) and (name == "degree" or known.value in POWERS[2:])
    }
    arguments = ", ".join(f"{name}={_argument(name, known)}" for name, known in settled.items())
    there = source.flag(f"prefetcher.l{level}.stride.present")
    assert isinstance(there, Value)
    names = tuple(name for known in settled.values() for name in known.parameters)
    why = f"l{level}.stride; gem5's defaults for the rest{others}"
    origin = weakest((there, *settled.values()))
    return Value(f"StridePrefetcher({arguments})", "", origin, why, parameters=names or there.parameters)


def _argument(name: str, known: Value) -> str:
    """Entries of a table are a memory size to gem5, which is a string."""
    return repr(str(known.value)) if name == "table_entries" else str(known.value)


def _tlb(source: Source) -> _Class:
    sheet = Sheet()
    sheet.put("size", source.count("tlb.l1.entries.4k"))
    return _Class("SetebenchTLB", "X86TLB", sheet)


FORMAT = Format("gem5", "gem5: Python classes of classic caches and the TLB", write)

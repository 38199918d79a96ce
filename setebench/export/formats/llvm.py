"""What LLVM's TargetTransformInfo answers, as C++ functions to put into a target, and the options that need no new
compiler.

Cache and line sizes in bytes, associativity in ways. `getPrefetchDistance` and `-prefetch-distance` count
instructions (memory's latency in cycles, one instruction a cycle assumed), rounded to the nearest; strides are bytes,
one more than the largest that a hardware prefetcher follows; iterations ahead are as many as software prefetches can
be in flight, one line an iteration assumed. Names: llvm/Analysis/TargetTransformInfo.h and
lib/Transforms/Scalar/LoopDataPrefetch.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Row, Sheet, derived, with_assumption

OPTIONS = {
    "getPrefetchDistance": "prefetch-distance",
    "getMinPrefetchStride": "min-prefetch-stride",
    "getMaxPrefetchIterationsAhead": "max-prefetch-iters-ahead",
}
ARGUMENTS = {"getMinPrefetchStride": "unsigned, unsigned, unsigned, bool"}
BY_LEVEL = ("getCacheSize", "getCacheAssociativity")


def rows(source: Source) -> Iterator[Row]:
    yield from source.other_levels((1, 2))
    yield "getCacheLineSize", source.line(1)
    for level, name in ((1, "L1D"), (2, "L2D")):
        yield f"getCacheSize {name}", source.size(level)
        yield f"getCacheAssociativity {name}", source.ways(level)
    yield "getPrefetchDistance", source.prefetch_latency()
    yield "getMinPrefetchStride", source.least_stride()
    entries = (source.count("mshr.l1.prefetch"),)
    ahead = derived(lambda most: most, "iterations", entries, "prefetches in flight", int)
    yield "getMaxPrefetchIterationsAhead", with_assumption(ahead, "one line an iteration is assumed")


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    yield from source.heading("//", "LLVM: hooks of TargetTransformInfo, with what was measured")
    options = [f"-{option}={sheet.get(hook)}" for hook, option in OPTIONS.items() if hook in sheet.values]
    if options:
        yield "// clang: " + " ".join(f"-mllvm {option}" for option in options)
    yield "// opt: " + " ".join(options) if options else "// no option can be given"
    for key, each in sheet.values.items():
        if " " not in key:
            yield f"// {each.comment}"
            yield f"unsigned {key}({ARGUMENTS.get(key, '')}) const {{ return {each.value}; }}"
    parts = sheet.parts()
    for name in BY_LEVEL:
        if parts[name].values:
            yield f"std::optional<unsigned> {name}(TargetTransformInfo::CacheLevel Level) const {{"
            choice = "  if (Level == TargetTransformInfo::CacheLevel::{key}) return {value};"
            yield from parts[name].lines("  //", choice)
            yield from ("  return std::nullopt;", "}")
    yield from sheet.missing("//")


FORMAT = Format("llvm", "LLVM: TargetTransformInfo hooks, and -mllvm options", rows, lines)

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

from setebench.export.format import Format, Sheet, commented
from setebench.export.source import Source, same
from setebench.export.values import Row, derived, with_assumption

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
    for level in (1, 2):
        yield f"getCacheSize L{level}D", source.size(level)
        yield f"getCacheAssociativity L{level}D", source.ways(level)
    yield "getPrefetchDistance", source.prefetch_latency()
    yield "getMinPrefetchStride", source.least_stride()
    ahead = derived(same, "iterations", (source.count("mshr.l1.prefetch"),), "prefetches in flight", int)
    yield "getMaxPrefetchIterationsAhead", with_assumption(ahead, "one line an iteration is assumed")


def body(sheet: Sheet) -> Iterator[str]:
    options = [f"-{option}={sheet.get(hook)}" for hook, option in OPTIONS.items() if hook in sheet.values]
    if options:
        yield "// clang: " + " ".join(f"-mllvm {option}" for option in options)
        yield "// opt: " + " ".join(options)
    for key, each in sheet.values.items():
        if " " not in key:
            yield f"// {each.comment}"
            yield f"unsigned {key}({ARGUMENTS.get(key, '')}) const {{ return {each.value}; }}"
    parts = sheet.parts()
    for name in BY_LEVEL:
        if parts[name].values:
            yield f"std::optional<unsigned> {name}(TargetTransformInfo::CacheLevel Level) const {{"
            choice = "  if (Level == TargetTransformInfo::CacheLevel::{key}) return {value};"
            yield from (*parts[name].lines("  //", choice), "  return std::nullopt;", "}")


LINES = commented("//", "LLVM: hooks of TargetTransformInfo, with what was measured", body)
FORMAT = Format("llvm", "LLVM: TargetTransformInfo hooks, and -mllvm options", rows, LINES)

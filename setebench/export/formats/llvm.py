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
from setebench.export.values import Entry, Known, Sheet, derived, with_assumption

OPTIONS = {
    "getPrefetchDistance": "prefetch-distance",
    "getMinPrefetchStride": "min-prefetch-stride",
    "getMaxPrefetchIterationsAhead": "max-prefetch-iters-ahead",
}
SIGNATURES = {
    "getCacheLineSize": "unsigned getCacheLineSize() const",
    "getPrefetchDistance": "unsigned getPrefetchDistance() const",
    "getMinPrefetchStride": "unsigned getMinPrefetchStride(unsigned, unsigned, unsigned, bool) const",
    "getMaxPrefetchIterationsAhead": "unsigned getMaxPrefetchIterationsAhead() const",
}
BY_LEVEL = {"getCacheSize": "unsigned", "getCacheAssociativity": "unsigned"}


def write(source: Source) -> str:
    """Functions of one class, and the options in comments above them."""
    sheet = Sheet()
    source.levels_within(sheet, (1, 2))
    sheet.put("getCacheLineSize", source.line(1))
    for level, name in ((1, "L1D"), (2, "L2D")):
        sheet.put(f"getCacheSize {name}", source.size(level))
        sheet.put(f"getCacheAssociativity {name}", source.ways(level))
    sheet.put("getPrefetchDistance", source.prefetch_latency())
    least = derived(lambda stride: stride + 1, "bytes", (source.followed_strides(),), "first stride not followed", int)
    sheet.put("getMinPrefetchStride", least)
    sheet.put("getMaxPrefetchIterationsAhead", _iterations(source))
    lines = source.heading("//", "LLVM: hooks of TargetTransformInfo, with what was measured")
    lines += _options(sheet)
    for name in SIGNATURES:
        lines += _plain(sheet, name)
    for name in BY_LEVEL:
        lines += _by_level(sheet, name)
    return "\n".join([*lines, *sheet.missing("//")]) + "\n"


def _iterations(source: Source) -> Known:
    entries = derived(lambda most: most, "iterations", (source.count("mshr.l1.prefetch"),), "prefetches in flight", int)
    return with_assumption(entries, "one line an iteration is assumed")


def _options(sheet: Sheet) -> list[str]:
    given = {entry.key: entry.value.value for entry in sheet.entries}
    options = [f"-{option}={given[hook]}" for hook, option in OPTIONS.items() if hook in given]
    if not options:
        return ["// no option can be given"]
    return ["// clang: " + " ".join(f"-mllvm {option}" for option in options), "// opt: " + " ".join(options)]


def _plain(sheet: Sheet, name: str) -> Iterator[str]:
    for entry in sheet.entries:
        if entry.key == name:
            yield from (f"// {entry.value.comment}", f"{SIGNATURES[name]} {{ return {entry.value.value}; }}")


def _by_level(sheet: Sheet, name: str) -> Iterator[str]:
    entries: list[Entry] = [entry for entry in sheet.entries if entry.key.startswith(f"{name} ")]
    if not entries:
        return
    yield f"std::optional<unsigned> {name}(TargetTransformInfo::CacheLevel Level) const {{"
    for entry in entries:
        level = entry.key.split()[1]
        yield f"  // {entry.value.comment}"
        yield f"  if (Level == TargetTransformInfo::CacheLevel::{level}) return {entry.value.value};"
    yield "  return std::nullopt;"
    yield "}"


FORMAT = Format("llvm", "LLVM: TargetTransformInfo hooks, and -mllvm options", write)

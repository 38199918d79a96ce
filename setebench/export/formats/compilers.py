"""What compilers and libraries that are compiled take: GCC, LLVM, glibc, and a header for C and C++. Comments are
lines that begin with the language's mark."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.source import PRIVATE, Source
from setebench.export.values import Format, Known, Open, Row, Sheet, derived, exact, with_assumption
from setebench.text import KIBI

# -- GCC --------------------------------------------------------------------------------------------------------------

USE = "use: gcc -O2 -fprefetch-loop-arrays $(sed '/^#/d' THIS-FILE) ..."


def gcc_rows(source: Source) -> Iterator[Row]:
    """Parameters of GCC's loop prefetching. `l1-cache-size` and `l2-cache-size` in KiB, rounded down; line size in
    bytes; `simultaneous-prefetches` are level-1 misses that software prefetches can have in flight; `prefetch-latency`
    in instructions (memory's latency in cycles, one instruction a cycle assumed), rounded; `prefetch-minimum-stride` in
    bytes, one more than the largest stride that a hardware prefetcher follows. Names: GCC 12 manual, "Optimize
    Options", and `gcc --help=params`. gcc reads no comments, so they are taken out on the way (`USE`)."""
    yield "l1-cache-size", source.size(1, KIBI, "KiB")
    yield "l1-cache-line-size", source.line(1)
    yield "l2-cache-size", source.size(2, KIBI, "KiB")
    yield "simultaneous-prefetches", source.count("mshr.l1.prefetch")
    yield "prefetch-latency", source.prefetch_latency()
    yield "prefetch-minimum-stride", source.least_stride()


def gcc(_source: Source, sheet: Sheet) -> Iterator[str]:
    yield f"# {USE}"
    yield from sheet.lines("#", "--param={key}={value}")


# -- LLVM -------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "getPrefetchDistance": "prefetch-distance",
    "getMinPrefetchStride": "min-prefetch-stride",
    "getMaxPrefetchIterationsAhead": "max-prefetch-iters-ahead",
}
ARGUMENTS = {"getMinPrefetchStride": "unsigned, unsigned, unsigned, bool"}
BY_LEVEL = ("getCacheSize", "getCacheAssociativity")


def llvm_rows(source: Source) -> Iterator[Row]:
    """What LLVM's TargetTransformInfo answers, as C++ functions to put into a target, and the options that need no new
    compiler. Sizes in bytes, ways; prefetch distance in instructions and strides in bytes as for GCC; iterations ahead
    are as many as software prefetches can be in flight, one line an iteration assumed. Names:
    llvm/Analysis/TargetTransformInfo.h and lib/Transforms/Scalar/LoopDataPrefetch.cpp."""
    yield "getCacheLineSize", source.line(1)
    for level in (1, 2):
        yield f"getCacheSize L{level}D", source.size(level)
        yield f"getCacheAssociativity L{level}D", source.ways(level)
    yield "getPrefetchDistance", source.prefetch_latency()
    yield "getMinPrefetchStride", source.least_stride()
    ahead = derived(float, "iterations", (source.count("mshr.l1.prefetch"),), "prefetches in flight", int)
    yield "getMaxPrefetchIterationsAhead", with_assumption(ahead, "one line an iteration is assumed")


def llvm(_source: Source, sheet: Sheet) -> Iterator[str]:
    options = [f"-mllvm -{option}={sheet.get(hook)}" for hook, option in OPTIONS.items() if hook in sheet.values]
    yield from [f"// clang: {' '.join(options)}"] if options else ()
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


# -- glibc ------------------------------------------------------------------------------------------------------------

STEP, FRACTION, LEAST = 256, 0.75, 0x4040
RULE = f"{FRACTION} of it, at least the core's"


def glibc_rows(source: Source) -> Iterator[Row]:
    """Tunables of glibc's string and memory functions, in bytes. `x86_data_cache_size` is the first cache;
    `x86_shared_cache_size` is a thread's part of the last one (its size over the CPUs that share it), no less than its
    part of the last cache that a core has to itself; both rounded down to 256, as glibc does.
    `x86_non_temporal_threshold` is three quarters of a thread's part, glibc's rule up to 2.37, but no less than its
    part of its core's cache, nor than the 0x4040 that glibc allows. Of sizes that are only bounded nothing follows:
    copies that would fit the cache then went around it. Names: glibc manual, "Hardware Capability Tunables"; rules:
    sysdeps/x86/dl-cacheinfo.h."""
    yield "x86_data_cache_size", derived(float, "bytes", (exact(source.size(1)),), "", _down)
    levels = source.levels or [1]
    last, own = _part(source, levels[-1]), _part(source, max({1, *levels} & set(PRIVATE)))
    shared = derived(max, "bytes", (last, own), "a CPU's part, at least of its core's cache", _down)
    if levels[-1] == 1:
        shared = Open("cache.l2.size", "this result has no cache behind the first")
    yield "x86_shared_cache_size", shared
    rule = derived(lambda part, least: max(FRACTION * part, least, LEAST), "bytes", (shared, own), RULE, int)
    yield "x86_non_temporal_threshold", rule


def _part(source: Source, level: int) -> Known:
    groups, why = source.sharing(level)
    cpus = max(sum(map(len, group)) for group in groups)
    part = derived(lambda size: size / cpus, "bytes", (exact(source.size(level)),), "", _down)
    return with_assumption(part, f"level {level} is divided by {cpus} CPUs: {why}")


def _down(size: float) -> int:
    return int(size) // STEP * STEP


def glibc(_source: Source, sheet: Sheet) -> Iterator[str]:
    yield from (f"# {key}: {each.comment}" for key, each in sheet.values.items())
    if sheet.values:
        yield "export GLIBC_TUNABLES=" + ":".join(f"glibc.cpu.{key}={sheet.get(key)}" for key in sheet.values)


# -- a header ---------------------------------------------------------------------------------------------------------

COUNTS = (
    *(f"mshr.l{level}.{kind}" for level in (1, 2) for kind in ("demand", "prefetch")),
    *(f"tlb.l{level}.entries.{page}" for page in ("4k", "2m") for level in (1, 2)),
)


def header_rows(source: Source) -> Iterator[Row]:
    """A `#define` for each value. Sizes in bytes, latencies in core
    cycles and in nanoseconds (not rounded), bandwidth of loads with one thread in bytes a second, rounded. What is not
    defined was left open: `#ifdef` asks. Names are setebench's own."""
    for level in source.levels:
        yield f"l{level}_bytes", source.size(level)
        yield f"l{level}_ways", source.ways(level)
        yield f"l{level}_line_bytes", source.get(f"cache.l{level}.line_size")
    for name in source.places:
        yield f"{name}_cycles", derived(float, "cycles", (source.get(f"latency.{name}"),), "", float)
        yield f"{name}_nanoseconds", source.nanoseconds(name)
        yield f"{name}_bytes_per_second", source.bandwidth(name)
    for parameter in COUNTS:
        yield parameter.replace(".", "_"), source.count(parameter)


def header(_source: Source, sheet: Sheet) -> Iterator[str]:
    yield from ("#ifndef SETEBENCH_MACHINE_H", "#define SETEBENCH_MACHINE_H")
    for key, each in sheet.values.items():
        long = "LL" if isinstance(each.value, int) and each.value >= 1 << 31 else ""
        yield from (f"// {each.comment}", f"#define SETEBENCH_{key.upper()} {each.value!r}{long}")
    yield "#endif"


FORMATS = (
    Format("gcc", "GCC: --param= options of loop prefetching", gcc_rows, gcc, "#"),
    Format("llvm", "LLVM: TargetTransformInfo hooks, and -mllvm options", llvm_rows, llvm, "//"),
    Format("glibc", "glibc: GLIBC_TUNABLES of memory functions", glibc_rows, glibc, "#"),
    Format("c", "C and C++: a header of #defines", header_rows, header, "//"),
)

"""Parameters of GCC's loop prefetching, as options.

`l1-cache-size` and `l2-cache-size` in KiB, rounded down; `l1-cache-line-size` in bytes; `simultaneous-prefetches` in
prefetches (level-1 misses that software prefetches can have in flight); `prefetch-latency` in instructions (memory's
latency in cycles, one instruction a cycle assumed), rounded to the nearest; `prefetch-minimum-stride` in bytes, one
more than the largest stride that a hardware prefetcher follows. Names and units: GCC 12 manual, "Optimize Options",
and `gcc --help=params`. Comments are lines that begin with `#`; gcc reads none, so they are taken out on the way (the
first lines say how).
"""

from __future__ import annotations

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Sheet, derived

KIB = 1024


def write(source: Source) -> str:
    """One option a line, each below its comment."""
    sheet = Sheet()
    source.levels_within(sheet, (1, 2))
    sheet.put("l1-cache-size", source.size(1, KIB, "KiB"))
    sheet.put("l1-cache-line-size", source.line(1))
    sheet.put("l2-cache-size", source.size(2, KIB, "KiB"))
    sheet.put("simultaneous-prefetches", source.count("mshr.l1.prefetch"))
    sheet.put("prefetch-latency", source.prefetch_latency())
    least = derived(lambda stride: stride + 1, "bytes", (source.followed_strides(),), "first stride not followed", int)
    sheet.put("prefetch-minimum-stride", least)
    lines = source.heading("#", "GCC: -fprefetch-loop-arrays, with what was measured")
    lines.append("# use: gcc -O2 -fprefetch-loop-arrays $(sed '/^#/d' THIS-FILE) ...")
    for entry in sheet.entries:
        lines += [f"# {entry.value.comment}", f"--param={entry.key}={entry.value.value}"]
    return "\n".join([*lines, *sheet.missing("#")]) + "\n"


FORMAT = Format("gcc", "GCC: --param= options of loop prefetching", write)

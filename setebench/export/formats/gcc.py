"""Parameters of GCC's loop prefetching, as options.

`l1-cache-size` and `l2-cache-size` in KiB, rounded down; `l1-cache-line-size` in bytes; `simultaneous-prefetches` in
prefetches (level-1 misses that software prefetches can have in flight); `prefetch-latency` in instructions (memory's
latency in cycles, one instruction a cycle assumed), rounded to the nearest; `prefetch-minimum-stride` in bytes, one
more than the largest stride that a hardware prefetcher follows. Names and units: GCC 12 manual, "Optimize Options",
and `gcc --help=params`. Comments are lines that begin with `#`; gcc reads none, so they are taken out on the way (the
first lines say how).
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format, commented
from setebench.export.source import KIB, Source
from setebench.export.values import Row

USE = "use: gcc -O2 -fprefetch-loop-arrays $(sed '/^#/d' THIS-FILE) ..."


def rows(source: Source) -> Iterator[Row]:
    yield from source.other_levels((1, 2))
    yield "l1-cache-size", source.size(1, KIB, "KiB")
    yield "l1-cache-line-size", source.line(1)
    yield "l2-cache-size", source.size(2, KIB, "KiB")
    yield "simultaneous-prefetches", source.count("mshr.l1.prefetch")
    yield "prefetch-latency", source.prefetch_latency()
    yield "prefetch-minimum-stride", source.least_stride()


LINES = commented("#", f"GCC: -fprefetch-loop-arrays; {USE}", lambda sheet: sheet.lines("#", "--param={key}={value}"))
FORMAT = Format("gcc", "GCC: --param= options of loop prefetching", rows, LINES)

"""Tunables of glibc's string and memory functions, as a shell line, beside what glibc believes on the system that
exports.

All in bytes. `x86_data_cache_size` is the first cache; `x86_shared_cache_size` is a thread's part of the last one, so
the size is divided by the CPUs that share that cache, and no less than its part of the last cache that a core has to
itself; both rounded down to 256, as glibc does. `x86_non_temporal_threshold` is three quarters of a thread's part,
glibc's rule up to 2.37, but no less than its part of its core's cache, nor than the 0x4040 that glibc allows. Sizes
that are only bounded are left out. Names: glibc manual, "Hardware Capability Tunables"; rules:
sysdeps/x86/dl-cacheinfo.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format, Sheet, commented
from setebench.export.source import PRIVATE, Source, same
from setebench.export.values import Known, Open, Row, derived, exact, with_assumption
from setebench.host.tunables import glibc_tunables

STEP = 256
FRACTION = 0.75
LEAST_THRESHOLD = 0x4040
NAMESPACE = "glibc.cpu."


def rows(source: Source) -> Iterator[Row]:
    """Of a size that is only a bound nothing follows, as copies that would fit the cache then went around it."""
    yield "x86_data_cache_size", derived(same, "bytes", (exact(source.whole(1)),), "", _down)
    yield from source.other_levels((1, *source.levels[-1:]))
    shared: Known = Open("cache.l2.size", "this result has no cache behind the first")
    own = shared
    levels = [level for level in source.levels if level > 1]
    if levels:
        last, own = _part(source, levels[-1]), _part(source, max({1, *levels} & set(PRIVATE)))
        shared = derived(max, "bytes", (last, own), "a CPU's part, at least of its core's cache", _down)
    yield "x86_shared_cache_size", shared
    how = f"{FRACTION} of it, at least the core's"
    threshold = derived(
        lambda part, least: max(FRACTION * part, least, LEAST_THRESHOLD), "bytes", (shared, own), how, int
    )
    yield "x86_non_temporal_threshold", threshold


def _part(source: Source, level: int) -> Known:
    groups, why = source.sharing(level)
    cpus = max(sum(map(len, group)) for group in groups)
    part = derived(lambda size: size / cpus, "bytes", (exact(source.whole(level)),), "", _down)
    return with_assumption(part, f"level {level} is divided by {cpus} CPUs: {why}")


def _down(size: float) -> int:
    return int(size) // STEP * STEP


def body(sheet: Sheet) -> Iterator[str]:
    believed = glibc_tunables()
    for key, each in sheet.values.items():
        yield f"# {key}: {each.comment}"
        yield f"#   glibc of this system believes {believed.get(NAMESPACE + key, 'nothing that it says')}"
    if sheet.values:
        yield "export GLIBC_TUNABLES=" + ":".join(f"{NAMESPACE}{key}={sheet.get(key)}" for key in sheet.values)


LINES = commented("#", "glibc: cache sizes for memcpy and friends, with what was measured", body)
FORMAT = Format("glibc", "glibc: GLIBC_TUNABLES of memory functions", rows, LINES)

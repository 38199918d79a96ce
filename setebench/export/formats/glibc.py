"""Tunables of glibc's string and memory functions, as a shell line, beside what glibc believes on the system that
exports.

All in bytes. `x86_data_cache_size` is the first cache; `x86_shared_cache_size` is a thread's part of the last one, so
the size is divided by the CPUs of the machine, which are assumed to share it; both rounded down to 256, as glibc
does. `x86_non_temporal_threshold` is three quarters of a thread's part, glibc's rule up to 2.37, and at least the
0x4040 that it allows. Sizes that are only bounded are left out. Names: glibc manual, "Hardware Capability Tunables";
rules: sysdeps/x86/dl-cacheinfo.h.
"""

from __future__ import annotations

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Known, Open, Origin, Sheet, Value, derived, with_assumption
from setebench.host.tunables import glibc_tunables

STEP = 256
FRACTION = 0.75
LEAST_THRESHOLD = 0x4040
NAMESPACE = "glibc.cpu."


def write(source: Source) -> str:
    """`export GLIBC_TUNABLES=...`, with comments above it."""
    sheet = Sheet()
    sheet.put("x86_data_cache_size", derived(lambda size: size, "bytes", (_whole(source, 1),), "", _down))
    shared = _shared(source)
    sheet.put("x86_shared_cache_size", shared)
    how = f"{FRACTION} of it"
    threshold = derived(lambda size: max(FRACTION * size, LEAST_THRESHOLD), "bytes", (shared,), how, int)
    sheet.put("x86_non_temporal_threshold", threshold)
    lines = source.heading("#", "glibc: cache sizes for memcpy and friends, with what was measured")
    believed = glibc_tunables()
    for entry in sheet.entries:
        lines.append(f"# {entry.key}: {entry.value.comment}")
        here = believed.get(NAMESPACE + entry.key)
        lines.append(f"#   glibc of this system believes {here if here is not None else 'nothing that it says'}")
    lines += sheet.missing("#")
    if sheet.entries:
        settings = ":".join(f"{NAMESPACE}{entry.key}={entry.value.value}" for entry in sheet.entries)
        lines.append(f"export GLIBC_TUNABLES={settings}")
    return "\n".join(lines) + "\n"


def _shared(source: Source) -> Known:
    levels = [level for level in source.levels if level > 1]
    if not levels:
        return Open("cache.l2.size", "this result has no cache behind the first")
    threads = sum(len(group) for group in source.cores)
    size = _whole(source, levels[-1])
    part = derived(lambda size: size / threads, "bytes", (size,), "a CPU's part", _down)
    return with_assumption(part, f"{threads} CPUs are assumed to share the last cache")


def _whole(source: Source, level: int) -> Known:
    """A cache's size; a bound is left out, as copies that would fit the cache then went around it."""
    name = f"cache.l{level}.size"
    size = source.get(name)
    bound = isinstance(size, Value) and size.origin is Origin.AT_LEAST
    return Open(name, "only a lower bound is known") if bound else size


def _down(size: float) -> int:
    return int(size) // STEP * STEP


FORMAT = Format("glibc", "glibc: GLIBC_TUNABLES of memory functions", write)

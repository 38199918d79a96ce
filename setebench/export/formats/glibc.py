"""Tunables of glibc's string and memory functions, as a shell line, beside what glibc believes on the system that
exports.

All in bytes. `x86_data_cache_size` is the first cache; `x86_shared_cache_size` is a thread's part of the last one, so
the size is divided by the CPUs of the machine, which are assumed to share it; both rounded down to 256, as glibc
does. `x86_non_temporal_threshold` is three quarters of a thread's part, glibc's rule up to 2.37, and at least the
0x4040 that it allows. Names: glibc manual, "Hardware Capability Tunables"; rules: sysdeps/x86/dl-cacheinfo.h.
"""

from __future__ import annotations

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Known, Open, Sheet, derived, with_assumption
from setebench.host.tunables import glibc_tunables

STEP = 256
FRACTION = 0.75
LEAST_THRESHOLD = 0x4040
NAMESPACE = "glibc.cpu."


def write(source: Source) -> str:
    """`export GLIBC_TUNABLES=...`, with comments above it."""
    sheet = Sheet()
    sheet.put("x86_data_cache_size", derived(lambda size: size, "bytes", (source.get("cache.l1.size"),), "", _down))
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
    size = source.get(f"cache.l{levels[-1]}.size")
    part = derived(lambda size: size / threads, "bytes", (size,), "a CPU's part", _down)
    return with_assumption(part, f"{threads} CPUs are assumed to share the last cache")


def _down(size: float) -> int:
    return int(size) // STEP * STEP


FORMAT = Format("glibc", "glibc: GLIBC_TUNABLES of memory functions", write)

"""A C header for one's own program: a `#define` for each value, and for C++ a `constexpr` struct of the same.

Sizes in bytes, latencies in core cycles and in nanoseconds (not rounded), counts as they are, bandwidth of the load
kernel with one thread in bytes a second, rounded to the nearest. What is not defined was left open: `#ifdef` asks.
Names are setebench's own.
"""

from __future__ import annotations

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Scalar, Sheet, derived

PREFIX = "SETEBENCH_"
COUNTS = (
    "mshr.l1.demand",
    "mshr.l1.prefetch",
    "mshr.l2.demand",
    "mshr.l2.prefetch",
    "tlb.l1.entries.4k",
    "tlb.l2.entries.4k",
    "tlb.l1.entries.2m",
    "tlb.l2.entries.2m",
)
GIGA = 1e9


def write(source: Source) -> str:
    """The header."""
    sheet = _sheet(source)
    lines = source.heading("//", "What setebench found of this machine's memory system")
    lines += ["#ifndef SETEBENCH_MACHINE_H", "#define SETEBENCH_MACHINE_H"]
    for entry in sheet.entries:
        lines += [f"// {entry.value.comment}", f"#define {PREFIX}{entry.key.upper()} {_literal(entry.value.value)}"]
    lines += ["#ifdef __cplusplus", "struct setebench_machine {"]
    for entry in sheet.entries:
        kind = "double" if isinstance(entry.value.value, float) else "long long"
        lines.append(f"    static constexpr {kind} {entry.key} = {PREFIX}{entry.key.upper()};")
    lines += ["};", "#endif", "#endif"]
    return "\n".join([*lines, *sheet.missing("//")]) + "\n"


def _sheet(source: Source) -> Sheet:
    sheet = Sheet()
    for level in source.levels:
        sheet.put(f"l{level}_bytes", source.size(level))
        sheet.put(f"l{level}_ways", source.ways(level))
        sheet.put(f"l{level}_line_bytes", source.get(f"cache.l{level}.line_size"))
    for name in (*(f"l{level}" for level in source.levels), "memory"):
        sheet.put(f"{name}_cycles", derived(lambda cycles: cycles, "cycles", (source.latency(name),), "", float))
        sheet.put(f"{name}_nanoseconds", source.nanoseconds(name))
        rate = source.load_bandwidth(name, 1)
        sheet.put(f"{name}_bytes_per_second", derived(lambda giga: giga * GIGA, "bytes/s", (rate,), ""))
    for parameter in COUNTS:
        sheet.put(parameter.replace(".", "_"), source.count(parameter))
    return sheet


def _literal(value: Scalar) -> str:
    return repr(value) if isinstance(value, float) else f"{value}LL" if abs(int(value)) >= 1 << 31 else str(value)


FORMAT = Format("c", "C and C++: a header of #defines and a constexpr struct", write)

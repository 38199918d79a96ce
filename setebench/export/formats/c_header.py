"""A C header for one's own program: a `#define` for each value, and for C++ a `constexpr` struct of the same.

Sizes in bytes, latencies in core cycles and in nanoseconds (not rounded), counts as they are, bandwidth of the load
kernel with one thread in bytes a second, rounded to the nearest. What is not defined was left open: `#ifdef` asks.
Names are setebench's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format, Sheet, commented
from setebench.export.source import GIGA, Source, same
from setebench.export.values import Row, Scalar, derived

PREFIX = "SETEBENCH_"
COUNTS = (
    *(f"mshr.l{level}.{kind}" for level in (1, 2) for kind in ("demand", "prefetch")),
    *(f"tlb.l{level}.entries.{page}" for page in ("4k", "2m") for level in (1, 2)),
)


def rows(source: Source) -> Iterator[Row]:
    for level in source.levels:
        yield f"l{level}_bytes", source.size(level)
        yield f"l{level}_ways", source.ways(level)
        yield f"l{level}_line_bytes", source.get(f"cache.l{level}.line_size")
    for name in source.places:
        yield f"{name}_cycles", derived(same, "cycles", (source.latency(name),), "", float)
        yield f"{name}_nanoseconds", source.nanoseconds(name)
        yield f"{name}_bytes_per_second", derived(lambda giga: giga * GIGA, "bytes/s", (source.bandwidth(name),))
    for parameter in COUNTS:
        yield parameter.replace(".", "_"), source.count(parameter)


def body(sheet: Sheet) -> Iterator[str]:
    yield from ("#ifndef SETEBENCH_MACHINE_H", "#define SETEBENCH_MACHINE_H")
    for key, each in sheet.values.items():
        yield f"// {each.comment}"
        yield f"#define {PREFIX}{key.upper()} {_literal(each.value)}"
    yield from ("#ifdef __cplusplus", "struct setebench_machine {")
    for key, each in sheet.values.items():
        kind = "double" if isinstance(each.value, float) else "long long"
        yield f"    static constexpr {kind} {key} = {PREFIX}{key.upper()};"
    yield from ("};", "#endif", "#endif")


def _literal(value: Scalar) -> str:
    return repr(value) if isinstance(value, float) else f"{value}LL" if abs(int(value)) >= 1 << 31 else str(value)


LINES = commented("//", "What setebench found of this machine's memory system", body)
FORMAT = Format("c", "C and C++: a header of #defines and a constexpr struct", rows, LINES)

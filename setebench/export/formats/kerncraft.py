"""kerncraft: a machine file in YAML.

Sizes in bytes (`32768 B`: kerncraft's prefix k is 1000) and clock in Hz, rounded to whole ones, bandwidths in GB/s of
10^9 bytes. `measurements` are our streaming kernels, with the bytes that the program asked for, as kerncraft counts
them; its triad is our vector_triad. `cores per group` of the third cache is assumed to be the cores of a memory node.
What kerncraft needs for its models and nobody measures from outside (ports, FLOPs per cycle, upstream throughput,
event names) is left out and named; its own template says INFORMATION_REQUIRED there. Names: kerncraft 0.8,
machinemodel.py, examples/machine-files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Known, Open, Sheet, Value

VERSION = "0.8.12"
"""Of the file format: the first release after its latest change (0.8.11.dev0); newer ones read it."""

POLICIES = {"lru": "LRU", "random": "RR"}
KERNELS = {"load": "load", "copy": "copy", "update": "update", "triad": "vector_triad", "daxpy": "daxpy"}
STREAMS = {
    "load": (0, (1, 8), (0, 0), (0, 0)),
    "copy": (0, (1, 8), (0, 0), (1, 8)),
    "update": (0, (1, 8), (1, 8), (1, 8)),
    "triad": (2, (3, 24), (0, 0), (1, 8)),
    "daxpy": (2, (2, 16), (1, 8), (1, 8)),
}
"""By kerncraft's kernel: FLOPs per iteration; streams and bytes that are read, read and written, written."""

NEEDED = (
    "in-core model",
    "overlapping model",
    "non-overlapping model",
    "FLOPs per cycle",
    "compiler",
    "upstream throughput",
)


def write(source: Source) -> str:
    """The YAML document."""
    lines = source.heading("#", "kerncraft machine file, with what was measured")
    sheet = Sheet()
    lines += _head(source, sheet)
    lines += ["memory hierarchy:"]
    for level in source.levels:
        lines += _level(source, sheet, level)
    lines += _memory(source)
    lines += _benchmarks(source, sheet)
    for name in NEEDED:
        sheet.put(name, Open(name, "not measured from outside"))
    return "\n".join([*lines, *sheet.missing("#")]) + "\n"


def _head(source: Source, sheet: Sheet) -> Iterator[str]:
    cores = source.cores
    yield f"kerncraft version: {VERSION}"
    yield f"model name: {json.dumps(source.name)}"
    yield f"model type: {json.dumps(source.name)}"
    nodes = sum(bool(node.cores) for node in source.nodes)
    yield "# as the system shows; one socket is assumed"
    yield "sockets: 1"
    yield f"cores per socket: {len(cores)}"
    yield f"threads per core: {max(len(core) for core in cores)}"
    yield f"NUMA domains per socket: {nodes}"
    yield f"cores per NUMA domain: {max(len(cores) // nodes, 1)}"
    yield from _line(sheet, "", "clock", source.hertz(), lambda value: f"{float(value.value):.0f} Hz")
    yield from _line(sheet, "", "cacheline size", source.line(1), lambda value: f"{value.value} B")


def _line(sheet: Sheet, indent: str, key: str, known: Known, text: object = None) -> Iterator[str]:
    """`key: value` below its comment, or nothing where it is open."""
    value = sheet.put(key, known)
    if value is not None:
        shown = text(value) if callable(text) else value.value
        yield f"{indent}# {value.comment}"
        yield f"{indent}{key}: {shown}"


def _level(source: Source, sheet: Sheet, level: int) -> Iterator[str]:
    groups, why = source.sharing(level)
    yield f"- level: L{level}"
    yield "  cache per group:"
    found = {"sets": source.sets(level), "ways": source.ways(level), "cl_size": source.line(level)}
    for key, known in found.items():
        value = sheet.put(f"L{level} {key}", source.buildable(level, known, power_of_two=False))
        if value is not None:
            yield f"    # {value.comment}"
            yield f"    {key}: {value.value}"
    policy = sheet.put(f"L{level} replacement_policy", source.replacement(level, POLICIES))
    if policy is not None:
        yield f"    # {policy.comment}"
        yield f"    replacement_policy: {policy.value}"
    yield "    # assumed: as in every cache of this kind that is known"
    yield "    write_allocate: true"
    yield "    write_back: true"
    if level < max(source.levels):
        yield f"    load_from: L{level + 1}"
        yield f"    store_to: L{level + 1}"
    yield f"  # assumed: {why}"
    yield f"  cores per group: {max(map(len, groups))}"
    yield f"  groups: {len(groups)}"
    size = sheet.put(f"L{level} size per group", source.size(level))
    if size is not None:
        yield f"  # {size.comment}"
        yield f"  size per group: {size.value} B"


def _memory(source: Source) -> Iterator[str]:
    yield "- level: MEM"
    yield f"  cores per group: {len(source.cores)}"
    yield "  size per group:"
    yield "  upstream throughput: [full socket memory bandwidth, half-duplex]"


@dataclass(frozen=True)
class _Table:
    """Bandwidths of one level: thread counts, and for each kernel a value for every one of them."""

    threads: tuple[int, ...]
    results: dict[str, list[Value]]


def _benchmarks(source: Source, sheet: Sheet) -> Iterator[str]:
    yield "benchmarks:"
    yield "  kernels:"
    for name, (flops, *streams) in STREAMS.items():
        yield f"    {name}:"
        yield f"      FLOPs per iteration: {flops}"
        for key, (number, size) in zip(("read streams", "read+write streams", "write streams"), streams, strict=True):
            yield f"      {key}: {{streams: {number}, bytes: {size}.00 B}}"
    tables = {f"L{level}": _table(source, f"l{level}", sheet) for level in source.levels}
    tables["MEM"] = _table(source, "memory", sheet)
    given = {name: table for name, table in tables.items() if table.results}
    yield "  measurements:" if given else "  measurements: {}"
    for name, table in given.items():
        yield from _measurement(name, table)


def _measurement(name: str, table: _Table) -> Iterator[str]:
    counts = ", ".join(map(str, table.threads))
    yield f"    {name}:"
    yield "      1:"
    yield "        threads per core: 1"
    yield f"        cores: [{counts}]"
    yield f"        threads: [{counts}]"
    yield "        results:"
    for kernel, values in table.results.items():
        for number, value in zip(table.threads, values, strict=True):
            yield f"          # {number} threads: {value.comment}"
        yield f"          {kernel}: [{', '.join(f'{float(value.value):.2f} GB/s' for value in values)}]"


def _table(source: Source, level: str, sheet: Sheet) -> _Table:
    """Kernels known at every count at which any is known; where there are none, those with one thread."""
    most = len(source.cores)
    found = {
        (name, number): source.bandwidth(level, ours, number)
        for name, ours in KERNELS.items()
        for number in range(1, most + 1)
    }
    counts = sorted({number for (_, number), known in found.items() if isinstance(known, Value)})
    for threads in (tuple(counts), (1,)):
        rows = {name: _row(found, name, threads) for name in KERNELS}
        complete = {name: row for name, row in rows.items() if threads and len(row) == len(threads)}
        if complete:
            break
    for (name, number), known in found.items():
        if number in threads and isinstance(known, Open):
            sheet.put(f"{level} {name} with {number} threads", known)
    return _Table(threads, complete)


def _row(found: dict[tuple[str, int], Known], name: str, threads: tuple[int, ...]) -> list[Value]:
    return [known for number in threads if isinstance(known := found.get((name, number)), Value)]


FORMAT = Format("kerncraft", "kerncraft: machine file with hierarchy and benchmarks", write)

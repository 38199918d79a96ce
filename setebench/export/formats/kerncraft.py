"""kerncraft: a machine file in YAML.

Sizes in bytes (`32768 B`: kerncraft's prefix k is 1000) and clock in Hz, rounded to whole ones, bandwidths in GB/s of
10^9 bytes. `measurements` are our streaming kernels, with the bytes that the program moved, as kerncraft counts
them; its triad is our vector_triad. `cores per group` of the third cache is assumed to be the cores of a memory node.
What kerncraft needs for its models and nobody measures from outside (ports, FLOPs per cycle, upstream throughput,
event names) is left out and named; its own template says INFORMATION_REQUIRED there. Names: kerncraft 0.8,
machinemodel.py, examples/machine-files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from setebench.export.source import Source
from setebench.export.values import Format, Open, Row, Sheet, assumed, derived
from setebench.text import GIGA

VERSION = "0.8.12"  # of the file format: the first release after its latest change (0.8.11.dev0); newer ones read it
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

MODELS = ("in-core model", "overlapping model", "non-overlapping model")
NEEDED = (*MODELS, "FLOPs per cycle", "compiler", "upstream throughput")


def rows(source: Source) -> Iterator[Row]:
    cores, nodes = len(source.cores), sum(bool(node.cores) for node in source.nodes)
    threads = max(map(len, source.cores))
    head = {"sockets": 1, "cores per socket": cores, "threads per core": threads, "NUMA domains per socket": nodes}
    for key, number in {**head, "cores per NUMA domain": max(cores // nodes, 1)}.items():
        yield f"head {key}", assumed(number, "", "as the system shows; one socket is assumed")
    yield "clock Hz", source.hertz()
    yield "line B", source.line(1)
    for level in source.levels:
        yield from ((f"L{level} {key}", known) for key, known in _level(source, level))
    for name in source.places:
        for kernel, ours in KERNELS.items():
            yield (
                f"{name} {kernel}",
                derived(lambda rate: rate / GIGA, "GB/s", (source.bandwidth(name, ours),), "", float),
            )
    yield from ((name, Open(name, "not measured from outside")) for name in NEEDED)


def _level(source: Source, level: int) -> Iterator[Row]:
    _, sets, ways = source.geometry(level, power_of_two=False)
    yield from (("in sets", sets), ("in ways", ways), ("in cl_size", source.line(level)))
    yield "in replacement_policy", source.replacement(level, POLICIES)
    yield from (
        (f"in {key}", assumed("true", "", "as in all known caches")) for key in ("write_allocate", "write_back")
    )
    if level < max(source.levels):
        yield from ((f"in {key}", assumed(f"L{level + 1}", "", "the next level")) for key in ("load_from", "store_to"))
    groups, why = source.sharing(level)
    yield "of cores per group", assumed(max(map(len, groups)), "cores", why)
    yield "of groups", assumed(len(groups), "caches", why)
    yield "size B", source.size(level)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    parts = sheet.parts()
    yield f"kerncraft version: {VERSION}"
    yield from (f"model {key}: {json.dumps(source.name)}" for key in ("name", "type"))
    yield from parts["head"].lines("#", "{key}: {value}")
    yield from parts["clock"].lines("#", "clock: {value:.0f} {key}")
    yield from parts["line"].lines("#", "cacheline size: {value} {key}")
    yield "memory hierarchy:"
    for level in source.levels:
        inner = parts[f"L{level}"].parts()
        yield from (f"- level: L{level}", "  cache per group:")
        yield from (f"    {line}" for line in inner["in"].lines("#", "{key}: {value}"))
        yield from (f"  {line}" for line in inner["of"].lines("#", "{key}: {value}"))
        yield from (f"  {line}" for line in inner["size"].lines("#", "size per group: {value} {key}"))
    yield from ("- level: MEM", f"  cores per group: {len(source.cores)}", "  size per group:")
    yield "  upstream throughput: [full socket memory bandwidth, half-duplex]"
    yield from ("benchmarks:", "  kernels:")
    for name, (flops, *streams) in STREAMS.items():
        yield from (f"    {name}:", f"      FLOPs per iteration: {flops}")
        for key, (number, size) in zip(("read streams", "read+write streams", "write streams"), streams, strict=True):
            yield f"      {key}: {{streams: {number}, bytes: {size}.00 B}}"
    known = [place for place in source.places if place in parts]
    yield "  measurements:" + " {}" * (not known)
    for place in known:  # on one core
        yield f"    {'MEM' if place == 'memory' else place.upper()}:"
        yield from ("      1:", "        threads per core: 1", "        cores: [1]", "        threads: [1]")
        yield "        results:"
        yield from (f"          {line}" for line in parts[place].lines("#", "{key}: [{value:.2f} GB/s]"))


FORMATS = (Format("kerncraft", "kerncraft: machine file with hierarchy and benchmarks", rows, lines, "#"),)

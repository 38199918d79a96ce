"""The loops that machines without loops of their own run as traces: the same access patterns as the compiled ones.

Working sets are chosen to lie beyond any last-level cache drawn for simulated machines (32 MiB), but for `matmul`,
whose blocks are made to fit level 2. The cycles are those of the arithmetic alone, one addition per cycle; what an
iteration takes on data in level 1 is measured on the machine (`running.TracedLoops.describe_loop`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from setebench.errors import UsageError
from setebench.loops.records import LINE_BYTES, Loop, Pattern, Stream

MIB = 1 << 20
"""Bytes."""

UNITS = {"": 1, "K": 1 << 10, "M": MIB, "G": 1 << 30}
STENCIL_STREAMS = 80
"""About as many as cactus has (Fang et al. 2014, section 7.1)."""

TREE_STEPS = 4
"""Levels of a search tree below those that stay in the caches."""

HASH_CYCLES = 4.0
"""Computing a hash once more for a prefetch: a multiplication, a shift, an addition and the prefetch."""


def _lines(name: str, *, writes: bool = False, accesses: float = 2.0) -> Stream:
    """A stream of whole lines."""
    return msgspec.structs.replace(
        _elements(name, LINE_BYTES), accesses_per_iteration=accesses, writes=writes, prefetched=True
    )


def _elements(name: str, bytes_each: float = 8.0, stride: int = 8) -> Stream:
    """A stream in order that hits, as hardware prefetches it."""
    return Stream(
        name=name, pattern="sequential", bytes_per_iteration=bytes_each, stride_bytes=stride, prefetched=False
    )


class _Size(NamedTuple):
    """Cycles of an iteration's arithmetic, bytes of the working set, and how many iterations of which kind."""

    cycles: float
    working_set: int
    iterations: int
    unit: str


def _loop(name: str, size: _Size, *streams: Stream, dependent: bool = False) -> Loop:
    return Loop(
        name=name,
        streams=streams,
        cycles_per_iteration=size.cycles,
        working_set_bytes=size.working_set,
        iterations=size.iterations,
        unit=size.unit,
        dependent=dependent,
    )


def _shapes() -> Iterator[Loop]:
    """All loops: the paper's is Fang et al. 2014."""
    # C += A B by rows: a row of B and a row of C, line by line; the rows of B come from a block in level 2
    row = msgspec.structs.replace(
        _elements("c", LINE_BYTES, 32), pattern="strided", accesses_per_iteration=2.0, writes=True, extent_bytes=8192
    )
    yield _loop("matmul", _Size(8.0, MIB // 8, 256, "lines"), _lines("b"), row)
    # a sparse matrix times a vector, by rows of eight non-zeros: values, columns, and the vector's elements
    vector = Stream(
        name="vector",
        pattern="indirect",
        bytes_per_iteration=64.0,
        accesses_per_iteration=8.0,
        extent_bytes=64 * MIB,
        via="columns",
    )
    columns = _elements("columns", LINE_BYTES / 2, 4)
    yield _loop("spmv", _Size(16.0, 192 * MIB, 96, "rows of 8 non-zeros"), _lines("values"), columns, vector)
    # STREAM's triad, line by line (McCalpin)
    yield _loop("triad", _Size(6.0, 192 * MIB, 256, "lines"), _lines("b"), _lines("c"), _lines("a", writes=True))
    # a 3-D stencil over many arrays of cells: streams that advance together, one line each
    planes = (_lines(f"plane{number}", accesses=1.0) for number in range(STENCIL_STREAMS))
    yield _loop("stencil", _Size(80.0, 40 * MIB, 64, "lines of each stream"), *planes)
    # one element in every fourth line is read and written: libquantum's gates on a vector of amplitudes
    states = Stream(
        name="states", pattern="strided", bytes_per_iteration=8.0, stride_bytes=256, writes=True, extent_bytes=128 * MIB
    )
    yield _loop("strided", _Size(6.0, 128 * MIB, 384, "elements"), states)
    # the probe of a hash join: keys in a row, each in a bucket of one line somewhere in the table
    bucket = _anywhere("buckets", "lookup", "keys")
    buckets = msgspec.structs.replace(bucket, address_cycles=HASH_CYCLES)
    yield _loop("hash_join", _Size(10.0, 160 * MIB, 320, "lookups"), _elements("keys"), buckets)
    # a batch of searches in a tree: every step needs the node before
    nodes = msgspec.structs.replace(
        _anywhere("nodes", "lookup", "keys"),
        bytes_per_iteration=8.0 * TREE_STEPS,
        steps=TREE_STEPS,
        address_cycles=2.0,
    )
    yield _loop("tree_search", _Size(24.0, 160 * MIB, 160, "lookups"), _elements("keys"), nodes)
    # a list whose nodes lie anywhere, beside an array of pointers to them that can be read ahead
    chain = (_elements("index"), _anywhere("nodes", "chase", "index"))
    yield _loop("list", _Size(8.0, 160 * MIB, 256, "nodes"), *chain, dependent=True)


def _anywhere(name: str, pattern: Pattern, via: str) -> Stream:
    return Stream(name=name, pattern=pattern, bytes_per_iteration=16.0, extent_bytes=128 * MIB, via=via)


def shape(name: str) -> Loop:
    """The loop of that name. Raises `UsageError` for an unknown one."""
    shapes = {loop.name: loop for loop in _shapes()}
    if name not in shapes:
        raise UsageError(f"unknown loop {name!r}; one of {', '.join(shapes)}")
    return shapes[name]


def sized(loop: Loop, name: str, size: str) -> Loop:
    """The loop with a working set of another size, as in 256K; all of its streams shrink or grow alike.

    Raises `UsageError` for what is no size."""
    match = re.fullmatch(r"(\d+)([KMG]?)", size)
    if match is None or not int(match[1]):
        raise UsageError(f"{size!r} is no size of a working set; one like 256K, 4M or 1G")
    wanted = int(match[1]) * UNITS[match[2]]
    factor = wanted / loop.working_set_bytes
    streams = tuple(
        msgspec.structs.replace(stream, extent_bytes=max(LINE_BYTES, int(stream.extent_bytes * factor)))
        if stream.extent_bytes
        else stream
        for stream in loop.streams
    )
    return msgspec.structs.replace(loop, name=name, streams=streams, working_set_bytes=wanted)

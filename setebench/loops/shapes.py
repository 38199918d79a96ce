"""The loops that machines without loops of their own run as traces: the same access patterns as the compiled ones.

Working sets are chosen to lie beyond any last-level cache drawn for simulated machines (32 MiB), but for `matmul`,
whose blocks are made to fit level 2. The cycles are those of the arithmetic alone, one addition per cycle; what an
iteration takes on data in level 1 is measured on the machine (`running.TracedLoops.describe_loop`).
"""

from __future__ import annotations

import re

import msgspec

from setebench.errors import UsageError
from setebench.loops.records import LINE_BYTES, Loop, Stream

MIB = 1 << 20
"""Bytes."""

UNITS = {"": 1, "K": 1 << 10, "M": MIB, "G": 1 << 30}
STENCIL_STREAMS = 80
"""About as many as cactus has (Fang et al. 2014, section 7.1)."""

TREE_STEPS = 4
"""Levels of a search tree below those that stay in the caches."""

HASH_CYCLES = 4.0
"""Computing a hash once more for a prefetch: a multiplication, a shift, an addition and the prefetch."""


def _line_stream(name: str, *, writes: bool = False, accesses: float = 2.0) -> Stream:
    """A stream of whole lines."""
    return Stream(
        name=name,
        pattern="sequential",
        bytes_per_iteration=LINE_BYTES,
        stride_bytes=8,
        accesses_per_iteration=accesses,
        writes=writes,
    )


def _matmul() -> Loop:
    """C += A B by rows: a row of B and a row of C, line by line; the rows of B come from a block in level 2."""
    b = _line_stream("b")
    c = Stream(
        name="c",
        pattern="strided",
        bytes_per_iteration=LINE_BYTES,
        stride_bytes=32,
        accesses_per_iteration=2.0,
        writes=True,
        extent_bytes=8192,
        prefetched=False,
    )
    return Loop(
        name="matmul",
        streams=(b, c),
        cycles_per_iteration=8.0,
        working_set_bytes=MIB // 8,
        iterations=256,
        unit="lines",
    )


def _spmv() -> Loop:
    """A sparse matrix times a vector, by rows of eight non-zeros: values, columns, and the vector's elements."""
    values = _line_stream("values")
    columns = Stream(
        name="columns", pattern="sequential", bytes_per_iteration=LINE_BYTES / 2, stride_bytes=4, prefetched=False
    )
    vector = Stream(
        name="vector",
        pattern="indirect",
        bytes_per_iteration=64.0,
        accesses_per_iteration=8.0,
        extent_bytes=64 * MIB,
        via="columns",
    )
    streams = (values, columns, vector)
    return Loop(
        name="spmv",
        streams=streams,
        cycles_per_iteration=16.0,
        working_set_bytes=192 * MIB,
        iterations=96,
        unit="rows of 8 non-zeros",
    )


def _triad() -> Loop:
    """STREAM's triad, line by line (McCalpin)."""
    streams = (_line_stream("b"), _line_stream("c"), _line_stream("a", writes=True))
    return Loop(
        name="triad",
        streams=streams,
        cycles_per_iteration=6.0,
        working_set_bytes=192 * MIB,
        iterations=256,
        unit="lines",
    )


def _stencil() -> Loop:
    """A 3-D stencil over many arrays of cells: about 80 streams that advance together, one line each."""
    streams = tuple(_line_stream(f"plane{number}", accesses=1.0) for number in range(STENCIL_STREAMS))
    return Loop(
        name="stencil",
        streams=streams,
        cycles_per_iteration=80.0,
        working_set_bytes=40 * MIB,
        iterations=64,
        unit="lines of each stream",
    )


def _strided() -> Loop:
    """One element in every fourth line is read and written: libquantum's gates on a vector of amplitudes."""
    states = Stream(
        name="states", pattern="strided", bytes_per_iteration=8.0, stride_bytes=256, writes=True, extent_bytes=128 * MIB
    )
    return Loop(
        name="strided",
        streams=(states,),
        cycles_per_iteration=6.0,
        working_set_bytes=128 * MIB,
        iterations=384,
        unit="elements",
    )


def _keys() -> Stream:
    return Stream(name="keys", pattern="sequential", bytes_per_iteration=8.0, stride_bytes=8, prefetched=False)


def _hash_join() -> Loop:
    """The probe of a hash join: keys in a row, each in a bucket of one line somewhere in the table."""
    buckets = Stream(
        name="buckets",
        pattern="lookup",
        bytes_per_iteration=16.0,
        extent_bytes=128 * MIB,
        via="keys",
        address_cycles=HASH_CYCLES,
    )
    return Loop(
        name="hash_join",
        streams=(_keys(), buckets),
        cycles_per_iteration=10.0,
        working_set_bytes=160 * MIB,
        iterations=320,
        unit="lookups",
    )


def _tree_search() -> Loop:
    """A batch of searches in a tree: every step needs the node before."""
    nodes = Stream(
        name="nodes",
        pattern="lookup",
        bytes_per_iteration=8.0 * TREE_STEPS,
        extent_bytes=128 * MIB,
        via="keys",
        steps=TREE_STEPS,
        address_cycles=2.0,
    )
    return Loop(
        name="tree_search",
        streams=(_keys(), nodes),
        cycles_per_iteration=24.0,
        working_set_bytes=160 * MIB,
        iterations=160,
        unit="lookups",
    )


def _list() -> Loop:
    """A list whose nodes lie anywhere, beside an array of pointers to them that can be read ahead."""
    index = Stream(name="index", pattern="sequential", bytes_per_iteration=8.0, stride_bytes=8, prefetched=False)
    nodes = Stream(name="nodes", pattern="chase", bytes_per_iteration=16.0, extent_bytes=128 * MIB, via="index")
    return Loop(
        name="list",
        streams=(index, nodes),
        cycles_per_iteration=8.0,
        working_set_bytes=160 * MIB,
        iterations=256,
        unit="nodes",
        dependent=True,
    )


_SHAPES = {
    "matmul": _matmul,
    "spmv": _spmv,
    "triad": _triad,
    "stencil": _stencil,
    "strided": _strided,
    "hash_join": _hash_join,
    "tree_search": _tree_search,
    "list": _list,
}


def shape(name: str) -> Loop:
    """The loop of that name. Raises `UsageError` for an unknown one."""
    if name not in _SHAPES:
        raise UsageError(f"unknown loop {name!r}; one of {', '.join(_SHAPES)}")
    return _SHAPES[name]()


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

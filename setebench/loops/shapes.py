"""The eight loops as data: the streams of each for a given size. What is compiled for this CPU fills arrays of these
extents (`native/loops`), other machines run the same accesses as probes (`loops/traces.py`).

The cycles are those of the arithmetic alone; what an iteration takes on data in L1 is measured on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.loops.records import LINE_BYTES, Loop, Pattern, Stream

DEFAULT_BYTES = 64 << 20
"""What a loop goes through unless its name says otherwise: more than most last caches leave to a core."""

LEAST_BYTES = 4096
"""The smallest size that has some iterations of every loop."""

RESIDENT = "16K"
"""A size that stays in L1: half of the smallest L1 about."""

LEAST_KEYS = 1 << 17
"""Keys that go with small tables too: branch predictors learn sequences of 16384 keys that come again and again."""

MATMUL_ROWS = 1024
"""Rows of the right matrix: its lines of one panel lie in as many pages, more than a first-level TLB holds."""

STENCIL_FIELDS = 16
"""Five streams each: the 80 of Fang et al. 2014 (7, cactus)."""

FAN_OUT = 17
"""Children of a tree's node, which is a line of 16 keys."""

_NAME = re.compile(r"(?P<loop>\w+?)(@(?P<count>\d+)(?P<unit>[KMG]?))?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _loop(unit: str, cycles: float, iterations: int, *streams: Stream, dependent: bool = False) -> Loop:
    """A loop without a name: what an iteration is, the cycles of its arithmetic, and the iterations of a pass of about
    a millisecond."""
    return Loop(
        name="",
        unit=unit,
        cycles_per_iteration=cycles,
        iterations=iterations,
        streams=streams,
        working_set_bytes=sum(stream.extent_bytes for stream in streams),
        dependent=dependent,
    )


def _stream(name: str, pattern: Pattern, extent: int, each: int = LINE_BYTES, **more: Any) -> Stream:
    """A stream of so many bytes, of which an iteration uses `each`."""
    return Stream(name=name, pattern=pattern, bytes_per_iteration=each, extent_bytes=extent, **more)


def _items(name: str, item_bytes: int, count: int) -> Stream:
    """An array that is read from front to back, followed by hardware."""
    return _stream(name, "sequential", count * item_bytes, item_bytes, prefetched=False)


def _matmul(size: int) -> Loop:
    """Two rows of A times B by panels of one line: the next line is a whole row of B further on."""
    rows = min(MATMUL_ROWS, max(64, size // (2 * LINE_BYTES)))
    stride = LINE_BYTES * (max(2, size // (rows * LINE_BYTES)) | 1)  # odd, so that rows begin in different sets
    right = _stream("right matrix", "strided", rows * stride, 8, stride_bytes=stride)
    return _loop("rows of a panel", 8.0, max(rows, 16384 // rows * rows), right, _items("left matrix", 16, rows))


def _spmv(size: int) -> Loop:
    """Seven tenths are the vector, the rest non-zeros of 12 bytes."""
    non_zeros = max(LEAST_KEYS, int(0.3 * size) // 12)
    vector = _stream("vector", "indirect", int(0.7 * size) // 8 * 8, 8, via="columns")
    return _loop("non-zeros", 2.0, 32768, _items("values", 8, non_zeros), _items("columns", 4, non_zeros), vector)


def _triad(size: int) -> Loop:
    extent = size // (3 * LINE_BYTES) * LINE_BYTES
    return _loop("lines", 6.0, 16384, *(_stream(name, "sequential", extent, writes=name == "a") for name in "bca"))


def _stencil(size: int) -> Loop:
    """Streams of a field share its array."""
    extent = size // (STENCIL_FIELDS * LINE_BYTES) * LINE_BYTES
    ways = ("centre", "row before", "row behind", "plane below", "plane above")
    names = [f"field {number}, {way}" for number in range(STENCIL_FIELDS) for way in ways]
    read = [_stream(name, "sequential", extent // len(ways)) for name in names]
    return _loop("lines of points", 80.0, 1024, *read, _stream("result", "sequential", extent, writes=True))


def _records(size: int) -> Loop:
    stride = 4 * LINE_BYTES
    records = _stream("records", "strided", size // stride * stride, 8, stride_bytes=stride, writes=True)
    return _loop("records", 6.0, 16384, records)


def _hash_join(size: int) -> Loop:
    """A table of a power of two of buckets, and keys to look for in it."""
    extent = LINE_BYTES << max(1, (size // LINE_BYTES).bit_length() - 1)
    keys = _items("keys", 8, max(LEAST_KEYS, size // 128))
    return _loop("probes", 10.0, 16384, keys, _stream("buckets", "lookup", extent, 8, via="keys"))


def _tree_search(size: int) -> Loop:
    """The largest tree of at most one and a half times the size, without its root, which always hits."""
    levels = 2
    while (FAN_OUT ** (levels + 1) - 1) // (FAN_OUT - 1) * LINE_BYTES <= 1.5 * size:
        levels += 1
    extent = (FAN_OUT**levels - 1) // (FAN_OUT - 1) * LINE_BYTES
    nodes = _stream("nodes", "lookup", extent, steps=levels - 1, via="searched keys")
    return _loop("searches", 20.0, 8192, _items("searched keys", 4, LEAST_KEYS), nodes)


def _list(size: int) -> Loop:
    count = size // LINE_BYTES
    nodes = _stream("nodes", "chase", count * LINE_BYTES, 8, via="index")
    return _loop("nodes", 2.0, 8192, _items("index", 8, count), nodes, dependent=True)


_SHAPES: dict[str, Callable[[int], Loop]] = {
    "matmul": _matmul,
    "spmv": _spmv,
    "triad": _triad,
    "stencil": _stencil,
    "strided": _records,
    "hash_join": _hash_join,
    "tree_search": _tree_search,
    "list": _list,
}
LOOP_NAMES = tuple(_SHAPES)


def shape(name: str) -> Loop:
    """The loop of that name, which may have a size, `hash_join@256K`: what it goes through in all, in bytes, K, M or G.

    Raises `UsageError` for an unknown loop, or a size that is too small or none."""
    match = _NAME.fullmatch(name)
    if match is None or match["loop"] not in _SHAPES:
        raise UsageError(f"unknown loop {name!r}; one of {', '.join(LOOP_NAMES)}, or with a size, as in hash_join@256K")
    size = int(match["count"]) * _UNITS[match["unit"]] if match["count"] else DEFAULT_BYTES
    if size < LEAST_BYTES:
        raise UsageError(f"{name!r} is too small: a loop goes through {LEAST_BYTES} bytes at least")
    return msgspec.structs.replace(_SHAPES[match["loop"]](size), name=name)

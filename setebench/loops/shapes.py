"""The eight loops as data: the streams of each for a given size. What is compiled for this CPU fills arrays of these
extents (`native/loops`), other machines run the same accesses as probes (`loops/traces.py`).

The cycles are those of the arithmetic alone; what an iteration takes on data in L1 is measured on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from setebench.errors import UsageError
from setebench.loops.records import LINE_BYTES, Loop, Pattern, Stream
from setebench.text import GIBI, KIBI, MEBI

DEFAULT_BYTES = 64 * MEBI
"""What a loop goes through unless its name says otherwise: more than most last caches leave to a core."""

LEAST_BYTES = 4 * KIBI
"""The smallest size that has some iterations of every loop."""

RESIDENT = "16K"
"""A size that stays in L1: half of the smallest L1 about."""

LEAST_KEYS = 1 << 17
"""Keys that go with small tables too: branch predictors learn sequences of 16384 keys that come again and again."""

NUMBER_BYTES, INDEX_BYTES, RECORD_BYTES = 8, 4, 4 * LINE_BYTES
"""Of a double, pointer or key; of an index or a short key; and of a record of which 8 bytes are used."""

MATMUL_ROWS = 1024
"""Rows of the right matrix: its lines of one panel lie in as many pages, more than a first-level TLB holds."""

STENCIL_FIELDS = 16
"""Five streams each: the 80 of Fang et al. 2014 (7, cactus)."""

FAN_OUT = 17
"""Children of a tree's node, which is a line of 16 keys."""

_NAME = re.compile(r"(?P<loop>\w+?)(@(?P<count>\d+)(?P<unit>[KMG]?))?")
_UNITS = {"": 1, "K": KIBI, "M": MEBI, "G": GIBI}


def _stream(name: str, pattern: Pattern, extent: int, each: int = LINE_BYTES, **more: Any) -> Stream:
    """A stream of so many bytes, of which an iteration uses `each`."""
    return Stream(name=name, pattern=pattern, bytes_per_iteration=each, extent_bytes=extent, **more)


def _items(name: str, item_bytes: int, count: int) -> Stream:
    """An array that is read from front to back, followed by hardware."""
    return _stream(name, "sequential", count * item_bytes, item_bytes, prefetched=False)


def _matmul(size: int) -> tuple[Stream, ...]:
    """Two rows of A times B by panels of one line: the next line is a whole row of B further on."""
    rows = min(MATMUL_ROWS, max(LINE_BYTES, size // (2 * LINE_BYTES)))
    stride = LINE_BYTES * (max(2, size // (rows * LINE_BYTES)) | 1)  # odd, so that rows begin in different sets
    right = _stream("right matrix", "strided", rows * stride, NUMBER_BYTES, stride_bytes=stride)
    return right, _items("left matrix", 2 * NUMBER_BYTES, rows)


def _spmv(size: int) -> tuple[Stream, ...]:
    """Seven tenths are the vector, the rest non-zeros of 12 bytes."""
    non_zeros = max(LEAST_KEYS, int(0.3 * size) // (NUMBER_BYTES + INDEX_BYTES))
    vector = _stream("vector", "indirect", int(0.7 * size) // NUMBER_BYTES * NUMBER_BYTES, NUMBER_BYTES, via="columns")
    return _items("values", NUMBER_BYTES, non_zeros), _items("columns", INDEX_BYTES, non_zeros), vector


def _triad(size: int) -> tuple[Stream, ...]:
    extent = size // (len("bca") * LINE_BYTES) * LINE_BYTES
    return tuple(_stream(name, "sequential", extent, writes=name == "a") for name in "bca")


def _stencil(size: int) -> tuple[Stream, ...]:
    """Streams of a field share its array."""
    extent = size // (STENCIL_FIELDS * LINE_BYTES) * LINE_BYTES
    ways = ("centre", "row before", "row behind", "plane below", "plane above")
    names = [f"field {number}, {way}" for number in range(STENCIL_FIELDS) for way in ways]
    read = [_stream(name, "sequential", extent // len(ways)) for name in names]
    return *read, _stream("result", "sequential", extent, writes=True)


def _records(size: int) -> tuple[Stream, ...]:
    extent = size // RECORD_BYTES * RECORD_BYTES
    return (_stream("records", "strided", extent, NUMBER_BYTES, stride_bytes=RECORD_BYTES, writes=True),)


def _hash_join(size: int) -> tuple[Stream, ...]:
    """A table of a power of two of buckets, and keys to look for in it."""
    extent = LINE_BYTES << max(1, (size // LINE_BYTES).bit_length() - 1)
    keys = _items("keys", NUMBER_BYTES, max(LEAST_KEYS, size // (2 * LINE_BYTES)))
    return keys, _stream("buckets", "lookup", extent, NUMBER_BYTES, via="keys")


def _tree_search(size: int) -> tuple[Stream, ...]:
    """The largest tree of at most one and a half times the size, without its root, which always hits."""
    levels = 2
    while (FAN_OUT ** (levels + 1) - 1) // (FAN_OUT - 1) * LINE_BYTES <= 1.5 * size:
        levels += 1
    extent = (FAN_OUT**levels - 1) // (FAN_OUT - 1) * LINE_BYTES
    nodes = _stream("nodes", "lookup", extent, steps=levels - 1, via="searched keys")
    return _items("searched keys", INDEX_BYTES, LEAST_KEYS), nodes


def _list(size: int) -> tuple[Stream, ...]:
    count = size // LINE_BYTES
    nodes = _stream("nodes", "chase", count * LINE_BYTES, NUMBER_BYTES, via="index")
    return _items("index", NUMBER_BYTES, count), nodes


_LOOPS: dict[str, tuple[str, float, int, Callable[[int], tuple[Stream, ...]]]] = {
    "matmul": ("rows of a panel", 8.0, 16384, _matmul),
    "spmv": ("non-zeros", 2.0, 32768, _spmv),
    "triad": ("lines", 6.0, 16384, _triad),
    "stencil": ("lines of points", 80.0, 1024, _stencil),
    "strided": ("records", 6.0, 16384, _records),
    "hash_join": ("probes", 10.0, 16384, _hash_join),
    "tree_search": ("searches", 20.0, 8192, _tree_search),
    "list": ("nodes", 2.0, 8192, _list),
}
"""What an iteration is, the cycles of its arithmetic, the iterations of a pass of about a millisecond, and the streams
of a size in bytes."""
LOOP_NAMES = tuple(_LOOPS)


def shape(name: str) -> Loop:
    """The loop of that name, which may have a size, `hash_join@256K`: what it goes through in all, in bytes, K, M or G.

    Raises `UsageError` for an unknown loop, or a size that is too small or none."""
    match = _NAME.fullmatch(name)
    if match is None or match["loop"] not in _LOOPS:
        raise UsageError(f"unknown loop {name!r}; one of {', '.join(LOOP_NAMES)}, or with a size, as in hash_join@256K")
    size = int(match["count"]) * _UNITS[match["unit"]] if match["count"] else DEFAULT_BYTES
    if size < LEAST_BYTES:
        raise UsageError(f"{name!r} is too small: a loop goes through {LEAST_BYTES} bytes at least")
    unit, cycles, iterations, streams_of = _LOOPS[match["loop"]]
    streams = streams_of(size)
    return Loop(
        name=name,
        unit=unit,
        cycles_per_iteration=cycles,
        iterations=iterations,
        streams=streams,
        working_set_bytes=sum(stream.extent_bytes for stream in streams),
        dependent=any(stream.pattern == "chase" for stream in streams),
    )

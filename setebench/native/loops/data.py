"""What the compiled loops run on: arrays of the extents that a loop's streams have (`setebench.loops.shapes`), filled.
bodies.h says what each loop's arrays and sizes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.loops import LINE_BYTES, Loop, Policy
from setebench.loops.shapes import FAN_OUT, INDEX_BYTES, NUMBER_BYTES, STENCIL_FIELDS
from setebench.native.loops._loops import WORDS
from setebench.native.memory import SMALL_PAGE, map_region

LARGEST_DISTANCE = 1024
"""Iterations: the most that a policy may prefetch ahead. Keys and indices are that much longer than their loop, so that
they can be read ahead without a comparison."""

STAGGER_BYTES = 13 * LINE_BYTES
"""By how much each array of a loop begins later in its page than the one before: arrays at equal offsets share sets of
a cache, and stores seem to touch what is loaded from the next one."""

LEAST_LEAD = 64
"""Iterations before each timed run: streams that hardware follows have begun by then."""

TIMED_ITERATIONS = 4096
"""Of one timed run at least: a pass over small data is repeated until it has as many."""

STENCIL_ROW, STENCIL_ROWS = 136, 130
"""Numbers of a row and rows of a plane: 16 fields of three such planes are 6 MiB, more than a second cache holds. A row
and a plane are no multiples of a page, or their streams would share few sets."""

BLOCK_ROWS, BLOCK_NON_ZEROS = 16, 120
"""Rows of a sparse matrix have 0 to 15 non-zeros, each length once in 16 rows, so that passes have equally many."""

SLOTS, FILLED_SLOTS = 4, 0.55
"""Of a hash table's bucket, and their part that is filled: about every tenth bucket overflows."""
GOLDEN, WORD_BITS = np.uint64(0x9E3779B97F4A7C15), 64
"""2^64 over the golden ratio, and the bits of such a number, for multiplicative hashing (bodies.h)."""

LINE_NUMBERS, MOST_VALUE, ARRAYS = LINE_BYTES // NUMBER_BYTES, np.iinfo(np.int64).max, 5

Array = NDArray[Any]


class Memory:
    """Arrays on pages of 4 KiB, as a program has them that says nothing."""

    def __init__(self) -> None:
        self._arrays = 0

    def array(self, count: int, dtype: type[np.generic] | np.dtype[Any]) -> Array:
        """`count` zeros, touched, at the begin of a line. Raises `UnsupportedError` where memory is lacking."""
        wanted = count * np.dtype(dtype).itemsize
        skipped = self._arrays * STAGGER_BYTES % SMALL_PAGE
        self._arrays += 1
        region = map_region(wanted + skipped, SMALL_PAGE, True)
        return region.numbers().view(np.uint8)[skipped : skipped + wanted].view(dtype)

    def holding(self, values: Array, ahead: int = 0) -> Array:
        """A copy of these values, and of so many from their begin behind them."""
        copy = self.array(len(values) + ahead, values.dtype)
        copy[: len(values)], copy[len(values) :] = values, np.resize(values, ahead)
        return copy


@dataclass(frozen=True, kw_only=True)
class Data:
    """A loop's data. `arrays` and `sizes` are in the order of bodies.h. The loop has `total` iterations, which are gone
    through in passes of `each`, a multiple of `granule`. `offsets` are elements of each array before the one that the
    loop's address is of."""

    loop: Loop
    arrays: Sequence[Array]
    sizes: Sequence[int]
    total: int
    granule: int = 1
    offsets: Sequence[int] = (0,) * ARRAYS

    @property
    def each(self) -> int:
        """Iterations of a pass."""
        return min(self.total, self.loop.iterations) // self.granule * self.granule

    @property
    def passes(self) -> int:
        """Of all data; what doesn't fill a pass is left out."""
        return self.total // self.each

    @property
    def repeats(self) -> int:
        """Passes of one timed run: 1, unless the data are of a single short pass."""
        return -(-TIMED_ITERATIONS // self.each) if self.passes == 1 else 1

    def operands(self, first: int, policy: Policy) -> NDArray[np.int64]:
        """The words that a compiled loop is called with (loops.h) for a pass."""
        words = np.zeros(WORDS, dtype=np.int64)
        for at, (array, offset) in enumerate(zip(self.arrays, self.offsets, strict=False)):
            words[at] = array.ctypes.data + offset * array.itemsize
        words[ARRAYS : ARRAYS + len(self.sizes)] = self.sizes
        words[-5:] = (first, self.each, policy.l1_distance, policy.l2_distance, 0)
        return words

    def begin(self, number: int) -> int:
        """Iteration with which a pass begins, when so many were run before. All data come in turn, in random order:
        what a policy prefetched beyond the end of its pass would serve the policy that runs next."""
        return int(np.random.default_rng(1).permutation(self.passes)[number % self.passes]) * self.each

    def lead(self, begin: int, distance: int) -> tuple[int, int]:
        """Iterations to go through before a pass that begins there, as (first, count), so that its first ones were
        prefetched too: in a list whose nodes take 5 ns with prefetches and 165 without, 64 of 8192 are a quarter of the
        time. What comes before the begin is the end: keys and indices are read ahead into the begin again."""
        count = min(-(-max(distance, LEAST_LEAD) // self.granule) * self.granule, self.each)
        return (begin or self.passes * self.each) - count, count


def prepare(loop: Loop) -> Data:
    """The data of a loop. Raises `UnsupportedError` where memory is lacking."""
    return BUILDERS[loop.name.partition("@")[0]](loop, Memory(), np.random.default_rng(1))


# -- the loops, in the order of bodies.h ------------------------------------------------------------------------------


def _matmul(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    right, left = loop.streams
    rows, row = left.extent_bytes // (2 * NUMBER_BYTES), right.stride_bytes // NUMBER_BYTES
    arrays = (
        memory.array(2 * row, np.float64),
        memory.holding(rng.random(2 * rows)),
        memory.holding(rng.random(rows * row)),
    )
    total = rows * (row // LINE_NUMBERS - 1)
    return Data(loop=loop, arrays=arrays, sizes=(rows, row), total=total, granule=rows)


def _spmv(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    values, _, vector = loop.streams
    elements = vector.extent_bytes // NUMBER_BYTES
    blocks = values.extent_bytes // NUMBER_BYTES // BLOCK_NON_ZEROS
    count = blocks * BLOCK_NON_ZEROS
    lengths = rng.permuted(np.tile(np.arange(BLOCK_ROWS), (blocks, 1)), axis=1).ravel()
    arrays = (
        memory.array(len(lengths), np.float64),
        memory.holding(rng.random(count)),
        memory.holding(rng.integers(0, elements, count, dtype=np.int32), LARGEST_DISTANCE),
        memory.holding(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)),
        memory.holding(rng.random(elements)),
    )
    sizes = (BLOCK_ROWS, BLOCK_NON_ZEROS)
    return Data(loop=loop, arrays=arrays, sizes=sizes, total=count, granule=BLOCK_NON_ZEROS)


def _triad(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    count = loop.streams[0].extent_bytes // LINE_BYTES
    filled = [memory.holding(rng.random(LINE_NUMBERS * count)) for _ in range(2)]
    return Data(loop=loop, arrays=(memory.array(LINE_NUMBERS * count, np.float64), *filled), sizes=(), total=count)


def _stencil(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    points = loop.streams[-1].extent_bytes // NUMBER_BYTES
    row, rows = (STENCIL_ROW, STENCIL_ROWS) if points >= 4 * STENCIL_ROW * STENCIL_ROWS else (LINE_NUMBERS, 2)
    plane = row * rows
    planes = max(1, points // plane - 2)
    # a line between fields, and one before the first point and behind the last, whose neighbours are read too
    spacing = plane * (planes + 2) + 3 * LINE_NUMBERS
    fields = memory.holding(rng.random(STENCIL_FIELDS * spacing + 2 * LINE_NUMBERS))
    return Data(
        loop=loop,
        arrays=(memory.array(plane * planes, np.float64), fields),
        sizes=(row, plane, spacing, STENCIL_FIELDS),
        total=plane * planes // LINE_NUMBERS,
        offsets=(0, LINE_NUMBERS),
    )


def _strided(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    (stream,) = loop.streams
    count, words = stream.extent_bytes // stream.stride_bytes, stream.stride_bytes // NUMBER_BYTES
    records = memory.array(words * count, np.uint64)
    records[::words] = rng.integers(0, MOST_VALUE, count, dtype=np.uint64)
    return Data(loop=loop, arrays=(records,), sizes=(5, 11), total=count)  # any two bits of 64


def _hash_join(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    """A table that fills the size, and probes of keys that are in it, in random order."""
    probed, table = loop.streams
    buckets = table.extent_bytes // LINE_BYTES
    bits = buckets.bit_length() - 1
    # different numbers, as each has its own upper part, and none is 0
    count = int(SLOTS * buckets * FILLED_SLOTS)
    keys = np.arange(1, 1 + count, dtype=np.uint64) << np.uint64(24) | rng.integers(0, 1 << 24, count, np.uint64)
    drawn = keys[rng.integers(0, count, probed.extent_bytes // NUMBER_BYTES)]
    filled = _buckets(keys, rng.integers(0, MOST_VALUE, count, dtype=np.uint64), bits)
    arrays = (memory.holding(drawn, LARGEST_DISTANCE), memory.holding(filled.ravel()))
    return Data(loop=loop, arrays=arrays, sizes=(WORD_BITS - bits,), total=len(drawn))


def _buckets(keys: NDArray[np.uint64], payloads: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Buckets of four keys and four payloads, shape (buckets, 8): what finds its bucket full goes on to the next. The
    last buckets stay empty, so that nothing runs over the end."""
    table = np.zeros(((1 << bits) + LARGEST_DISTANCE, 2 * SLOTS), dtype=np.uint64)
    filled = np.zeros(len(table), dtype=np.int64)
    at = (keys * GOLDEN >> np.uint64(WORD_BITS - bits)).astype(np.int64)
    while len(keys):
        order = np.argsort(at, kind="stable")
        keys, payloads, at = keys[order], payloads[order], at[order]
        slot = filled[at] + np.arange(len(at)) - np.searchsorted(at, at)
        fits = slot < SLOTS
        table[at[fits], slot[fits]] = keys[fits]
        table[at[fits], slot[fits] + SLOTS] = payloads[fits]
        filled += np.bincount(at[fits], minlength=len(filled))
        keys, payloads, at = keys[~fits], payloads[~fits], at[~fits] + 1
    return table


def _tree_search(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    """A full tree of sorted numbers, level by level, and numbers to search in it."""
    wanted, nodes = loop.streams
    levels = nodes.steps + 1
    keys = np.cumsum(rng.integers(1, 64, FAN_OUT**levels - 1, dtype=np.int32), dtype=np.int32)
    tree = []
    for level in range(levels):
        below = FAN_OUT ** (levels - level - 1)  # a child's keys, and the one that follows it
        first = np.arange(FAN_OUT**level, dtype=np.int64)[:, None] * FAN_OUT * below
        tree.append(keys[first + np.arange(1, FAN_OUT) * below - 1].ravel())
    searched = rng.integers(0, int(keys[-1]) + 2, wanted.extent_bytes // INDEX_BYTES, dtype=np.int32)
    return Data(
        loop=loop,
        arrays=(
            memory.holding(searched, LARGEST_DISTANCE),
            memory.holding(np.concatenate(tree)),
            memory.array(len(searched) + LARGEST_DISTANCE, np.int32),
            memory.array(loop.iterations + 2 * LARGEST_DISTANCE, np.int32),
        ),
        sizes=(levels,),
        total=len(searched),
        offsets=(0, 0, 0, LARGEST_DISTANCE),
    )


def _list(loop: Loop, memory: Memory, rng: np.random.Generator) -> Data:
    """A list through lines in random order that ends where it began, and pointers to its nodes in the list's order."""
    count, words = loop.streams[1].extent_bytes // LINE_BYTES, LINE_NUMBERS
    nodes = memory.array(words * count, np.uint64)
    nodes[1::words] = rng.integers(0, MOST_VALUE, count, dtype=np.uint64)
    order = rng.permutation(count)
    addresses = np.uint64(nodes.ctypes.data) + order.astype(np.uint64) * np.uint64(LINE_BYTES)
    nodes[order * words] = np.roll(addresses, -1)
    return Data(loop=loop, arrays=(memory.holding(addresses, LARGEST_DISTANCE), nodes), sizes=(), total=count)


BUILDERS: dict[str, Callable[[Loop, Memory, np.random.Generator], Data]] = {
    "matmul": _matmul,
    "spmv": _spmv,
    "triad": _triad,
    "stencil": _stencil,
    "strided": _strided,
    "hash_join": _hash_join,
    "tree_search": _tree_search,
    "list": _list,
}

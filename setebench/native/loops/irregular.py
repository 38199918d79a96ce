"""Loops whose addresses come from data: what they run on and what comes out. See bodies.h for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.loops import LINE_BYTES, Stream
from setebench.native.loops.prepared import LARGEST_DISTANCE, Array, Memory, Prepared, Size, ahead, unsigned_sum, whole

PASS_ITERATIONS = 16384
"""A pass takes one to two milliseconds where every iteration waits for memory."""

RESIDENT_KEYS = 1 << 17
"""Of a loop on data in L1: keys or non-zeros that are read one after another, while what they lead to stays in L1.
Branch predictors learn sequences: with 16384 keys that come again and again a probe takes 6 cycles, with these 32."""

SPMV_PASS_NON_ZEROS = 32768
"""A quarter of a millisecond."""

RESIDENT_SEARCHES = 10
"""Different searches of such a loop: with six levels 51 nodes at most, in as many pages as a first-level TLB holds."""

SPMV_BLOCK_ROWS, SPMV_LENGTHS = 16, 16
"""Rows have 0 to 15 non-zeros, each length once in 16 rows: 120 a block, so that passes have equally many."""

SPMV_X_FRACTION = 0.7
"""Of the bytes: the vector; the rest are non-zeros of 12 bytes."""

FILLED_SLOTS = 0.55
"""Of a hash table: about every tenth bucket of four overflows."""

FAN_OUT = 17
KEYS_PER_NODE = FAN_OUT - 1
LARGEST_LEVELS = 7


def _keys(name: str, item_bytes: int, count: int, per_iteration: float = 1.0) -> Stream:
    """An array that is read from front to back and leads elsewhere; hardware follows it."""
    return Stream(
        name=name,
        pattern="sequential",
        bytes_per_iteration=item_bytes * per_iteration,
        stride_bytes=item_bytes,
        elements=count,
        accesses_per_iteration=per_iteration,
        extent_bytes=count * item_bytes,
        prefetched=False,
    )


def spmv(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """A sparse matrix with columns anywhere, times a vector."""
    in_x = int(size.touched * SPMV_X_FRACTION)
    in_block = SPMV_BLOCK_ROWS * (SPMV_LENGTHS - 1) // 2
    in_matrix = int(size.bytes * (1 - SPMV_X_FRACTION)) // 12
    non_zeros = RESIDENT_KEYS if size.resident else max(size.keys, in_matrix)
    iterations, each = whole(non_zeros // in_block * in_block, SPMV_PASS_NON_ZEROS // in_block * in_block)
    blocks = iterations // in_block
    lengths = rng.permuted(np.tile(np.arange(SPMV_LENGTHS), (blocks, 1)), axis=1).ravel()
    starts = memory.holding(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    x = memory.holding(rng.random(in_x // 8))
    columns = memory.holding(ahead(rng.integers(0, len(x), iterations, dtype=np.int32)))
    values = memory.holding(rng.random(iterations))
    y = memory.array(len(lengths), np.float64)

    def expected() -> Array:
        y[:] = 0
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return np.bincount(rows, weights=values * x[columns[:iterations]], minlength=len(lengths))

    gathered = Stream(
        name="vector",
        pattern="indirect",
        bytes_per_iteration=8,
        elements=len(x),
        extent_bytes=x.nbytes,
        via="columns",
    )
    return Prepared(
        arrays=(y, values, columns, starts, x),
        sizes=(SPMV_BLOCK_ROWS, in_block),
        iterations=iterations,
        pass_iterations=each,
        streams=(_keys("values", 8, iterations), _keys("columns", 4, iterations), gathered),
        unit="non-zeros",
        granule=in_block,
        outcome=lambda _: y.copy(),
        reference=expected,
    )


def _table(keys: NDArray[np.uint64], payloads: NDArray[np.uint64], buckets: int) -> NDArray[np.uint64]:
    """Buckets of four keys and four payloads, shape (buckets, 8): what finds its bucket full goes on to the next.

    The last buckets stay empty, so that nothing runs over the end."""
    table = np.zeros((buckets + LARGEST_DISTANCE, 8), dtype=np.uint64)
    filled = np.zeros(len(table), dtype=np.int64)
    at = bucket_of(keys, buckets)
    while len(keys):
        order = np.argsort(at, kind="stable")
        keys, payloads, at = keys[order], payloads[order], at[order]
        slot = filled[at] + np.arange(len(at)) - np.searchsorted(at, at)
        fits = slot < 4
        table[at[fits], slot[fits]] = keys[fits]
        table[at[fits], slot[fits] + 4] = payloads[fits]
        filled += np.bincount(at[fits], minlength=len(filled))
        keys, payloads, at = keys[~fits], payloads[~fits], at[~fits] + 1
    return table


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """Where each key's bucket is; `buckets` is a power of two. The same as bodies.h has."""
    shift = np.uint64(64 - (buckets.bit_length() - 1))
    return (keys * np.uint64(0x9E3779B97F4A7C15) >> shift).astype(np.int64)


def hash_join(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """A table that fills the size, and probes of keys that are in it, in random order."""
    buckets = 1 << max(1, (size.touched // LINE_BYTES).bit_length() - 1)
    count = int(4 * buckets * FILLED_SLOTS)
    # different numbers, as each has its own upper part, and none is 0
    inserted = np.arange(1, 1 + count, dtype=np.uint64) << np.uint64(24) | rng.integers(0, 1 << 24, count, np.uint64)
    payloads = rng.integers(0, 1 << 63, len(inserted), dtype=np.uint64)
    iterations, each = whole(RESIDENT_KEYS if size.resident else max(size.keys, size.bytes // 128), PASS_ITERATIONS)
    drawn = rng.integers(0, len(inserted), iterations)
    keys = memory.holding(ahead(inserted[drawn]))
    table = memory.holding(_table(inserted, payloads, buckets).ravel())
    lookup = Stream(
        name="buckets",
        pattern="lookup",
        bytes_per_iteration=48,
        elements=buckets,
        extent_bytes=buckets * LINE_BYTES,
        via="keys",
    )
    return Prepared(
        arrays=(keys, table),
        sizes=(64 - (buckets.bit_length() - 1),),
        iterations=iterations,
        pass_iterations=each,
        streams=(_keys("keys", 8, iterations), lookup),
        unit="probes",
        outcome=unsigned_sum,
        reference=lambda: unsigned_sum(payloads[drawn].tolist()),
    )


def _levels(size: Size) -> int:
    """Levels of the largest tree of at most this size, and half as much again, at least two."""
    nodes = [(FAN_OUT**levels - 1) // (FAN_OUT - 1) for levels in range(2, LARGEST_LEVELS + 1)]
    fitting = [index for index, count in enumerate(nodes) if count * LINE_BYTES <= 1.5 * size.bytes]
    return 2 + (fitting[-1] if fitting else 0)


def _tree(keys: NDArray[np.int32], levels: int) -> NDArray[np.int32]:
    """The sorted keys of a full tree, level by level, shape (nodes * 16,)."""
    parts = []
    for level in range(levels):
        below = FAN_OUT ** (levels - level - 1)  # a child's keys, and the one that follows it
        nodes = np.arange(FAN_OUT**level, dtype=np.int64)[:, None] * FAN_OUT * below
        parts.append(keys[nodes + np.arange(1, FAN_OUT) * below - 1].ravel())
    return np.concatenate(parts)


def tree_search(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """A full tree of sorted numbers, and numbers to search in it."""
    levels = _levels(size)
    keys = np.cumsum(rng.integers(1, 64, FAN_OUT**levels - 1, dtype=np.int32), dtype=np.int32)
    tree = memory.holding(_tree(keys, levels))
    iterations, each = whole(size.keys // (8 if size.resident else 2), PASS_ITERATIONS // 2)
    drawn = rng.integers(0, int(keys[-1]) + 2, RESIDENT_SEARCHES if size.resident else iterations, dtype=np.int32)
    wanted = memory.holding(ahead(np.resize(drawn, iterations)))
    found = memory.array(len(wanted), np.int32)
    at = memory.array(each + 2 * LARGEST_DISTANCE, np.int32)
    ranks = np.searchsorted(keys, wanted[:iterations]).astype(np.int32)

    def expected() -> Array:
        found[:] = -1
        return ranks

    nodes = Stream(
        name="nodes",
        pattern="lookup",
        bytes_per_iteration=float(LINE_BYTES * levels),
        accesses_per_iteration=1.0,
        elements=len(tree) // KEYS_PER_NODE,
        extent_bytes=tree.nbytes,
        steps=levels,
        via="searched keys",
    )
    return Prepared(
        arrays=(wanted, tree, found, at),
        sizes=(levels,),
        iterations=iterations,
        pass_iterations=each,
        streams=(_keys("searched keys", 4, iterations), nodes),
        unit="searches",
        outcome=lambda _: found[:iterations].copy(),
        reference=expected,
        offsets=(0, 0, 0, LARGEST_DISTANCE),
    )


def list_(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """A list through lines in random order that ends where it began, and pointers to its nodes in the list's order."""
    count = size.touched // LINE_BYTES
    iterations, each = whole(count, PASS_ITERATIONS // 2)
    words = LINE_BYTES // 8
    nodes = memory.array(words * count, np.uint64)
    nodes[1::words] = rng.integers(0, 1 << 63, count, dtype=np.uint64)
    order = rng.permutation(count)
    addresses = np.uint64(nodes.ctypes.data) + order.astype(np.uint64) * np.uint64(LINE_BYTES)
    nodes[order * words] = np.roll(addresses, -1)
    index = memory.holding(ahead(addresses))
    chased = Stream(
        name="nodes",
        pattern="chase",
        bytes_per_iteration=16,
        elements=count,
        extent_bytes=nodes.nbytes,
        via="index",
    )
    return Prepared(
        arrays=(index, nodes),
        sizes=(),
        iterations=iterations,
        pass_iterations=each,
        streams=(_keys("index", 8, count), chased),
        unit="nodes",
        outcome=unsigned_sum,
        reference=lambda: unsigned_sum(nodes[order[:iterations] * words + 1].tolist()),
        dependent=True,
    )

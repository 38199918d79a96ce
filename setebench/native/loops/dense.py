"""Loops whose addresses are known from a counter: what they run on and what comes out. See bodies.h for each."""

from __future__ import annotations

import numpy as np

from setebench.loops import LINE_BYTES, Stream
from setebench.native.loops.prepared import Array, Memory, Prepared, Size, whole

PASS_ITERATIONS = 16384
"""Of loops with few lines an iteration: a pass takes around a millisecond, long beside what the first misses and the
clock take, short beside what disturbs a CPU."""

MATMUL_ROWS = 1024
"""Rows of the right matrix: its lines of one panel lie in as many pages, more than a first-level TLB holds."""

STENCIL_FIELDS = 16
"""Five streams each: the 80 of Fang et al. 2014 (7, cactus)."""

STENCIL_ROW, STENCIL_ROWS = 136, 130
"""Numbers of a row and rows of a plane: 16 fields of three such planes are 6 MiB, more than a second cache holds. A row
and a plane are no multiples of a page, or their streams would share few sets."""

STENCIL_PASS_ITERATIONS = 1024
"""Half a millisecond, as one of them has 81 lines."""

CONTROL_BIT, TARGET_BIT = 5, 11
"""Any two of a state's 64 bits."""


def _lines(name: str, count: int, *, writes: bool = False, accesses: float = 4.0) -> Stream:
    """A stream of whole lines, one an iteration."""
    return Stream(
        name=name,
        pattern="sequential",
        bytes_per_iteration=LINE_BYTES,
        stride_bytes=16,
        elements=count,
        accesses_per_iteration=accesses,
        writes=writes,
        extent_bytes=count * LINE_BYTES,
    )


def triad(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """STREAM's triad (McCalpin 1995)."""
    iterations, each = whole(size.touched // (3 * LINE_BYTES), PASS_ITERATIONS)
    a = memory.array(8 * iterations, np.float64)
    b, c = (memory.holding(rng.random(8 * iterations)) for _ in range(2))
    return Prepared(
        arrays=(a, b, c),
        sizes=(),
        iterations=iterations,
        pass_iterations=each,
        streams=(_lines("b", iterations), _lines("c", iterations), _lines("a", iterations, writes=True)),
        unit="lines",
        outcome=lambda _: a.copy(),
        reference=lambda: b + 3 * c,
    )


def strided(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """libquantum's controlled not, on records of four lines."""
    words = 4 * LINE_BYTES // 8
    iterations, each = whole(size.touched // (8 * words), PASS_ITERATIONS)
    records = memory.array(words * iterations, np.uint64)
    records[::words] = rng.integers(0, 1 << 63, iterations, dtype=np.uint64)
    one = np.uint64(1)

    def expected() -> Array:
        controlled = records[::words] >> np.uint64(CONTROL_BIT) & one == one
        changed = records.copy()
        changed[::words][controlled] ^= one << np.uint64(TARGET_BIT)
        return changed

    stream = Stream(
        name="records",
        pattern="strided",
        bytes_per_iteration=8,
        stride_bytes=8 * words,
        elements=iterations,
        writes=True,
        extent_bytes=records.nbytes,
    )
    return Prepared(
        arrays=(records,),
        sizes=(CONTROL_BIT, TARGET_BIT),
        iterations=iterations,
        pass_iterations=each,
        streams=(stream,),
        unit="records",
        outcome=lambda _: records.copy(),
        reference=expected,
    )


def matmul(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """Two rows times a matrix by panels of one line, whose next line is a whole row further on."""
    rows = min(MATMUL_ROWS, max(64, size.touched // (2 * LINE_BYTES)))
    panels = max(1, size.touched // (rows * LINE_BYTES) - 1)
    # an odd number of lines, so that rows begin in different sets, and at least one behind the last panel
    row = 8 * (panels + 1 | 1)
    right = memory.holding(rng.random(rows * row))
    left = memory.holding(rng.random(2 * rows))
    product = memory.array(2 * row, np.float64)
    iterations, each = whole(rows * panels, max(rows, PASS_ITERATIONS // rows * rows))

    def expected() -> Array:
        product[:] = 0
        exact = np.zeros((2, row))
        done = iterations // rows * 8
        exact[:, :done] = left.reshape(2, rows) @ right.reshape(rows, row)[:, :done]
        return exact.ravel()

    stream = Stream(
        name="right matrix",
        pattern="strided",
        bytes_per_iteration=LINE_BYTES,
        stride_bytes=8 * row,
        elements=iterations,
        extent_bytes=right.nbytes,
    )
    inner = Stream(
        name="left matrix",
        pattern="sequential",
        bytes_per_iteration=16,
        stride_bytes=8,
        elements=2 * rows,
        accesses_per_iteration=2.0,
        extent_bytes=left.nbytes,
        prefetched=False,
    )
    return Prepared(
        arrays=(product, left, right),
        sizes=(rows, row),
        iterations=iterations,
        pass_iterations=each,
        streams=(stream, inner),
        unit="rows of a panel",
        outcome=lambda _: product.copy(),
        reference=expected,
        largest_distance=rows,
        granule=rows,
    )


def _stencil_shape(size: Size) -> tuple[int, int, int]:
    """Numbers of a row, rows of a plane, and planes between the lowest and the highest one."""
    per_field = size.touched // (STENCIL_FIELDS * 8)
    if per_field < 4 * STENCIL_ROW * STENCIL_ROWS:  # too small for such planes
        return 8, 2, max(1, per_field // 16 - 2)
    return STENCIL_ROW, STENCIL_ROWS, per_field // (STENCIL_ROW * STENCIL_ROWS) - 2


def stencil(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
    """Seven points of 16 fields, summed up with weights."""
    row, rows, planes = _stencil_shape(size)
    plane = row * rows
    # a line between fields, and one before the first point and behind the last, whose neighbours are read too
    spacing = plane * (planes + 2) + 3 * 8
    fields = memory.holding(rng.random(8 + STENCIL_FIELDS * spacing + 8))
    iterations, each = whole(plane * planes // 8, STENCIL_PASS_ITERATIONS)
    result = memory.array(plane * planes, np.float64)

    def expected() -> Array:
        result[:] = 0
        total = np.zeros(8 * iterations)

        def at(begin: int) -> Array:
            return fields[begin : begin + 8 * iterations]

        for m in range(8 + plane, 8 + plane + STENCIL_FIELDS * spacing, spacing):
            total += 0.5 * at(m) + 0.25 * (at(m - 1) + at(m + 1))
            total += 0.125 * (at(m - row) + at(m + row)) + 0.0625 * (at(m - plane) + at(m + plane))
        return np.concatenate([total, np.zeros(len(result) - len(total))])

    ways = {"centre": 12.0, "row before": 4.0, "row behind": 4.0, "plane below": 4.0, "plane above": 4.0}
    read = tuple(
        _lines(f"field {number}, {way}", iterations, accesses=accesses)
        for number in range(STENCIL_FIELDS)
        for way, accesses in ways.items()
    )
    return Prepared(
        arrays=(result, fields),
        sizes=(row, plane, spacing, STENCIL_FIELDS),
        iterations=iterations,
        pass_iterations=each,
        streams=(*read, _lines("result", iterations, writes=True)),
        unit="lines of points",
        outcome=lambda _: result.copy(),
        reference=expected,
        offsets=(0, 8),
    )

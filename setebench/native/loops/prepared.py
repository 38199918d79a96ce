"""Memory for loops, and a loop that is ready to run: arrays filled, and what comes out of it known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.loops import LINE_BYTES, Stream
from setebench.native.memory import SMALL_PAGE, NativeRegion, map_region

LARGEST_DISTANCE = 1024
"""Iterations: the most that a policy may prefetch ahead. Keys and indices are that much longer than their loop, so that
they can be read ahead without a comparison. Half of an L1 of 128 KiB has as many lines."""

STAGGER_BYTES = 13 * LINE_BYTES
"""By how much each array of a loop begins later in its page than the one before: arrays at equal offsets share sets of
a cache, and stores seem to touch what is loaded from the next one."""

TIMED_ITERATIONS = 4096
"""Of one timed run at least: a pass over small data is repeated until it has as many."""

LEAST_LEAD = 64
"""Iterations before each timed run: streams that hardware follows have begun by then."""

GOLDEN_PART = 0.382
"""Of all passes: how far apart in the data two passes are that are run one after another."""

Array = NDArray[Any]


class Memory:
    """Arrays on pages of 4 KiB, as a program has them that asks for nothing; all are released together."""

    def __init__(self) -> None:
        self._regions: list[NativeRegion] = []

    def array(self, count: int, dtype: type[np.generic] | np.dtype[Any]) -> Array:
        """`count` zeros, touched, at the begin of a line. Raises `UnsupportedError` where memory is lacking."""
        wanted = count * np.dtype(dtype).itemsize
        skipped = len(self._regions) * STAGGER_BYTES % SMALL_PAGE
        region = map_region(wanted + skipped, SMALL_PAGE, True)
        self._regions.append(region)
        return region.numbers().view(np.uint8)[skipped : skipped + wanted].view(dtype)

    def holding(self, values: Array) -> Array:
        """A copy of these values."""
        copy = self.array(len(values), values.dtype)
        copy[:] = values
        return copy

    def release(self) -> None:
        """Give everything back; arrays must not be used again."""
        for region in self._regions:
            region.release()
        self._regions.clear()


RESIDENT_BYTES = 16384
"""What a loop on data in L1 touches at most: half of the smallest L1 about."""


LEAST_KEYS = 1 << 19
"""Keys that go with small tables too: branch predictors learn sequences of 16384 keys within ten passes, and no pass of
these comes again before 32 others."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a loop's data are to be. `bytes` is what it goes through in all; `resident` asks for so few different
    lines that they stay in L1, for the same work. `keys` is the fewest that a loop searches."""

    bytes: int
    resident: bool = False
    keys: int = LEAST_KEYS

    @property
    def touched(self) -> int:
        """Bytes that the loop may touch."""
        return RESIDENT_BYTES if self.resident else self.bytes


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A loop's data. `arrays` and `sizes` are in the order of bodies.h; a pass begins at a multiple of
    `pass_iterations` below `iterations`, and any run has a multiple of `granule`. `reference` wipes what an earlier run
    left and computes apart what `outcome`, given the sums that passes returned, finds behind a run of all passes."""

    arrays: Sequence[Array]
    sizes: Sequence[int]
    iterations: int
    pass_iterations: int
    streams: tuple[Stream, ...]
    unit: str
    outcome: Callable[[Sequence[int]], Array]
    reference: Callable[[], Array]
    dependent: bool = False
    largest_distance: int = LARGEST_DISTANCE
    granule: int = 1
    offsets: Sequence[int] = field(default=())
    """Elements of each array before the one that the loop's address is of; none unless given."""

    def begin(self, number: int) -> int:
        """Iteration with which a pass begins, when so many were run before. All data come in turn, but no part behind
        its neighbour: what a policy prefetched beyond the end of its pass would serve the policy that runs next."""
        passes = self.iterations // self.pass_iterations
        steps = range(round(passes * GOLDEN_PART) or 1, 2 * passes)
        apart = next(step for step in steps if math.gcd(step, passes) == 1)
        return number * apart % passes * self.pass_iterations

    def lead(self, begin: int, distance: int) -> tuple[int, int]:
        """Iterations to go through before a pass that begins there, as (first, count), so that its first ones were
        prefetched too: in a list whose nodes take 5 ns with prefetches and 165 without, 64 of 8192 are a quarter of the
        time. What comes before the begin is the end: keys and indices are read ahead into the begin again."""
        count = min(-(-max(distance, LEAST_LEAD) // self.granule) * self.granule, self.pass_iterations)
        return (begin or self.iterations) - count, count

    @property
    def repeats(self) -> int:
        """Passes of one timed run: 1, unless the data are of a single short pass."""
        return -(-TIMED_ITERATIONS // self.pass_iterations) if self.iterations == self.pass_iterations else 1

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the loop's arrays begin."""
        offsets = self.offsets or (0,) * len(self.arrays)
        return tuple(
            array.ctypes.data + offset * array.itemsize for array, offset in zip(self.arrays, offsets, strict=True)
        )

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self.arrays)


def ahead(values: Array) -> Array:
    """The values, and as many from their begin as a policy may read ahead of them."""
    return np.concatenate([values, np.resize(values, LARGEST_DISTANCE)])


def whole(iterations: int, pass_iterations: int) -> tuple[int, int]:
    """Iterations rounded down to whole passes, and a pass, which may be all of them."""
    each = min(iterations, pass_iterations)
    return iterations // each * each, each


def unsigned_sum(values: Array | Sequence[int]) -> Array:
    """The sum as the loops compute it: of 64 bits, without a sign."""
    return np.array([sum(int(value) for value in values) & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)

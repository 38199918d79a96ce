"""Known volumes: what streaming kernels move between memory and caches, how unevenly threads work, and errors.

Röhl et al. 2015 hold events against such volumes. Their text names seven kernels and lists six, and the formula printed
for ddot is that of daxpy, whose factor is 1: its destination is read anyway, so writing it fetches nothing more. Their
`stream` is `triad` here and their `triad` is `vector_triad`.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from setebench.kernels import BLOCK_BYTES, Kernel


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that come from a level that holds none of the lines above it, and that go back to it."""

    read_bytes: float
    write_bytes: float

    @property
    def total_bytes(self) -> float:
        """Both directions."""
        return self.read_bytes + self.write_bytes


def write_allocate_factor(kernel: Kernel) -> float:
    """How many times the bytes that a program asks for a kernel moves, as lines are fetched to be overwritten."""
    return kernel.traffic_bytes / kernel.program_bytes


def expected_volume(kernel: Kernel, array_bytes: int, passes: int = 1) -> Volume:
    """What `passes` over arrays of `array_bytes` each move, once all written lines are back."""
    blocks = passes * array_bytes / BLOCK_BYTES
    return Volume(
        read_bytes=blocks * (kernel.read_bytes + kernel.allocated_bytes), write_bytes=blocks * kernel.written_bytes
    )


def imbalance(work: Collection[float]) -> float:
    """The most loaded thread over the mean of all: 1 where all do the same, their number where one does everything.

    Raises ValueError for no thread, or for none that worked."""
    total = float(sum(work))
    if not total > 0:
        raise ValueError("no thread worked")
    return max(work) * len(work) / total


def triangle_rows(size: int, first: int, last: int) -> int:
    """Elements of the rows `first` to `last - 1` of an upper triangular matrix with `size` rows (Röhl et al. 2015,
    Table 1.2: the two halves of 8,192 rows hold 25,167,872 and 8,390,656)."""
    return (last - first) * size - (last * (last - 1) - first * (first - 1)) // 2


def relative_error(measured: float, expected: float) -> float:
    """By which part of the expected value a measured one is off, with its sign. Raises ZeroDivisionError for 0."""
    return (measured - expected) / expected


def transfers_per_second(bandwidth_gb: float, bytes_each: int) -> float:
    """Transfers of so many bytes a second in a bandwidth in 10^9 bytes a second (Molka et al. 2017, Tables 2, 3)."""
    return bandwidth_gb * 1e9 / bytes_each

"""Block sizes of matrix multiplication from cache sizes: the analytical model of Low, Igual, Smith and Quintana-Ortí,
"Analytical modeling is enough for high-performance BLIS", ACM TOMS 43 (2), 2016, doi:10.1145/2925987.

The innermost loops multiply micro-panels of m_r and n_r rows and columns. Ways are what is divided: k_c fills the
first cache with a micro-panel of each matrix and leaves a way for the result, m_c the second beside a micro-panel of
B and a way of the result, n_c the third beside the block of A.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from setebench.export.source import Source
from setebench.export.values import Known, Open, Value, derived, with_assumption

MODEL = "analytical model of Low et al. 2016"


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache by its ways and the bytes that one way of all sets holds."""

    ways: int
    way_bytes: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A micro-kernel: rows and columns of the result that it keeps in registers, and bytes of an element."""

    rows: int
    columns: int
    element_bytes: int


def block_sizes(kernel: Kernel, *caches: Cache) -> list[int]:
    """k_c, m_c and n_c in elements, as many as there are caches: how deep a micro-panel may be to stay in the first
    cache, rows of the block of A that stays in the second, columns of the panel of B that stays in the third."""
    first = caches[0]
    ways = math.floor((first.ways - 1) / (1 + kernel.columns / kernel.rows))
    depth = max(ways, 0) * first.way_bytes // (kernel.rows * kernel.element_bytes)
    found = [depth]
    beside = kernel.columns
    for cache, multiple in zip(caches[1:], (kernel.rows, kernel.columns), strict=False):
        taken = math.ceil(beside * depth * kernel.element_bytes / cache.way_bytes)
        left = max(cache.ways - 1 - taken, 0) * cache.way_bytes
        beside = (left // (depth * kernel.element_bytes) if depth else 0) // multiple * multiple
        found.append(beside)
    return found


def blocks(source: Source, kernel: Kernel, kernel_from: str) -> Iterator[Known]:
    """k_c, m_c and n_c for a micro-kernel, which is assumed: `kernel_from` says whose it is."""
    how = f"micro-kernel {kernel.rows} x {kernel.columns} assumed ({kernel_from})"

    def last(*numbers: float) -> float:
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return block_sizes(kernel, *(Cache(int(ways), int(size / ways)) for size, ways in pairs))[-1]

    for levels in ((1,), (1, 2), (1, 2, 3)):
        inputs = tuple(each for level in levels for each in (source.whole(level), source.ways(level)))
        found = derived(last, "elements", inputs, MODEL, int)
        if isinstance(found, Value) and not found.value:
            found = Open("cache.l1.ways", "the model finds no room for blocks in caches of so few ways")
        yield with_assumption(found, how)

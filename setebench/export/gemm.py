"""Block sizes of matrix multiplication from cache sizes: the analytical model of Low, Igual, Smith and Quintana-Ortí,
"Analytical modeling is enough for high-performance BLIS", ACM TOMS 43 (2), 2016, doi:10.1145/2925987.

The innermost loops multiply micro-panels of m_r and n_r rows and columns. Ways are what is divided: k_c fills the
first cache with a micro-panel of each matrix and leaves a way for the result, m_c the second beside a micro-panel of
B and a way of the result, n_c the third beside the block of A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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


def k_block(kernel: Kernel, first: Cache) -> int:
    """k_c: how deep a micro-panel may be for one of A and one of B to stay in the first cache (elements)."""
    ways = math.floor((first.ways - 1) / (1 + kernel.columns / kernel.rows))
    return max(ways, 0) * first.way_bytes // (kernel.rows * kernel.element_bytes)


def m_block(kernel: Kernel, depth: int, second: Cache) -> int:
    """m_c: rows of the block of A that stays in the second cache, a multiple of the kernel's rows (elements)."""
    return _beside(kernel.columns * depth, depth, kernel, second) // kernel.rows * kernel.rows


def n_block(kernel: Kernel, depth: int, rows: int, third: Cache) -> int:
    """n_c: columns of the panel of B that stays in the third cache, a multiple of the kernel's columns (elements)."""
    return _beside(rows * depth, depth, kernel, third) // kernel.columns * kernel.columns


def _beside(other_elements: int, depth: int, kernel: Kernel, cache: Cache) -> int:
    """Rows or columns of `depth` elements that fit beside another block and one way of the result; 0 where none do."""
    taken = math.ceil(other_elements * kernel.element_bytes / cache.way_bytes)
    ways = cache.ways - 1 - taken
    return max(ways, 0) * cache.way_bytes // (depth * kernel.element_bytes) if depth else 0

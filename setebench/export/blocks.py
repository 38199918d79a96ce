"""Block sizes of matrix multiplication from a result, for the libraries that take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from setebench.export.gemm import Cache, Kernel, k_block, m_block, n_block
from setebench.export.source import Source
from setebench.export.values import Known, Open, Value, derived, with_assumption

MODEL = "analytical model of Low et al. 2016"


@dataclass(frozen=True, slots=True)
class Blocks:
    """m_c, k_c and n_c in elements."""

    m: Known
    k: Known
    n: Known


def blocks(source: Source, kernel: Kernel, kernel_from: str) -> Blocks:
    """The three block sizes of a micro-kernel, which is assumed: `kernel_from` says whose it is."""
    how = f"micro-kernel {kernel.rows} x {kernel.columns} assumed ({kernel_from})"
    depth = _block(source, (1,), lambda first: k_block(kernel, first), how)
    rows = _block(source, (1, 2), lambda first, second: m_block(kernel, k_block(kernel, first), second), how)
    columns = _block(source, (1, 2, 3), lambda first, second, third: _columns(kernel, first, second, third), how)
    return Blocks(rows, depth, columns)


def _columns(kernel: Kernel, first: Cache, second: Cache, third: Cache) -> int:
    depth = k_block(kernel, first)
    return n_block(kernel, depth, m_block(kernel, depth, second), third)


def _block(source: Source, levels: tuple[int, ...], rule: Callable[..., int], how: str) -> Known:
    inputs = tuple(each for level in levels for each in (source.whole(level), source.ways(level)))

    def of_numbers(*numbers: float) -> float:
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return rule(*(Cache(int(ways), int(size / ways)) for size, ways in pairs))

    found = derived(of_numbers, "elements", inputs, MODEL, int)
    if isinstance(found, Value) and not found.value:
        return Open("cache.l1.ways", "the model finds no room for blocks in caches of so few ways")
    return with_assumption(found, how)

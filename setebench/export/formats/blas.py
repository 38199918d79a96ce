"""OpenBLAS and BLIS: block sizes of matrix multiplication from cache sizes.

Sizes are in elements, for single, double, complex and double complex (s, d, c, z), and follow the analytical model of
Low, Igual, Smith and Quintana-Ortí, "Analytical modeling is enough for high-performance BLIS", ACM TOMS 43 (2), 2016,
doi:10.1145/2925987. The innermost loops multiply micro-panels of m_r and n_r rows and columns. Ways are what is
divided: k_c fills the first cache with a micro-panel of each matrix and leaves a way for the result, m_c the second
beside a micro-panel of B and a way of the result, n_c the third beside the block of A. m_c and n_c are rounded down to
the micro-kernel's rows and columns, k_c is rounded down.

OpenBLAS reads `OPENBLAS_L2_SIZE` when it starts, in KiB, rounded down; `xGEMM_DEFAULT_P`, `_Q` and `_R` of param.h
(m_c, k_c and n_c) need a rebuilt library, so they are comments. The micro-kernels assumed are those of Haswell to Zen:
8 x 4 (single) and 4 x 8 (double). Names: OpenBLAS, param.h and driver/others/parameter.c.

BLIS has the lines of a configuration's `bli_cntx_init_*`; -1 keeps what it had. The micro-kernels assumed are those of
its haswell and zen configurations: 6 x 16, 6 x 8, 3 x 8 and 3 x 4. Names: BLIS, config/zen3/bli_cntx_init_zen3.c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from setebench.export.source import Source
from setebench.export.values import Format, Known, Open, Row, Sheet, Value, derived, with_assumption
from setebench.text import KIBI

MODEL = "analytical model of Low et al. 2016"
KEEP = -1
Kernel = tuple[int, int, int]
"""A micro-kernel: rows and columns of the result that it keeps in registers, and bytes of an element."""

OPENBLAS = {"S": (8, 4, 4), "D": (4, 8, 8)}
BLIS = {"s": (6, 16, 4), "d": (6, 8, 8), "c": (3, 8, 8), "z": (3, 4, 16)}
NAMES = ("KC", "MC", "NC")


def block_sizes(kernel: Kernel, *caches: tuple[int, int]) -> list[int]:
    """k_c, m_c and n_c in elements, for as many caches (ways, and bytes of one way of all sets) as there are: how deep
    a micro-panel may be to stay in the first, rows of the block of A that stays in the second, columns of the panel of
    B that stays in the third."""
    rows, columns, element = kernel
    (ways, way_bytes), *others = caches
    depth = max(math.floor((ways - 1) / (1 + columns / rows)), 0) * way_bytes // (rows * element)
    found, beside = [depth], columns
    for (ways, way_bytes), multiple in zip(others, (rows, columns), strict=False):
        taken = math.ceil(beside * depth * element / way_bytes)
        left = max(ways - 1 - taken, 0) * way_bytes
        beside = (left // (depth * element) if depth else 0) // multiple * multiple
        found.append(beside)
    return found


def _blocks(source: Source, kernels: Mapping[str, Kernel], whose: str) -> Iterator[tuple[str, list[Known]]]:
    """By letter k_c, m_c and n_c for its micro-kernel, which is assumed: `whose` says where it is from."""
    for letter, kernel in kernels.items():
        known = [_size(source, kernel, levels) for levels in ((1,), (1, 2), (1, 2, 3))]
        why = f"micro-kernel {kernel[0]} x {kernel[1]} assumed ({whose})"
        yield letter, [with_assumption(each, why) for each in known]


def _size(source: Source, kernel: Kernel, levels: tuple[int, ...]) -> Known:
    def last(*numbers: float) -> float:
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return block_sizes(kernel, *((int(ways), int(size / ways)) for size, ways in pairs))[-1]

    inputs = [each for level in levels for each in (source.size(level), source.ways(level))]
    found = derived(last, "elements", inputs, MODEL, int)
    if isinstance(found, Value) and not found.value:
        return Open("cache.l1.ways", "the model finds no room for blocks in caches of so few ways")
    return found


def openblas_rows(source: Source) -> Iterator[Row]:
    yield "OPENBLAS_L2_SIZE", source.size(2, KIBI, "KiB")
    for letter, sizes in _blocks(source, OPENBLAS, "param.h of Haswell to Zen"):
        yield from zip((f"{letter}GEMM_DEFAULT_{name}" for name in "QPR"), sizes, strict=True)


def blis_rows(source: Source) -> Iterator[Row]:
    for letter, sizes in _blocks(source, BLIS, "haswell and zen"):
        yield from zip((f"{name} {letter}" for name in NAMES), sizes, strict=True)


def openblas(_source: Source, sheet: Sheet) -> Iterator[str]:
    for key, each in sheet.values.items():
        yield f"# {each.comment}"
        yield f"# for param.h: #define {key} {each.value}" if "GEMM" in key else f"export {key}={each.value}"


def blis(_source: Source, sheet: Sheet) -> Iterator[str]:
    yield from (f"// {key}: {each.comment}" for key, each in sheet.values.items())
    yield "//   s, d, c, z"
    for name in NAMES:
        sizes = [sheet.get(f"{name} {letter}", KEEP) for letter in BLIS]
        if set(sizes) != {KEEP}:
            yield f"bli_blksz_init_easy( &blkszs[ BLIS_{name} ], {', '.join(map(str, sizes))} );"


FORMATS = (
    Format("openblas", "OpenBLAS: L2 size variable, and P, Q, R of param.h", openblas_rows, openblas, "#"),
    Format("blis", "BLIS: MC, KC, NC of a configuration", blis_rows, blis, "//"),
)

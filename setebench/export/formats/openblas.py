"""OpenBLAS: the size of the second cache, and block sizes of matrix multiplication.

`OPENBLAS_L2_SIZE` is read by the library when it starts, in KiB, rounded down. `xGEMM_DEFAULT_P`, `_Q` and `_R` of
param.h (m_c, k_c and n_c in elements, rounded down to the micro-kernel's rows and columns) need a rebuilt library, so
they are comments. The micro-kernels assumed are those of Haswell to Zen: `xGEMM_DEFAULT_UNROLL_M` and `_N` of 8 x 4
(single) and 4 x 8 (double). Names: OpenBLAS, param.h and driver/others/parameter.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.blocks import Kernel, blocks
from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Row, Sheet

KIB = 1024
KERNELS = {"S": Kernel(8, 4, 4), "D": Kernel(4, 8, 8)}


def rows(source: Source) -> Iterator[Row]:
    yield from source.other_levels((1, 2, 3))
    yield "export OPENBLAS_L2_SIZE", source.size(2, KIB, "KiB")
    for letter, kernel in KERNELS.items():
        for name, known in zip("QPR", blocks(source, kernel, "param.h of Haswell to Zen"), strict=True):
            yield f"define {letter}GEMM_DEFAULT_{name}", known


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    yield from source.heading("#", "OpenBLAS: cache and block sizes, with what was measured")
    parts = sheet.parts()
    yield from parts.get("export", Sheet()).lines("#", "export {key}={value}")
    yield "# for param.h, and a library built with it:"
    yield from parts.get("define", Sheet()).lines("#", "# define {key} {value}")
    yield from sheet.missing("#")


FORMAT = Format("openblas", "OpenBLAS: L2 size variable, and P, Q, R of param.h", rows, lines)

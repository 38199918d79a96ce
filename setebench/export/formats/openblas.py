"""OpenBLAS: the size of the second cache, and block sizes of matrix multiplication.

`OPENBLAS_L2_SIZE` is read by the library when it starts, in KiB, rounded down. `xGEMM_DEFAULT_P`, `_Q` and `_R` of
param.h (m_c, k_c and n_c in elements, rounded down to the micro-kernel's rows and columns) need a rebuilt library, so
they are comments. The micro-kernels assumed are those of Haswell to Zen: `xGEMM_DEFAULT_UNROLL_M` and `_N` of 8 x 4
(single) and 4 x 8 (double). Names: OpenBLAS, param.h and driver/others/parameter.c.
"""

from __future__ import annotations

from setebench.export.blocks import blocks
from setebench.export.format import Format
from setebench.export.gemm import Kernel
from setebench.export.source import Source
from setebench.export.values import Sheet

KIB = 1024
KERNELS = {"S": Kernel(8, 4, 4), "D": Kernel(4, 8, 8)}


def write(source: Source) -> str:
    """The variable for a shell, and the definitions of param.h in comments."""
    size, definitions = Sheet(), Sheet()
    source.levels_within(size, (1, 2, 3))
    size.put("OPENBLAS_L2_SIZE", source.size(2, KIB, "KiB"))
    for letter, kernel in KERNELS.items():
        found = blocks(source, kernel, "param.h of Haswell to Zen")
        for name, known in (("P", found.m), ("Q", found.k), ("R", found.n)):
            definitions.put(f"{letter}GEMM_DEFAULT_{name}", known)
    lines = source.heading("#", "OpenBLAS: cache and block sizes, with what was measured")
    for entry in size.entries:
        lines += [f"# {entry.value.comment}", f"export {entry.key}={entry.value.value}"]
    lines.append("# for param.h, and a library built with it:")
    for entry in definitions.entries:
        lines += [f"# {entry.value.comment}", f"# define {entry.key} {entry.value.value}"]
    return "\n".join([*lines, *size.missing("#"), *definitions.missing("#")]) + "\n"


FORMAT = Format("openblas", "OpenBLAS: L2 size variable, and P, Q, R of param.h", write)

"""BLIS: block sizes of matrix multiplication, as the lines of a configuration's `bli_cntx_init_*`.

MC, KC and NC in elements, for single, double, complex and double complex; MC and NC are rounded down to a multiple of
the micro-kernel's rows and columns, as BLIS demands, KC is rounded down. The micro-kernels assumed are those of its
haswell and zen configurations: 6 x 16, 6 x 8, 3 x 8 and 3 x 4. -1 keeps what the configuration had. Names: BLIS,
config/zen3/bli_cntx_init_zen3.c.
"""

from __future__ import annotations

from setebench.export.blocks import Blocks, blocks
from setebench.export.format import Format
from setebench.export.gemm import Kernel
from setebench.export.source import Source
from setebench.export.values import Known, Sheet, Value

KERNELS = {"s": Kernel(6, 16, 4), "d": Kernel(6, 8, 8), "c": Kernel(3, 8, 8), "z": Kernel(3, 4, 16)}
KEEP = -1
NAMES = ("MC", "KC", "NC")


def write(source: Source) -> str:
    """Up to three lines of C, with comments."""
    found = {letter: blocks(source, kernel, "haswell and zen") for letter, kernel in KERNELS.items()}
    sheet = Sheet()
    source.levels_within(sheet, (1, 2, 3))
    for letter, each in found.items():
        for name, known in _named(each).items():
            sheet.put(f"{name} {letter}", known)
    lines = source.heading("//", "BLIS: block sizes, with what was measured")
    rows = [
        f"bli_blksz_init_easy( &blkszs[ BLIS_{name} ], {_row(sheet, name)} );" for name in NAMES if _given(sheet, name)
    ]
    comments = [f"// {entry.key}: {entry.value.comment}" for entry in sheet.entries]
    return "\n".join([*lines, *comments, *(["//   s, d, c, z"] if rows else []), *rows, *sheet.missing("//")]) + "\n"


def _named(found: Blocks) -> dict[str, Known]:
    return {"MC": found.m, "KC": found.k, "NC": found.n}


def _given(sheet: Sheet, name: str) -> bool:
    return any(entry.key.startswith(f"{name} ") for entry in sheet.entries)


def _row(sheet: Sheet, name: str) -> str:
    given: dict[str, Value] = {entry.key: entry.value for entry in sheet.entries}
    return ", ".join(str(given[key].value if (key := f"{name} {letter}") in given else KEEP) for letter in KERNELS)


FORMAT = Format("blis", "BLIS: MC, KC, NC of a configuration", write)

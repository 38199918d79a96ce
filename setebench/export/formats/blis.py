"""BLIS: block sizes of matrix multiplication, as the lines of a configuration's `bli_cntx_init_*`.

MC, KC and NC in elements, for single, double, complex and double complex; MC and NC are rounded down to a multiple of
the micro-kernel's rows and columns, as BLIS demands, KC is rounded down. The micro-kernels assumed are those of its
haswell and zen configurations: 6 x 16, 6 x 8, 3 x 8 and 3 x 4. -1 keeps what the configuration had. Names: BLIS,
config/zen3/bli_cntx_init_zen3.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.blocks import Kernel, blocks
from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Row, Sheet

KERNELS = {"s": Kernel(6, 16, 4), "d": Kernel(6, 8, 8), "c": Kernel(3, 8, 8), "z": Kernel(3, 4, 16)}
KEEP = -1
NAMES = ("KC", "MC", "NC")


def rows(source: Source) -> Iterator[Row]:
    yield from source.other_levels((1, 2, 3))
    for letter, kernel in KERNELS.items():
        for name, known in zip(NAMES, blocks(source, kernel, "haswell and zen"), strict=True):
            yield f"{name} {letter}", known


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    yield from source.heading("//", "BLIS: block sizes, with what was measured")
    yield from (f"// {key}: {each.comment}" for key, each in sheet.values.items())
    yield "//   s, d, c, z"
    for name in NAMES:
        sizes = [sheet.get(f"{name} {letter}", KEEP) for letter in KERNELS]
        if set(sizes) != {KEEP}:
            yield f"bli_blksz_init_easy( &blkszs[ BLIS_{name} ], {', '.join(map(str, sizes))} );"
    yield from sheet.missing("//")


FORMAT = Format("blis", "BLIS: MC, KC, NC of a configuration", rows, lines)

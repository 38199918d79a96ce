"""What the compiled loops prefetch: the same source, compiled with prefetches that are written down instead.

A prefetch of a wrong address changes no result and hardly a time; so every address is held against the line that the
iteration a distance later uses."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import setebench.native.loops
from setebench.loops import LINE_BYTES, Policy
from setebench.loops.shapes import shape
from setebench.native.loops.data import Data, prepare

NEAR, FAR, MOST = 3, 16, 1 << 20
WRITING = """
static void write_down(const void *address, int level);
#define __builtin_prefetch(address, write, locality) write_down(address, 3 - locality)
#include "bodies.h"
static int64_t *places;
static int64_t written;
void write_to(int64_t *to) { places = to; written = 0; }
int64_t count(void) { return written; }
static void write_down(const void *address, int stage)
{
    places[2 * written] = stage;
    places[2 * written++ + 1] = (int64_t)address;
}
#define PUBLIC(name) void public_##name(struct setebench_loop *loop) { name(loop, 1, 2); }
EVERY_LOOP(PUBLIC)
"""
Used = Callable[[Data, NDArray[np.int64]], NDArray[np.int64]]


def _begin(data: Data, array: int) -> int:
    return int(data.arrays[array].ctypes.data)


def _triad(data: Data, i: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([_begin(data, array) + LINE_BYTES * i for array in (1, 2, 0)], axis=1).ravel()


def _matmul(data: Data, i: NDArray[np.int64]) -> NDArray[np.int64]:
    rows, row = data.sizes
    return _begin(data, 2) + LINE_BYTES * (i // rows) + 8 * row * (i % rows)


USED: dict[str, Used] = {
    "matmul": _matmul,
    "triad": _triad,
    "spmv": lambda data, i: _begin(data, 4) + 8 * data.arrays[2][i].astype(np.int64),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed here to compile the loops once more")
    folder = tmp_path_factory.mktemp("loops")
    (folder / "writing.c").write_text(WRITING)
    flags = ["-O1", "-fPIC", "-shared", f"-I{Path(setebench.native.loops.__file__).parent}"]
    subprocess.run([compiler, *flags, "writing.c", "-o", "writing.so"], check=True, timeout=60, cwd=folder)
    return ctypes.CDLL(str(folder / "writing.so"))


def _prefetched(library: ctypes.CDLL, name: str, prepared: Data, count: int) -> list[NDArray[np.int64]]:
    """Addresses of the L1 and the L2 stage, in order, of one pass of so many iterations."""
    operands = prepared.operands(0, Policy(l1_distance=NEAR, l2_distance=FAR))
    places, operands[-4] = np.zeros((MOST, 2), dtype=np.int64), count
    library.write_to(ctypes.c_void_p(places.ctypes.data))
    getattr(library, f"public_{name}")(ctypes.c_void_p(operands.ctypes.data))
    found = places[: library.count()]
    return [found[found[:, 0] == stage, 1] for stage in (0, 1)]


@pytest.mark.parametrize("name", USED)
def test_a_prefetch_is_of_what_the_iteration_a_distance_later_uses(library: ctypes.CDLL, name: str) -> None:
    prepared = prepare(shape(f"{name}@256K"))
    count = min(prepared.each, 4096 // prepared.granule * prepared.granule)
    for found, distance in zip(_prefetched(library, name, prepared, count), (NEAR, FAR), strict=True):
        used = USED[name](prepared, np.arange(count - FAR, dtype=np.int64) + distance)
        assert (found[: len(used)] == used).all()

"""What the compiled loops prefetch, and when: the same source, compiled with prefetches that are written down instead.

A prefetch of a wrong address changes no result and hardly a time; so every address is held against the lines that the
iteration a distance later uses."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import setebench.native.loops
from setebench.loops import LINE_BYTES, LOOP_NAMES
from setebench.native.loops.irregular import FAN_OUT, bucket_of
from setebench.native.loops.native_loops import BUILDERS
from setebench.native.loops.prepared import Memory, Prepared, Size

SOURCES = Path(setebench.native.loops.__file__).parent
SIZE = Size(bytes=256 << 10)
STAGES = {"near": 1, "far": 2}
MOST = 1 << 22
WRITING = """
#include "stages.h"
#undef HINT_1
#undef HINT_2
#define HINT_1(address) write_down(1, (const void *)(address))
#define HINT_2(address) write_down(2, (const void *)(address))
static int64_t *places;
static int64_t written, most;
void write_to(int64_t *to, int64_t count) { places = to; most = count; written = 0; }
int64_t count(void) { return written; }
static void write_down(int64_t stage, const void *address)
{
    if (written < most) {
        places[2 * written] = stage;
        places[2 * written + 1] = (int64_t)address;
    }
    written++;
}
#define NEAR 1
#define FAR 2
#include "bodies.h"
#define PUBLIC(name) void public_##name(struct setebench_loop *loop) { name##_12(loop); }
PUBLIC(matmul) PUBLIC(spmv) PUBLIC(triad) PUBLIC(stencil)
PUBLIC(strided) PUBLIC(hash_join) PUBLIC(tree_search) PUBLIC(list)
"""


class LoopCall(ctypes.Structure):
    """`struct setebench_loop` of loops.h."""

    _fields_ = (
        ("array", ctypes.c_void_p * 6),
        ("size", ctypes.c_int64 * 4),
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("near", ctypes.c_int64),
        ("far", ctypes.c_int64),
        ("result", ctypes.c_int64),
    )


@dataclass
class Writing:
    """The loops that write their prefetches down."""

    library: ctypes.CDLL

    def lines(self, name: str, prepared: Prepared, first: int, near: int, far: int) -> dict[str, NDArray[np.int64]]:
        """Addresses of each stage, in order, of one pass from iteration `first` on."""
        call = LoopCall(first=first, count=prepared.pass_iterations, near=near, far=far)
        for index, address in enumerate(prepared.addresses):
            call.array[index] = address
        for index, size in enumerate(prepared.sizes):
            call.size[index] = size
        places = np.zeros((MOST, 2), dtype=np.int64)
        self.library.write_to(ctypes.c_void_p(places.ctypes.data), ctypes.c_int64(MOST))
        getattr(self.library, f"public_{name}")(ctypes.byref(call))
        count = self.library.count()
        assert 0 < count <= MOST
        found = places[:count]
        return {stage: found[found[:, 0] == number, 1] for stage, number in STAGES.items()}


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Writing:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed here to compile the loops once more")
    folder = tmp_path_factory.mktemp("loops")
    (folder / "writing.c").write_text(WRITING)
    target = folder / "writing.so"
    flags = ["-O1", "-fPIC", "-shared", f"-I{SOURCES}"]
    subprocess.run([compiler, *flags, str(folder / "writing.c"), "-o", str(target)], check=True, timeout=60)
    library = ctypes.CDLL(str(target))
    library.count.restype = ctypes.c_int64
    return Writing(library)


@pytest.fixture
def prepared(request: pytest.FixtureRequest) -> Iterator[Prepared]:
    memory = Memory()
    yield BUILDERS[request.param](memory, np.random.default_rng(7), SIZE)
    memory.release()


def _address(prepared: Prepared, array: int) -> int:
    return prepared.addresses[array]


def _matmul(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    rows, row = prepared.sizes
    return (_address(prepared, 2) + 8 * ((at % rows) * row + 8 * (at // rows)))[:, None]


def _spmv(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return (_address(prepared, 4) + 8 * prepared.arrays[2][at].astype(np.int64))[:, None]


def _triad(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([_address(prepared, array) + LINE_BYTES * at for array in (1, 2, 0)], axis=1)


def _stencil(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    row, plane, spacing, fields = prepared.sizes
    moves = [plane + field * spacing + way for field in range(fields) for way in (0, -row, row, -plane, plane)]
    read = [_address(prepared, 1) + 8 * move + LINE_BYTES * at for move in moves]
    return np.stack([*read, _address(prepared, 0) + LINE_BYTES * at], axis=1)


def _strided(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return (_address(prepared, 0) + 4 * LINE_BYTES * at)[:, None]


def _hash_join(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    buckets = 1 << (64 - prepared.sizes[0])
    return (_address(prepared, 1) + LINE_BYTES * bucket_of(prepared.arrays[0][at], buckets))[:, None]


def _list(prepared: Prepared, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return prepared.arrays[0][at].astype(np.int64)[:, None]


USED: dict[str, Callable[[Prepared, NDArray[np.int64]], NDArray[np.int64]]] = {
    "matmul": _matmul,
    "spmv": _spmv,
    "triad": _triad,
    "stencil": _stencil,
    "strided": _strided,
    "hash_join": _hash_join,
    "list": _list,
}
"""What the given iterations use of the prefetched streams: addresses, shape (iterations, streams)."""


@pytest.mark.parametrize("prepared, name", [(name, name) for name in USED], indirect=["prepared"], ids=list(USED))
def test_each_stage_asks_for_what_the_iteration_its_distance_later_uses(
    writing: Writing, prepared: Prepared, name: str
) -> None:
    each = prepared.pass_iterations
    for first in {0, prepared.iterations - each}:
        for near, far in ((3, 40), (40, 3), (9, 9)):
            found = writing.lines(name, prepared, first, near, far)
            iterations = np.arange(first, first + each)
            for stage, distance in (("near", near), ("far", far)):
                wanted = USED[name](prepared, iterations + distance).ravel()
                assert np.array_equal(found[stage], wanted), (first, near, far, stage)


@pytest.mark.parametrize("prepared", ["tree_search"], indirect=True)
@pytest.mark.parametrize("near, far", [(3, 40), (40, 3), (9, 9)])
def test_a_search_asks_for_each_node_below_the_root_before_it_goes_there(
    writing: Writing, prepared: Prepared, near: int, far: int
) -> None:
    """The stage with the smaller distance asks for what searches found some iterations before: it misses the last of
    them, and begins with what an earlier pass left. Searches that only fill up the last block are asked for too."""
    levels, count, lag = prepared.sizes[0], prepared.pass_iterations, max(near, far)
    found = writing.lines("tree_search", prepared, 0, near, far)
    ranks = prepared.arrays[2][:count].astype(np.int64)
    begins = np.cumsum([0, *(FAN_OUT**level for level in range(levels - 1))])
    visited = [
        _address(prepared, 1) + LINE_BYTES * (begins[level] + ranks // FAN_OUT ** (levels - level))
        for level in range(1, levels)
    ]
    wanted = Counter(np.concatenate(visited).tolist())
    for stage, distance in (("near", near), ("far", far)):
        asked = Counter(found[stage].tolist())
        late = (levels - 1) * (lag - distance)
        assert (wanted - asked).total() <= late
        assert (asked - wanted).total() <= late + (levels - 1) * (lag - 1)
    # in the middle of the pass each iteration asks levels - 1 times: leaves that are asked for once are asked for again
    # by the other stage, as much later as its distance is shorter
    order = [_asked_once(found[stage]) for stage in STAGES]
    later = [order[0][leaf] - order[1][leaf] for leaf in order[0].keys() & order[1].keys()]
    assert np.median(later) == (far - near) * (levels - 1)


def _asked_once(addresses: NDArray[np.int64]) -> dict[int, int]:
    """Positions of the addresses that come once."""
    unique, begins, counts = np.unique(addresses, return_index=True, return_counts=True)
    return dict(zip(unique[counts == 1].tolist(), begins[counts == 1].tolist(), strict=True))


def test_every_loop_is_held_against_something() -> None:
    assert set(USED) | {"tree_search"} == set(LOOP_NAMES)

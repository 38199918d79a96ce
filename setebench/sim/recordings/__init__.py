"""Recorded disturbances of real machines, which simulated ones replay.

A recording is a file of `setebench doctor --record`, NAME.npz here for those that are shipped. Its arrays are in
docs/machine-files.md; the first recording has pace and gaps alone.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench import files
from setebench.errors import UsageError
from setebench.text import visible

FOLDER = Path(__file__).parent
SHIPPED = tuple(sorted(path.stem for path in FOLDER.glob("*.npz")))
MOST_BYTES = 32 << 20
"""Of a file's arrays together: two minutes."""
MOST_PACE = 100.0
"""Times the median pace; a core's clock changes by less than 10."""
SHORTEST_BLOCK, LONGEST_BLOCK = 1e-6, 1e-3
"""Seconds."""


class Recording(msgspec.Struct, frozen=True):
    """A recording as the kernel replays it. `table` holds four parts, in units of a block: the running time at which so
    many blocks of cycles are done, each as many as a block has at the median pace; for each of these blocks the number
    of its first gap; the cycles before each gap, and how long the gaps before lasted. `slowest` and `fastest` bound the
    pace of nine tenths of the time, relative to its median.

    `shared` are times in which a co-runner shared the core, as blocks of cycles at which they begin and how many they
    last, shape (n, 2); `lost` shares of the private lines that were gone a millisecond later, evenly spread over all of
    it. Both are empty where the recording lacks them."""

    table: NDArray[np.float64]
    blocks: int
    gaps: int
    block_seconds: float
    slowest: float
    fastest: float
    shared: NDArray[np.float64]
    lost: NDArray[np.float64]


@cache
def recording(name: str) -> Recording | None:
    """The recording of this name, or in this file (ending in .npz); None for no name. Raises `UsageError` for what is
    none."""
    if not name:
        return None
    path = FOLDER / f"{name}.npz" if name in SHIPPED else Path(name)
    if path.suffix != ".npz":
        raise UsageError(
            f"no recording {visible(name)[:100]!r}; there are {', '.join(SHIPPED)}, or the path of an .npz"
        )
    try:
        return _converted(_arrays(files.read_bytes(path, MOST_BYTES)))
    except OSError as error:
        raise UsageError(f"{visible(name)}: can't be read: {error.strerror or error}") from error
    except Exception as error:  # it may be anybody's file, and what a damaged archive leads to is endless
        raise UsageError(f"{visible(name)}: no recording of setebench doctor: {visible(str(error))[:200]}") from error


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        if sum(each.file_size for each in whole.infolist()) > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES >> 20} MiB")
    with np.load(io.BytesIO(data)) as file:
        found = {name: file[name] for name in file.files}
    if not all(each.dtype.kind in "uif" and each.ndim < 2 and np.isfinite(each).all() for each in found.values()):
        raise ValueError("holds something else than rows of numbers")
    return found


def _converted(file: dict[str, NDArray[Any]]) -> Recording:
    pace, seconds = file["pace"] * float(file["pace_unit"]), float(file["block_us"]) * 1e-6
    unit = float(file["gap_unit_us"]) / float(file["block_us"])
    if not (pace.ndim == 1 and len(pace) > 1 and pace.min() > 0 and pace.max() < MOST_PACE * np.median(pace)):
        raise ValueError("its pace is no row of like, positive numbers")
    if not (SHORTEST_BLOCK <= seconds <= LONGEST_BLOCK and 0 < unit < np.inf):
        raise ValueError("its units are no times that one has")
    some: dict[str, Any] = dict.fromkeys(("shared_after", "shared_lasts", "lost"), np.zeros(0)) | file
    for one, other in (("gap_after", "gap_lasts"), ("shared_after", "shared_lasts"), ("lost", "lost")):
        if some[one].ndim != 1 or some[one].shape != some[other].shape:
            raise ValueError(f"its {one} and {other} are no rows of equally many")
    for name in ("gap_after", "gap_lasts", "shared_after", "shared_lasts"):
        if (some[name] < 0).any() or some[name].sum(dtype=np.float64) * unit > MOST_PACE * len(pace):
            raise ValueError(f"its {name} are no times within it")
    after, lasts = np.cumsum(file["gap_after"], dtype=np.int64) * unit, file["gap_lasts"] * unit
    done = np.concatenate([[0.0], np.cumsum(pace / np.median(pace))])
    blocks, time = int(done[-1]), np.arange(len(done))
    begins = np.interp(after, time, done)
    within = begins < blocks
    begins, lasts = begins[within], lasts[within]
    first = np.searchsorted(begins, np.arange(blocks + 1))
    times = np.interp(np.arange(blocks + 1), done, time)
    table = np.concatenate([times, first, begins, [np.inf], [0.0], np.cumsum(lasts)])
    slowest, fastest = np.percentile(pace / np.median(pace), (5, 95))
    from_ = np.cumsum(some["shared_after"], dtype=np.float64) * unit
    shared = np.column_stack([np.interp(each, time, done) for each in (from_, from_ + some["shared_lasts"] * unit)])
    shared[:, 1] -= shared[:, 0]
    lost = np.clip(some["lost"], 0.0, 1.0).astype(np.float64)
    return Recording(table, blocks, len(begins), seconds, float(slowest), float(fastest), shared, lost)

"""Recorded disturbances of real machines, which simulated ones replay.

A recording is a file NAME.npz of what one CPU did that timed the same dependent multiplications again and again:
`pace`, the core's cycles per tick in each block of `block_us` of running time, in parts of `pace_unit` of the median,
and gaps, times in which the CPU did nothing for the program (interrupts, steal): `gap_after`, the running time since
the gap before, and `gap_lasts`, both in parts of `gap_unit_us`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent


class Recording(msgspec.Struct, frozen=True):
    """A recording as the kernel replays it. `table` holds four parts, in units of a block: the running time at which so
    many blocks of cycles are done, each as many as a block has at the median pace; for each of these blocks the number
    of its first gap; the cycles before each gap, and how long the gaps before lasted. `slowest` and `fastest` bound the
    pace of nine tenths of the time, relative to its median."""

    table: NDArray[np.float64]
    blocks: int
    gaps: int
    block_seconds: float
    slowest: float
    fastest: float


@cache
def recording(name: str) -> Recording | None:
    """The recording of this name; None for no name."""
    if not name:
        return None
    with np.load(FOLDER / f"{name}.npz") as file:
        pace = file["pace"] * float(file["pace_unit"])
        unit = float(file["gap_unit_us"] / file["block_us"])
        after, lasts = np.cumsum(file["gap_after"], dtype=np.int64) * unit, file["gap_lasts"] * unit
        seconds = float(file["block_us"]) * 1e-6
    done = np.concatenate([[0.0], np.cumsum(pace / np.median(pace))])
    blocks = int(done[-1])
    begins = np.interp(after, np.arange(len(done)), done)
    within = begins < blocks
    begins, lasts = begins[within], lasts[within]
    first = np.searchsorted(begins, np.arange(blocks + 1))
    times = np.interp(np.arange(blocks + 1), done, np.arange(len(done)))
    table = np.concatenate([times, first, begins, [np.inf], [0.0], np.cumsum(lasts)])
    slowest, fastest = np.percentile(pace / np.median(pace), (5, 95))
    return Recording(table, blocks, len(begins), seconds, float(slowest), float(fastest))

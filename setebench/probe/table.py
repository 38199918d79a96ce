"""The table that a probe is: one row of `COLUMNS` per operation, all int64, and the names that its numbers stand for.

One table, because stitching must not cost more than the measurement and because Numba can interpret it as it is.
"""

from __future__ import annotations

import struct
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from setebench.errors import ProbeError

COLUMNS = ("kind", "base", "offset", "size", "variant", "count", "ip", "after", "interval", "dither")
"""Columns of a row, all int64:

- `kind`: a `Kind`.
- `base`: index into `Probe.bases`, -1 for operations without an operand.
- `offset`: bytes added to the base; for REPEAT the bytes by which operands of the body advance per round.
- `size`: bytes of each access of LOAD, STORE, CHASE and STREAM (8, 16, 32 or 64), else 0.
- `variant`: index into `HINTS` (PREFETCH), `FLUSHES` (FLUSH), `FENCES` (FENCE), `BRACKETS` (START, STOP; -1 means
  the machine's own choice), `kernels.NAMES` (STREAM), `WORKS` (CHASE), 1 for a chained and 0 for a free MULTIPLY.
- `count`: cycles to WAIT, instructions of NOP, MULTIPLY, ADD and TRANSFER, rounds of REPEAT, steps of CHASE, bytes of
  each array of STREAM.
- `ip`: index into `Probe.instruction_addresses` of a shared or placed instruction, -1 for an address of its own.
- `after`: row of the earlier LOAD or CHASE whose value the operand's address depends on, -1 for none.
- `interval`: number of the interval (START, STOP), else -1.
- `dither`: 1 where a START waits a random time first, and where the loop of a STREAM is rolled.
"""

_ROW = struct.Struct("=10q")
ROW_BYTES = _ROW.size
MAX_INTERVALS = 64
WORD, *_ = ACCESS_SIZES = (8, 16, 32, 64)
HINTS = ("t0", "t1", "t2", "nta", "w")
FLUSHES = ("clflush", "clflushopt", "clwb")
FENCES = ("m", "l", "s", "serialize")
BRACKETS = ("lfence", "rdtscp", "mfence", "cpuid", "rdpru")
WORKS = ("", "free", "chained")
CHASE_WORK = 24
"""Multiplications between two steps of a chase with work, as in the modified latency benchmarks of Molka et al. 2017,
section 4.3."""


class Kind(IntEnum):
    """What an operation does."""

    LOAD = 0
    STORE = auto()
    PREFETCH = auto()
    FLUSH = auto()
    FENCE = auto()
    WAIT = auto()
    NOP = auto()
    MULTIPLY = auto()
    ADD = auto()
    TRANSFER = auto()
    START = auto()
    STOP = auto()
    REPEAT = auto()
    END = auto()
    CHASE = auto()
    BARRIER = auto()
    STREAM = auto()


ACCESSES = frozenset({Kind.LOAD, Kind.STORE, Kind.PREFETCH, Kind.FLUSH, Kind.CHASE, Kind.STREAM})


_UNUSED = {name: -1 if name in ("base", "ip", "after", "interval") else 0 for name in COLUMNS}


def pack(kind: Kind, **columns: int) -> bytes:
    """One row; columns that an operation has no use for hold -1 where they are numbers of something, else 0."""
    return _ROW.pack(*{**_UNUSED, "kind": kind, **columns}.values())


def load_row(rows: NDArray[np.int64], after: int) -> int:
    """The row of the load or chase that `after` names: 0 is the first of the rows, -1 the last. Raises `ProbeError`."""
    kinds = rows[:, 0]
    loads = np.flatnonzero((kinds == Kind.LOAD) | (kinds == Kind.CHASE))
    if not -len(loads) <= after < len(loads):
        raise ProbeError(f"after={after}: the probe has {len(loads)} loads before this operation")
    return int(loads[after])


def count_intervals(rows: NDArray[np.int64]) -> int:
    """How many intervals the rows of a probe time: one more than the highest number used.

    Raises `ProbeError` where an interval is started or stopped twice, never stopped, or numbers are left out."""
    marks = rows[(rows[:, 0] == int(Kind.START)) | (rows[:, 0] == int(Kind.STOP))][:, (0, 4, 8)]
    marks = marks[np.argsort(marks[:, 2], kind="stable")]
    count = len(marks) // 2
    numbers = np.repeat(np.arange(count), 2)
    if len(marks) % 2 or (marks[:, 2] != numbers).any() or (marks[:, 0] != [Kind.START, Kind.STOP] * count).any():
        raise ProbeError("every interval needs one start and then one stop, and they are numbered 0, 1, 2, ...")
    if (different := np.flatnonzero(marks[::2, 1] != marks[1::2, 1])).size:
        raise ProbeError(f"interval {different[0]} starts and stops with different brackets")
    return count

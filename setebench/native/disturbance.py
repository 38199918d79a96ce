"""What disturbs a machine, recorded as simulated machines replay it (`setebench doctor --record`).

Only times are kept that say nothing of programs: how fast dependent work ran in each block of 10 us, when the CPU did
nothing for us, when a co-runner took issue slots of the core, and what others left of the caches.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from setebench.machine import Machine, Ticks
from setebench.native.memory import SMALL_PAGE
from setebench.probe import Base, Probe
from setebench.text import MEGA

Floats = NDArray[np.float64]
Lines = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Params:
    """How it is recorded."""

    block_us: float = 10.0  # of the pace
    piece_us: float = 2.0  # of work between two readings: shorter ones show shorter gaps, steps of the clock blur them
    pieces: int = 60  # readings of a run
    wide_every: int = 10  # of these, one fills the issue slots, which shows who shares the core
    gap_us: float = 0.8  # that a piece takes longer where the CPU did nothing meanwhile
    slowed: float = 1.15  # times as long as alone: issue slots are shared; a clock's steps blur it by some percent
    stopped: float = 2.2  # times as long: a gap fell into it, as two threads share evenly
    segment_runs: int = 700  # of 60 pieces, between which caches are looked at: 84 ms, less of a short recording
    used_lines: int = 2048  # private ones, more than first caches hold, less than second ones
    later_us: float = 1000.0  # after which some are looked for again
    looks: int = 4  # at lines that were used, and at what was swept, in a segment
    swept_bytes: int = 64 << 20  # what is swept, to see how much of it the last level kept
    kept: float = 0.6  # of what a flushed line takes: less came from a cache; a step of the clock is a tenth
    pace_unit: float = 0.002
    gap_unit_us: float = 0.2


PARAMS = Params()
SEEN = np.arange(PARAMS.pieces) % PARAMS.wide_every == PARAMS.wide_every - 1
"""Which pieces are wide."""

MANY = 20_000
"""Pieces of work by whose time each is made as long as it should be."""
USED, ARRAY = Base("used"), Base("array")
LINES, BESIDE = (tuple(Base(f"{name}{number}") for number in range(PARAMS.pieces)) for name in ("line", "beside"))


def record(machine: Machine, seconds: float, cpu: int | None = None) -> dict[str, Any]:
    """The arrays of a recording of about so many seconds; docs/machine-files.md explains each. Raises
    `UnsupportedError` on a machine without what it takes."""
    us = MEGA / machine.facts.ticks_per_second
    run, caches = _pieces(machine, us, cpu), _Caches(machine, us, cpu)
    runs = min(PARAMS.segment_runs, max(1, round(MEGA * seconds / (PARAMS.pieces * PARAMS.piece_us))))
    ticks: list[Ticks] = []
    lost, kept = list[Floats](), list[Floats]()
    end = time.perf_counter() + seconds
    while not ticks or time.perf_counter() < end:
        ticks.append(machine.run(run, runs + 1, cpu=cpu, warmup=1))
        lost.append(caches.lost())
        kept.append(caches.kept())
    every = np.concatenate(ticks) * np.float64(us)
    return {
        **_pace_and_gaps(every[:, ~SEEN], every[:, SEEN]),
        "lost": np.concatenate(lost).astype(np.float32),
        "last_level_bytes": np.concatenate(kept).astype(np.int64),
    }


# -- pace, gaps, and who shares the core ------------------------------------------------------------------------------


def _amount(machine: Machine, work: Probe, us: float, cpu: int | None) -> float:
    """How often that work is done in a microsecond; ticks last `us`."""
    ticks = machine.run(Probe().start(dither=False) + work + Probe().stop(), PARAMS.pieces, cpu=cpu, warmup=2)
    return 1.0 / (us * float(np.median(ticks)))


def _pieces(machine: Machine, us: float, cpu: int | None) -> Probe:
    """Work in pieces whose intervals overlap, so that no time lies between them."""
    body, scaled = Probe().nop(120), PARAMS.piece_us * MANY
    narrow = Probe().multiply(max(1, round(scaled * _amount(machine, Probe().multiply(MANY), us, cpu))))
    wide = Probe().repeat(max(1, round(scaled * _amount(machine, Probe().repeat(MANY, body), us, cpu))), body)
    probe = Probe()
    for number, filled in enumerate(SEEN):
        probe = probe.start(number, dither=False)
        probe = (probe.stop(number - 1) if number else probe) + (wide if filled else narrow)
    return probe.stop(PARAMS.pieces - 1)


def _pace_and_gaps(narrow: Floats, wide: Floats) -> dict[str, Any]:
    """From the times of pieces of dependent work, shape (runs, pieces), and of wide ones, us."""
    lasted = narrow.ravel()
    usual = median_filter(lasted, PARAMS.pieces, mode="nearest")  # what a piece usually takes
    late = lasted > usual + PARAMS.gap_us
    running = np.where(late, usual, lasted)
    ends = np.cumsum(running)
    grid = np.arange(0.0, ends[-1], PARAMS.block_us)
    pace = np.diff(np.interp(grid, np.append(0.0, ends), np.arange(len(ends) + 1)))
    begins, shared = _shared(wide / np.median(usual.reshape(narrow.shape), axis=1, keepdims=True), ends)
    times = {
        "gap_after": np.diff(ends[late] - running[late], prepend=0.0),
        "gap_lasts": (lasted - usual)[late],
        "shared_after": np.diff(begins, prepend=0.0),
        "shared_lasts": shared,
    }
    return {
        "block_us": PARAMS.block_us,
        "pace_unit": PARAMS.pace_unit,
        "pace": np.round(pace / np.median(pace) / PARAMS.pace_unit).astype(np.uint16),
        "gap_unit_us": PARAMS.gap_unit_us,
        **{name: np.round(each / PARAMS.gap_unit_us).astype(np.uint32) for name, each in times.items()},
    }


def _shared(ratios: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """When a co-runner began to take issue slots, in running time, and for how long: several wide pieces in a row
    were slowed, by `ratios` to dependent work beside them. A piece with a gap in it is as the one before it."""
    slowness = ratios.ravel() / np.percentile(ratios, 10)
    known = np.maximum.accumulate(np.where(slowness < PARAMS.stopped, np.arange(len(slowness)), 0))
    state = median_filter((slowness[known] > PARAMS.slowed).astype(np.int8), 3)
    turns = np.flatnonzero(np.diff(state, prepend=0, append=0))
    times = np.append(0.0, ends)[np.round(turns * len(ends) / len(state)).astype(int)]
    return times[::2], times[1::2] - times[::2]


# -- what others leave of the caches ----------------------------------------------------------------------------------


class _Caches:
    """Single lines are loaded some time after they were used: what takes as long as a flushed one is in no cache."""

    def __init__(self, machine: Machine, us: float, cpu: int | None) -> None:
        self._machine, self._cpu, self._rng = machine, cpu, np.random.default_rng(1)
        page, line = machine.facts.page_sizes[-1], machine.facts.line_size
        self._region = machine.allocate(8 * PARAMS.used_lines * line, page)
        self._array = machine.allocate(PARAMS.swept_bytes, page)
        place = self._rng.permutation(self._region.lines)[: PARAMS.used_lines]
        self._used = self._region.address + place * line
        machine.link(self._region, self._used)
        cycles = round(PARAMS.later_us * MANY * _amount(machine, Probe().wait(MANY), us, cpu))
        self._later = Probe().chase(USED, 2 * PARAMS.used_lines).wait(cycles).fence("l")
        self._sweep, self._flushed = Probe().stream(ARRAY, "load", PARAMS.swept_bytes, 8).fence("l"), Probe()
        for base, beside in zip(LINES, BESIDE, strict=True):  # beside: a page's translation may be gone as well
            self._sweep, self._flushed = self._sweep.load(beside), self._flushed.flush(base)
        self._sweep, self._flushed = self._sweep.fence("l"), self._flushed.fence("m")
        for number, base in enumerate(LINES):
            timed = Probe().start(number).load(base).stop(number)
            self._later, self._sweep, self._flushed = self._later + timed, self._sweep + timed, self._flushed + timed

    def lost(self) -> Floats:
        """Shares of used lines that had left all caches later, one for each look."""
        picks = [self._rng.choice(self._used, PARAMS.looks) for _ in LINES]
        return 1.0 - self._cached(self._later, {USED: np.full(PARAMS.looks, self._used[0])}, picks)

    def kept(self) -> Floats:
        """Bytes of the last sweeps that were still in a cache, one for each."""
        lines = [self._array.random_lines(PARAMS.looks, self._rng) for _ in LINES]
        beside = dict(zip(BESIDE, (each ^ SMALL_PAGE // 2 for each in lines), strict=True))
        own = beside | {ARRAY: np.full(PARAMS.looks, self._array.address)}
        return self._cached(self._sweep, own, lines) * PARAMS.swept_bytes

    def _cached(self, probe: Probe, own: dict[Base, Lines], lines: list[Lines]) -> Floats:
        """The share of the lines, in each run, that come faster than flushed ones do in the same moment."""
        places = dict(zip(LINES, lines, strict=True))
        ticks = self._machine.run(probe, own | places, cpu=self._cpu)
        flushed = np.median(self._machine.run(self._flushed, places, cpu=self._cpu))
        share: Floats = np.mean(ticks < PARAMS.kept * flushed, axis=1)
        return share

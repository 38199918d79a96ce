"""Sequences of loads of lines that share a set of a cache: how long each of them takes.

Every load is timed on its own, its translation being warm. Which line of which set it loads is a placement, so one
probe runs any number of sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.probe import MAX_INTERVALS, Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_LOADS = MAX_INTERVALS - 1
"""Loads of a sequence: one more interval times a sure hit."""

FILL_TURNS = 4
"""Times that fillers go round before a sequence: 8 ways that replace at random then keep 1 line in 100 from before."""

FILL, BESIDE = Base("fill"), Base("beside")


class Sets(NamedTuple):
    """Lines of some sets of a cache in pages of their own, shape (sets, lines): the first `loaded` of them are loaded
    in sequences, the others fill the set before one begins. Lines `beside` push these out of the caches before, and
    `evictors` each line that is loaded, shape (groups, lines); a first cache needs none."""

    own: Lines
    loaded: int
    beside: Lines = np.zeros(0, dtype=np.int64)
    evictors: Lines = np.zeros((0, 0), dtype=np.int64)


def _probe(sets: Sets, loads: int) -> Probe:
    """Empty a set and fill it, then load lines one by one, each behind a flush in its page, which brings the
    translation back and trains no prefetcher; a group of evictors follows each of them."""
    probe, evictors, lines = Probe(), sets.evictors, sets.own.shape[1]
    for line in range(lines):
        probe = probe.flush(Base(f"line_{line}"))
    probe = probe.fence()
    for _ in range(FILL_TURNS):
        probe = probe.chase(FILL, lines - sets.loaded)
        probe = probe.chase(BESIDE, len(sets.beside)) if len(sets.beside) else probe
    for number in range(loads + 1):
        target, spare = (Base(f"{name}_{min(number, loads - 1)}") for name in ("load", "spare"))
        probe = probe.flush(spare).fence().start(number).load(target).stop(number)
        if len(evictors) and number < loads - 1:
            probe = probe.chase(Base(f"group_{number % len(evictors)}"), evictors.shape[1])
    return probe


def load_cycles(context: Context, region: Region, sets: Sets, sequences: Lines) -> Numbers:
    """Cycles of each load of `sequences` (numbers of lines, shape (n, loads)) above a hit in the first cache, and at
    last of such a hit, shape (n, loads + 1). Which lines of which set a sequence loads is drawn anew for each."""
    machine, rng, (count, loads) = context.machine, context.fresh_rng(), sequences.shape
    for chased in (*sets.own[:, sets.loaded :], sets.beside, *sets.evictors):
        machine.link(region, chased)
    which = rng.integers(len(sets.own), size=count)
    targets = np.take_along_axis(rng.permuted(sets.own[which, : sets.loaded], axis=1), sequences, axis=1)
    places = {Base(f"line_{number}"): lines for number, lines in enumerate(sets.own[which].T)}
    places |= {Base(f"load_{number}"): lines for number, lines in enumerate(targets.T)}
    places |= {Base(f"spare_{number}"): lines ^ TLB_PAGE_BYTES // 2 for number, lines in enumerate(targets.T)}
    places |= {Base(f"group_{number}"): np.full(count, group[0]) for number, group in enumerate(sets.evictors)}
    places[FILL] = sets.own[which, sets.loaded]
    places |= {BESIDE: sets.beside[0]} if len(sets.beside) else {}
    ticks = machine.run(_probe(sets, loads), places, cpu=context.cpu)
    above = ticks - mean_ticks(ticks[:, -1], step_ticks(context))
    return np.asarray(above * cycles_per_tick(context))


def missed(context: Context, cycles: Numbers, level: int) -> Numbers:
    """How much loads of so many cycles above a hit in the first cache missed a cache, counted from 0: 0 a hit, 1 a
    miss, less certain the coarser the clock."""
    near, *further = list(context.calibration.level_cycles.values())
    own, behind = (near, *further)[level : level + 2]
    blur = step_ticks(context) * cycles_per_tick(context) / (behind - own)
    return np.asarray(np.clip((cycles - (own - near)) / (behind - own), -blur, 1.0 + blur))

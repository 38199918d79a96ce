"""Time the loads of sequences over lines of one cache set one by one, to infer the replacement policy of the cache.

The translation of each load is in the TLB. The addresses are placements of one probe (drawn for each repetition), so
one probe runs any number of sequences.
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
"""Most loads of a sequence, as a probe has `MAX_INTERVALS` intervals and the last one times a certain hit."""

FILL_TURNS = 4
"""Traversals of filler lines before a sequence: 8 ways with random replacement then keep 1 % of other lines."""

FILL, BESIDE = Base("fill"), Base("beside")


class Sets(NamedTuple):
    """Addresses of lines for sequences of loads in some sets of a cache. Each row of `own`, shape (sets, lines), has
    lines of one set, each in its own page. A sequence loads the first `loaded` of a row; the rest, the fillers, fill
    the set before. The lines `beside`, shape (lines,), evict the fillers from nearer caches. The `evictors`, shape
    (groups, lines), evict loaded lines from nearer caches: after each load the next group is chased. For the first
    cache, `beside` and `evictors` are empty."""

    own: Lines
    loaded: int
    beside: Lines = np.zeros(0, dtype=np.int64)
    evictors: Lines = np.zeros((0, 0), dtype=np.int64)


def _probe(sets: Sets, loads: int) -> Probe:
    """Return the probe of a sequence of `loads` timed loads: flush the set's lines and fill the set with fillers,
    then time the loads one by one, then a certain hit. Before each load, a flush of another line of its page loads the
    translation without training a prefetcher; after each load, a group of evictors is chased."""
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
    """Time each load of `sequences` (line numbers, shape (n, loads)) and then the last line of each again, a certain
    hit in the first cache. Return by how many cycles each exceeds the mean of the certain hits, shape (n, loads + 1).
    Each sequence runs in a random one of the `sets` in `region`, and its numbers stand for random lines of that set."""
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
    """Return a miss score of loads in the cache of index `level` (0 is the first), shape as `cycles`: 0 for a hit, 1
    for a miss. `cycles` are times of loads minus the time of a first-cache hit; coarse clocks add noise to scores."""
    near, *further = list(context.calibration.level_cycles.values())
    own, behind = (near, *further)[level : level + 2]
    blur = step_ticks(context) * cycles_per_tick(context) / (behind - own)
    return np.asarray(np.clip((cycles - (own - near)) / (behind - own), -blur, 1.0 + blur))

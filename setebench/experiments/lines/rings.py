"""Chases round and round over chosen lines, timed so long at a time that the clock's step and a bracket are nothing.

In the steady state a ring costs one level's latency per step as long as every set (of a cache, of a TLB) that it
touches holds what it holds, whatever is replaced; from the first oversubscribed set on it costs more. That is what the
geometry is read from.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick as cycles_per_tick
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING, FURTHER = Base("ring"), Base("further")

TURN_STEPS = 2048
"""Steps timed at once: a clock step of 30 ticks is a hundredth of a tick beside them, and few turns meet a stall."""

TURNS, WARM_TURNS = 7, 3
"""Turns timed, of which the median counts: a stall or an interrupt hits a few of them. A random replacement needs some
rounds until lines that don't belong to the ring are gone."""

WARM_ROUNDS = 4
"""Whole rounds before anything is timed."""

Lines = NDArray[np.int64]


def ring_ticks(context: Context, region: Region, ring: Lines, turns: int = TURNS) -> float:
    """Ticks per step of a chase over the lines at these addresses (shape (n,)), in this order, once it is steady.

    That is what twice as many steps take longer: each start touches a line and a page of its own, and where a set is
    just full the chase misses for a whole round because of that."""
    context.machine.link(region, ring)
    steps = max(TURN_STEPS, 2 * len(ring))
    warm = max(WARM_TURNS, -(-WARM_ROUNDS * len(ring) // (3 * steps)))
    passed = np.arange(turns + warm) * 3 * steps
    places = {base: ring[(passed + before) % len(ring)] for base, before in ((RING, 0), (FURTHER, steps))}
    probe = Probe().start().chase(RING, steps).stop().start(1).chase(FURTHER, 2 * steps).stop(1)
    ticks = context.machine.run(probe, places, cpu=context.cpu, warmup=warm)
    once, twice = np.median(ticks, axis=0)
    return float(twice - once) / steps


def rings_cycles(context: Context, region: Region, rings: Iterable[Lines], turns: int = TURNS) -> list[float]:
    """Cycles per step of several rings, one measured right after the other, so that drift falls on all of them."""
    per_tick = cycles_per_tick(context)
    return [ring_ticks(context, region, ring, turns) * per_tick for ring in rings]


def shuffled(context: Context, lines: Lines) -> Lines:
    """The lines in a random order, another one every time: no prefetcher follows it."""
    return context.fresh_rng(7).permutation(lines)

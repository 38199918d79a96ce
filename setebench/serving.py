"""Which level of the hierarchy served a load: what questions about prefetches ask again and again.

A probe brings lines about (by prefetches, by training a prefetcher), then times one load with `timed`. `References`
holds how loads from each level read when timed by the very same stub, taken on this machine a moment ago;
`infer.mixture` then says what part of the loads each level served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.calibrate import step_ticks
from setebench.infer.mixture import Shares, unmix
from setebench.infer.ticks import dominant
from setebench.machine import Region, Ticks
from setebench.placing import Place, Walk
from setebench.probe import Operand, Probe
from setebench.scenario import Context
from setebench.sweep import find_walks

LAYOUTS = 6
"""Every reference is taken on so many layouts of lines, each of which may fall badly for itself."""


@dataclass(frozen=True)
class References:
    """How loads served by each level read, fastest first: ticks as the clock gave them, shapes (n,)."""

    ticks: dict[str, NDArray[np.int64]]

    @property
    def levels(self) -> tuple[str, ...]:
        """`l1` to `memory`, those that were found."""
        return tuple(self.ticks)

    def shares(self, sets: Sequence[Ticks], rng: np.random.Generator | None = None) -> Shares:
        """What part of the loads in each set (shapes (n,)) each level served; intervals cost time and need `rng`."""
        return unmix(self.ticks, sets, rng)


def timed(probe: Probe, target: Operand, companion: Operand, interval: int = 0) -> Probe:
    """`probe`, then one load of `target`, timed as references are.

    The companion is another line of the target's page, far enough from it that no prefetcher takes the one for a sign
    of the other: loading it first warms the page's TLB entry. The fence keeps what came before out of the
    interval."""
    return probe.load(companion).fence().start(interval).load(target).stop(interval)


def levels_of(context: Context, region: Region) -> dict[str, Walk]:
    """Levels by name, each with the walk that brings lines there (see `placing.Place`), found once per context."""
    return find_walks(context, region)


def measure_references(context: Context, region: Region, samples: int = 600) -> References:
    """Loads from every level of the machine, about `samples` each, on lines of `region` (`sweep.working_memory`).

    Only the largest group of each counts: what a neighbour pushed further out belongs to another reference."""
    levels = levels_of(context, region)
    found: dict[str, list[Ticks]] = {name: [] for name in levels}
    for number in range(LAYOUTS):
        context.progress(f"what loads from each level look like, {number + 1} of {LAYOUTS}")
        for name, walk in levels.items():
            found[name].append(_loads(context, Place(context, region, name, walk), samples // LAYOUTS))
    step = step_ticks(context)
    joined = {name: np.concatenate(parts) for name, parts in found.items()}
    return References({name: ticks[dominant(ticks, step)] for name, ticks in joined.items()})


def _loads(context: Context, place: Place, samples: int) -> Ticks:
    """Single loads of one place; every second interval holds the baseline."""
    probe = place.singles(8)
    count = max(1, -(-samples * 2 // probe.intervals))
    ticks = context.machine.run(probe, place.placements(count + 1), cpu=context.cpu, warmup=1)
    return ticks[:, ::2].ravel()

"""Which level of the hierarchy served a load: what questions about prefetches ask again and again.

A probe brings lines about (by prefetches, by training a prefetcher), then times one load. `References` holds how loads
from each level read when timed alike, taken on this machine a moment ago; `stats.ticks.mixture` then says what part of
the loads each level served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Walk
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.levels import find_walks
from setebench.experiments.lines.placing import Place
from setebench.machine import Region, Ticks
from setebench.scenario import Context
from setebench.stats.ticks.location import dominant
from setebench.stats.ticks.mixture import Shares, unmix


@dataclass(frozen=True, kw_only=True)
class Params:
    """Every reference is taken on so many `layouts` of lines, each of which may fall badly for itself. A traversal is
    halved `shorter` times at most while its lines answer from further out than meant: they take more than `pushed_out`
    of what memory takes longer than the first level."""

    layouts: int = 6
    shorter: int = 3
    pushed_out: float = 0.7


PARAMS = Params()


@dataclass(frozen=True)
class References:
    """How loads served by each level read, fastest first: ticks as the clock gave them, shapes (n,)."""

    ticks: dict[str, NDArray[np.int64]]

    @property
    def levels(self) -> tuple[str, ...]:
        """All that were found, memory last."""
        return tuple(self.ticks)

    def shares(self, sets: Sequence[Ticks], rng: np.random.Generator | None = None) -> Shares:
        """What part of the loads in each set (shapes (n,)) each level served; intervals cost time and need `rng`."""
        return unmix(self.ticks, sets, rng)


def measure_references(context: Context, region: Region, samples: int = 600) -> References:
    """Loads from every level of the machine, about `samples` each, on lines of `region`; fewer where each needs a long
    traversal.

    Only the largest group of each counts: what a neighbour pushed further out belongs to another reference. A level
    whose lines answer as memory does even behind a short walk is left out: nothing could be reported by it."""
    levels = find_walks(context, region)
    found = {name: reference(context, region, name, walk, samples) for name, walk in levels.items()}
    for name in list(levels)[1:-1]:
        for _ in range(PARAMS.shorter):
            if _share_of_way(found[name], found) < PARAMS.pushed_out:
                break
            # exclusive and badly replacing caches lose lines to a walk that is far smaller than they are
            levels[name] = replace(levels[name], bytes=levels[name].bytes / 2)
            found[name] = reference(context, region, name, levels[name], samples)
    return References(
        {
            name: ticks
            for name, ticks in found.items()
            if name == MEMORY or _share_of_way(ticks, found) < PARAMS.pushed_out
        }
    )


def _share_of_way(ticks: Ticks, found: dict[str, Ticks]) -> float:
    first, memory = (float(found[name].mean()) for name in (next(iter(found)), MEMORY))
    return (float(ticks.mean()) - first) / (memory - first)


def reference(context: Context, region: Region, name: str, walk: Walk, samples: int) -> Ticks:
    """Ticks of loads from one level, about `samples`, shape (n,): the largest group, on several layouts of lines."""
    parts = []
    for number in range(PARAMS.layouts):
        context.progress(f"what loads from {name} look like, {number + 1} of {PARAMS.layouts}")
        parts.append(_loads(context, Place(context, region, name, walk), samples // PARAMS.layouts))
    joined = np.concatenate(parts)
    return joined[dominant(joined, step_ticks(context))]


def _loads(context: Context, place: Place, samples: int) -> Ticks:
    """Single loads of one place, about `samples`."""
    return place.time_singles(context, place.repetitions(max(1, -(-samples // len(place.targets)))))

"""Size and ways of the second and third cache, whose sets are chosen by physical addresses, and inclusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.rings import Lines
from setebench.layout import by_windows, lay
from setebench.machine import Region
from setebench.results import Finding, Outcome
from setebench.scenario import Context

WALK_CAPACITIES = 2.5
"""A walk over so many capacities leaves few of the lines from before it, even where replacement is random."""

SWEEP_RATIO = 1.6
"""A level's capacity lies within this ratio of where the sweep leaves its plateau: random pages overfill some sets
early, and a slow replacement wears off late."""


@dataclass(frozen=True)
class Outer:
    """What was found of one level, and how."""

    geometry: Geometry
    method: str


def capacities(context: Context) -> list[float]:
    """Bytes at which the sweep left each level, nearest first."""
    ends: list[float] = context.evidence["sweep"]["boundaries_bytes"]
    return ends


def outer_levels(context: Context, region: Region, first: Geometry, caches: list[str]) -> dict[str, Outer]:
    """The caches behind the first, by name."""
    ends = capacities(context)
    found = {}
    for number, name in enumerate(caches[1:], 1):
        low = ends[number] / SWEEP_RATIO if number < len(ends) else None
        high = ends[number] * SWEEP_RATIO if number < len(ends) else None
        reason = "the sweep tells where it ends, but not which lines share a set"
        found[name] = Outer(Geometry(None, None, reason, low, high), "working-set sweep")
    return found


def inclusion_finding(context: Context, region: Region, first: Geometry, outer: dict[str, Outer]) -> Finding:
    """Whether a line that the second cache evicts leaves the first."""
    return Finding(
        parameter="cache.l1.inclusive_in_l2",
        unit="bool",
        outcome=Outcome.UNRESOLVED,
        reason="no lines of one set of the second cache were found",
        method="eviction sets",
    )


def private_walk(context: Context, region: Region, levels: dict[str, float]) -> Lines:
    """Lines to walk over so that a core's private caches lose what they held: those of the second level's set many
    times, but not so many that the level behind it loses them too."""
    ends = capacities(context)
    size = WALK_CAPACITIES * ends[min(1, len(ends) - 1)]
    rng = np.random.default_rng((context.seed, 61))
    ground = Region(region.address, region.size // 2, region.page_size, region.line_size)
    return by_windows(lay(ground, min(size, levels.get("l3", size) or size), rng), rng)

"""A traversal that leaves nothing of what a core's private caches held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.machine import Region
from setebench.scenario import Context

from .outer_caches import OuterCache


@dataclass(frozen=True, kw_only=True)
class Params:
    """Traversed lines in times what the second cache holds: `usual`; `by_chance` where it may replace at random, which
    keeps one line in 150 behind so many; `by_age` where it replaces the oldest and a third cache is so small that the
    usual ones would push lines out of that too: 2 % of sets of 16 ways get fewer. A third cache is large enough for a
    traversal if it holds `room` times as much. `memory` is how much of the region may be used."""

    usual: float = 2.5
    by_chance: float = 5.0
    by_age: float = 1.6
    room: float = 2.0
    memory: float = 0.5


def private_walk(
    context: Context, region: Region, outer: Mapping[str, OuterCache], params: Params
) -> NDArray[np.int64]:
    """Lines to traverse so that a core's private caches lose what they held; none where nothing bounds the second
    cache's size or memory for it isn't to be had, since too short a traversal would leave lines where nobody else's
    answer is asked for."""
    none = np.zeros(0, dtype=np.int64)
    second = outer.get("l2")
    if second is None or not second.lines:
        return none
    most = max(lines for lines, probability in second.lines.items() if probability > 1e-3)
    third = outer["l3"].likely_lines if "l3" in outer else np.inf
    ratio = params.usual
    if not second.by_age and params.room * params.by_chance * most < third:
        ratio = params.by_chance
    elif second.by_age and third < params.room * params.usual * most:
        ratio = params.by_age
    ground = Region(region.address, int(params.memory * region.size), region.page_size, region.line_size)
    length = ratio * most * region.line_size
    if span_bytes(length, ground.line_size) > ground.size:
        return none
    rng = context.rng(61)
    return by_windows(lay(ground, length, rng), rng)

"""A walk that leaves nothing of what a core's private caches held."""

from __future__ import annotations

import numpy as np

from setebench.hierarchy.outer import Outer
from setebench.machine import Region
from setebench.measure.layout import by_windows, lay, span_bytes
from setebench.measure.rings import Lines
from setebench.scenario import Context

WALK_CAPACITIES, RANDOM_WALK_CAPACITIES, AGED_WALK_CAPACITIES = 2.5, 5.0, 1.6
"""A walk over so many capacities leaves none of the lines from before it to speak of; where replacement is random, one
in 150 if it is the longer one, as may be of known sets if the third cache keeps them. The shorter one does where lines
leave by age, so that a small third cache keeps what left the second: pages are random, so 6 % of sets of 8 ways get
fewer new lines than that, and 1.7 % of sets of 16; their lines are not in the largest group of reads."""


def _walk_capacities(outer: dict[str, Outer], size: int) -> float:
    third = outer["l3"].geometry.held_bytes if "l3" in outer else 0.0
    if outer["l2"].by_age:
        # the few lines that the shorter walk leaves do count on a clock that doesn't tell the two caches apart
        return WALK_CAPACITIES if third > 2 * WALK_CAPACITIES * size else AGED_WALK_CAPACITIES
    spared = "l3" not in outer or 2 * RANDOM_WALK_CAPACITIES * size < third
    random = outer["l2"].blunt or (outer["l2"].congruent is not None and spared)
    return RANDOM_WALK_CAPACITIES if random else WALK_CAPACITIES


def private_walk(context: Context, region: Region, outer: dict[str, Outer]) -> Lines:
    """Lines to walk over so that a core's private caches lose what they held; none where nothing bounds the second
    cache's size or memory for it isn't to be had, since a walk that is too short would leave lines where nobody else's
    answer is asked for."""
    own = outer["l2"].geometry if "l2" in outer else None
    size = None if own is None else own.size or own.most_bytes
    if own is None or size is None:
        return np.zeros(0, dtype=np.int64)
    rng = np.random.default_rng((context.seed, 61))
    ground = Region(region.address, region.size // 2, region.page_size, region.line_size)
    length = (WALK_CAPACITIES if own.size is None else _walk_capacities(outer, own.size)) * size
    if span_bytes(length, ground.line_size) > ground.size:
        return np.zeros(0, dtype=np.int64)
    return by_windows(lay(ground, length, rng), rng)

"""References and shares on simulated machines: each level is distinguished from the others by its own reference."""

from __future__ import annotations

import numpy as np
import pytest
from small_presets import small

from setebench.experiments.levels import find_walks, working_memory
from setebench.experiments.lines.placing import Place
from setebench.experiments.lines.serving import References, measure_references
from setebench.machine import Region
from setebench.scenario import Context
from setebench.sim.machine import open_machine_file

PLACES = 6


@pytest.fixture(scope="module")
def referred() -> tuple[Context, Region, References]:
    context = Context(machine=open_machine_file(small("plain"), 3), seed=3, fast=True)
    region = working_memory(context)
    return context, region, measure_references(context, region)


def test_loads_are_reported_by_the_level_that_served_them(referred: tuple[Context, Region, References]) -> None:
    context, region, references = referred
    assert references.levels == ("l1", "l2", "l3", "memory")
    assert all(len(ticks) > 200 for ticks in references.ticks.values())
    for number, (level, walk) in enumerate(find_walks(context, region).items()):
        # where pages lie unevenly some lines leave their level again: of several places one at least keeps all
        places = [Place(context, region, level, walk) for _ in range(PLACES)]
        runs = [context.machine.run(place.singles(), place.placements(9), warmup=1) for place in places]
        shares = references.shares([ticks.ravel() for ticks in runs], np.random.default_rng(1))
        best = int(shares.value[:, number].argmax())
        assert shares.value[best].argmax() == number
        assert shares.high[best, number] > 0.97

"""References and shares on simulated machines: each level is distinguished from the others by its own reference."""

from __future__ import annotations

import numpy as np
import pytest
from small_presets import small

from setebench.experiments.levels import find_walks, working_memory
from setebench.experiments.lines.placing import Place
from setebench.experiments.lines.serving import References, measure_references, timed
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.sim.machine import open_machine_file

TARGET, BESIDE = Base("target"), Base("beside")
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
        runs = [context.machine.run(place.singles(8), place.placements(9), warmup=1) for place in places]
        shares = references.shares([ticks[:, ::2].ravel() for ticks in runs], np.random.default_rng(1))
        best = int(shares.value[:, number].argmax())
        assert shares.value[best].argmax() == number
        assert shares.high[best, number] > 0.97


def test_a_prefetched_line_is_no_longer_in_memory(referred: tuple[Context, Region, References]) -> None:
    context, region, references = referred
    flushed = Probe().flush(TARGET).fence().wait(2000)
    pages = region.address + 4096 * np.random.default_rng(1).permutation(1000)[:200]
    placed = {TARGET: pages + 64 * 7, BESIDE: pages + 64 * 50}
    probes = (flushed, flushed.prefetch(TARGET, "t0").wait(2000))
    sets = [context.machine.run(timed(probe, TARGET + 0, BESIDE + 0), placed).ravel() for probe in probes]
    shares = references.shares(sets)
    assert shares.of("memory") == pytest.approx([1, 0], abs=0.02)
    assert shares.of("l1")[1] == pytest.approx(1, abs=0.02)

"""References and shares on simulated machines: each level is told from the others by its own reference."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from setebench.machine import Region, open_machine
from setebench.measure.placing import Place
from setebench.measure.serving import References, levels_of, measure_references, timed
from setebench.measure.sweep import working_memory
from setebench.probe import Base, Probe
from setebench.scenario import Context

pytestmark = pytest.mark.long(30)

TARGET, BESIDE = Base("target"), Base("beside")


@cache
def referred(name: str) -> tuple[Context, Region, References]:
    """A machine whose levels were looked for once, for all tests."""
    context = Context(machine=open_machine(name, seed=3), seed=3, fast=True)
    region = working_memory(context)
    return context, region, measure_references(context, region)


@pytest.mark.parametrize("name", ["sim:plain", "sim:zen-like"])
def test_loads_are_told_by_the_level_that_served_them(name: str) -> None:
    context, region, references = referred(name)
    assert references.levels == ("l1", "l2", "l3", "memory")
    assert all(len(ticks) > 200 for ticks in references.ticks.values())
    sets = []
    for level, walk in levels_of(context, region).items():
        place = Place(context, region, level, walk)
        sets.append(context.machine.run(place.singles(8), place.placements(9), warmup=1)[:, ::2].ravel())
    shares = references.shares(sets, np.random.default_rng(1))
    assert shares.value.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert (np.diag(shares.high) > 0.97).all()


def test_a_prefetched_line_is_no_longer_in_memory() -> None:
    context, region, references = referred("sim:plain")
    flushed = Probe().flush(TARGET).fence().wait(2000)
    pages = region.address + 4096 * np.random.default_rng(1).permutation(1000)[:200]
    placed = {TARGET: pages + 64 * 7, BESIDE: pages + 64 * 50}
    probes = (flushed, flushed.prefetch(TARGET, "t0").wait(2000))
    sets = [context.machine.run(timed(probe, TARGET + 0, BESIDE + 0), placed).ravel() for probe in probes]
    shares = references.shares(sets)
    assert shares.of("memory") == pytest.approx([1, 0], abs=0.02)
    assert shares.of("l1")[1] == pytest.approx(1, abs=0.02)

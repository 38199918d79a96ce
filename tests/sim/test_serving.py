"""References and shares on simulated machines: each level is told from the others by its own reference."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.machine import open_machine
from setebench.measure.placing import Place
from setebench.measure.serving import levels_of, measure_references, timed
from setebench.measure.sweep import working_memory
from setebench.probe import Base, Probe
from setebench.scenario import Context

TARGET, BESIDE = Base("target"), Base("beside")


@pytest.mark.parametrize("name", ["sim:plain", "sim:zen-like"])
def test_loads_are_told_by_the_level_that_served_them(name: str) -> None:
    machine = open_machine(name, seed=3)
    context = Context(machine=machine, seed=3, fast=True)
    region = working_memory(context)
    references = measure_references(context, region)
    assert references.levels == ("l1", "l2", "l3", "memory")
    assert all(len(ticks) > 200 for ticks in references.ticks.values())
    sets = []
    for level, walk in levels_of(context, region).items():
        place = Place(context, region, level, walk)
        sets.append(machine.run(place.singles(8), place.placements(9), warmup=1)[:, ::2].ravel())
    shares = references.shares(sets, np.random.default_rng(1))
    assert shares.value.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert (np.diag(shares.high) > 0.97).all()
    machine.close()


def test_a_prefetched_line_is_no_longer_in_memory() -> None:
    machine = open_machine("sim:plain", seed=4)
    context = Context(machine=machine, seed=4, fast=True)
    region = working_memory(context)
    references = measure_references(context, region)
    flushed = Probe().flush(TARGET).fence().wait(2000)
    pages = region.address + 4096 * np.random.default_rng(1).permutation(1000)[:200]
    placed = {TARGET: pages + 64 * 7, BESIDE: pages + 64 * 50}
    probes = (flushed, flushed.prefetch(TARGET, "t0").wait(2000))
    sets = [machine.run(timed(probe, TARGET + 0, BESIDE + 0), placed).ravel() for probe in probes]
    shares = references.shares(sets)
    assert shares.of("memory") == pytest.approx([1, 0], abs=0.02)
    assert shares.of("l1")[1] == pytest.approx(1, abs=0.02)
    machine.close()

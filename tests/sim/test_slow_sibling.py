"""A busy sibling makes loads from level 1 as slow as level 2's for a while: then nothing is told of the levels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import numpy as np
import pytest
from numpy.typing import NDArray
from quiet_machines import quiet

from setebench.measure.serving import References, measure_references
from setebench.measure.sweep import working_memory
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.visit import Access, Visit
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

LINE = 20
NEXT_LINE = spec.NextLine(level=1, fills="l1", trigger=1)
PAIR = spec.LinePair(level=2)


def laboratory(machine: SimulatedMachine) -> Laboratory:
    context = Context(machine=machine, seed=5, fast=True)
    region = working_memory(context)
    return Laboratory(context, region, measure_references(context, region))


def slowed(monkeypatch: pytest.MonkeyPatch, references: References) -> None:
    """From now on every timed load takes longer by as much as level 2 is behind level 1."""
    means = {name: ticks.mean() for name, ticks in references.ticks.items()}
    more = round(means["l2"] - means["l1"])
    run = SimulatedMachine.run

    def later(
        self: SimulatedMachine,
        probe: Probe,
        placements: Mapping[Base, NDArray[np.int64]],
        *,
        cpu: int | None = None,
        warmup: int = 0,
    ) -> NDArray[np.int64]:
        return run(self, probe, placements, cpu=cpu, warmup=warmup) + more

    monkeypatch.setattr(SimulatedMachine, "run", later)


@pytest.mark.parametrize(("prefetcher", "level"), [(NEXT_LINE, "l1"), (PAIR, "l2")], ids=["to l1", "to l2"])
def test_levels_are_told_in_quiet_alone(
    monkeypatch: pytest.MonkeyPatch, prefetcher: spec.NextLine | spec.LinePair, level: str
) -> None:
    visit, other = (Visit((Access(line * 64),)) for line in (LINE, LINE + 2))
    with closing(quiet(prefetchers=(prefetcher,), l3=None, l2={"sets": 512})) as machine:
        lab = laboratory(machine)
        assert (lab.level(visit, LINE + 1), lab.in_l1(visit, LINE + 1)) == (level, level == "l1")
        slowed(monkeypatch, lab.references)
        assert lab.brings(other, LINE + 3) is True
        assert (lab.level(other, LINE + 3), lab.in_l1(other, LINE + 3)) == (None, None)


def test_a_line_that_stayed_behind_level_1_is_told_by_a_clock_of_long_steps_too() -> None:
    brackets = {"lfence": 20.0, "mfence": 20.0, "cpuid": 20.0}
    clock = spec.Clock(step_ticks=36.0, ticks_per_cycle=0.5, brackets=brackets)
    with closing(quiet(prefetchers=(PAIR,), l3=None, l2={"sets": 512}, clock=clock)) as machine:
        lab = laboratory(machine)
        told = [lab.in_l1(Visit((Access(line * 64),)), line + 1) for line in (8, 20, 32, 44)]
    assert told == [False] * 4

"""A CPU that holds its prefetchers back for a while is not told to lack them, nor their rules wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from quiet_machines import quiet
from swept_machines import swept
from test_prefetcher_map import ALWAYS_NEXT, L2_NEXT, PAIR, SHAPE

from setebench.machine import BusyTime
from setebench.measure.serving import measure_references
from setebench.measure.sweep import working_memory
from setebench.prefetcher_map.atlas import repeated_survey
from setebench.prefetcher_map.held_back import open_absent, told_awake
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import Neighbours, odd_line, repeated
from setebench.prefetcher_map.regions import Region
from setebench.prefetcher_map.shown import Found, Shown
from setebench.prefetcher_map.streams import Stream
from setebench.prefetcher_map.strides import Stride
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit
from setebench.results import Outcome
from setebench.sim import spec

SWITCHED = spec.Core(cores=2, prefetcher_switches=True)


class Drowsy:
    """A simulated machine that brings nothing while `asleep`, and on which others keep `busy_cpus` CPUs at work."""

    def __init__(self, machine: Any, busy_cpus: float = 0.0) -> None:
        self._machine, self.busy_cpus = machine, busy_cpus
        self.asleep = False
        self._seconds = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def run(self, *what: Any, **how: Any) -> Any:
        if not self.asleep:
            return self._machine.run(*what, **how)
        names = [switch.name for switch in self._machine.prefetcher_switches()]
        with self._machine.prefetchers_off(names, self._machine.facts.cpus):
            return self._machine.run(*what, **how)

    def busy_time(self) -> BusyTime:
        self._seconds += 1
        return BusyTime(passed=self._seconds, others=self._seconds * self.busy_cpus, cpus=2)


@contextmanager
def drowsy(busy_cpus: float = 0.0) -> Iterator[Drowsy]:
    with closing(quiet(prefetchers=(PAIR,), core=SWITCHED, **SHAPE)) as machine:
        yield Drowsy(machine, busy_cpus)


@pytest.mark.parametrize(("asleep", "busy_cpus"), [(True, 0.0), (True, 0.9), (False, 0.9)])
def test_nothing_is_absent_while_others_are_busy(asleep: bool, busy_cpus: float) -> None:
    with drowsy(busy_cpus) as machine:
        context = swept(machine, seed=3, fast=True)
        region = working_memory(context)
        machine.asleep = asleep
        findings = repeated_survey(context, region, lambda: measure_references(context, region))[1]
    told = {finding.parameter: finding for finding in findings}
    pair, other = told["prefetcher.l2.pair.present"], told["prefetcher.l2.next_line.present"]
    if busy_cpus:
        assert "0.9 CPUs busy" in other.reason
        assert pair.value is (None if asleep else True)
        assert not any(finding.outcome is Outcome.ABSENT for finding in findings)
        assert not any(finding.value is False for finding in findings)
    else:
        assert {pair.outcome, other.outcome} == {Outcome.ABSENT}


@pytest.mark.parametrize("asleep_at", ["never", "before", "after"])
def test_rules_are_told_of_a_prefetcher_that_shows_before_and_after(asleep_at: str) -> None:
    with drowsy() as machine:
        context = swept(machine, seed=3, fast=True)
        region = working_memory(context)
        lab = Laboratory(context, region, measure_references(context, region))
        witness = Shown("l2.pair", ((repeated(lab, 1, False), odd_line(lab) - 1),))
        assert witness.shows(lab) is True  # an answer that must not be taken from memory
        told = Told("l2.pair")
        told.present(True, "", "")
        machine.asleep = asleep_at == "before"

        def rules(each: Told) -> None:
            each.value("degree", 1, "", "")
            machine.asleep = asleep_at == "after"

        told_awake(lab, witness, rules, told)
    present, degree = told
    assert present.value is True
    assert degree.parameter == "prefetcher.l2.pair.degree"
    assert degree.value == (1 if asleep_at == "never" else None)
    assert asleep_at == "never" or f"right {asleep_at} its rules" in degree.reason


@dataclass(frozen=True)
class Unclear(Shown):
    """A question whose answer stays unclear, as on a coarse clock."""

    def shows(self, lab: Laboratory) -> bool | None:
        return None


@pytest.mark.parametrize("witness", [Unclear("l2.pair", ((Visit(()), 0),)), Shown("l2.pair", ()), None])
def test_a_prefetcher_that_can_not_be_asked_keeps_its_rules(witness: Shown | None) -> None:
    with drowsy() as machine:
        context = swept(machine, seed=3, fast=True)
        region = working_memory(context)
        lab = Laboratory(context, region, measure_references(context, region))
        told = Told("l2.pair")
        told_awake(lab, witness, lambda each: each.value("degree", 1, "", ""), told)
    assert [finding.value for finding in told] == [1]


@pytest.mark.parametrize(("prefetcher", "expected"), [(ALWAYS_NEXT, None), (L2_NEXT, True)])
def test_what_level_1_may_have_brought_is_not_told_of_level_2_while_others_are_busy(
    prefetcher: Any, expected: bool | None
) -> None:
    """Level 1's prefetcher slept when it was asked for, and was awake when level 2's was."""
    near = Neighbours(next_line=False, pair=False, l2_next_line=True)
    absent = Stride(present=False), Stride(present=False), Stream(present=False), Stream(present=False)
    with closing(quiet(prefetchers=(prefetcher,), **SHAPE)) as machine:
        context = swept(machine, seed=3, fast=True)
        region = working_memory(context)
        lab = Laboratory(context, region, measure_references(context, region))
        lab.known.next_in_l1 = lab.known.next_after_hits = False
        found = open_absent(lab, Found(Region(present=False), near, *absent), 1.0)
    assert (near.next_line, near.pair, near.l2_next_line) == (None, None, expected)
    assert {each.present for each in (*absent, found.region)} == {None}
    assert lab.known.next_in_l1 and lab.known.next_after_hits
    assert "1.0 CPUs busy" in found.unsure

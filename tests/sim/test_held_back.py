"""A CPU that holds its prefetchers back for a while is not told to lack them, nor their rules wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from quiet_machines import quiet
from test_prefetcher_map import PAIR, SHAPE

from setebench.machine import BusyTime
from setebench.measure.serving import measure_references
from setebench.measure.sweep import working_memory
from setebench.prefetcher_map.atlas import repeated_survey
from setebench.prefetcher_map.held_back import told_awake
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import odd_line, repeated
from setebench.prefetcher_map.shown import Shown
from setebench.prefetcher_map.tell import Told
from setebench.results import Outcome
from setebench.scenario import Context
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
        return BusyTime(passed=self._seconds, others=self._seconds * self.busy_cpus)


@contextmanager
def drowsy(busy_cpus: float = 0.0) -> Iterator[Drowsy]:
    with closing(quiet(prefetchers=(PAIR,), core=SWITCHED, **SHAPE)) as machine:
        yield Drowsy(machine, busy_cpus)


@pytest.mark.parametrize(("asleep", "busy_cpus"), [(True, 0.0), (True, 0.9), (False, 0.9)])
def test_nothing_is_absent_while_others_are_busy(asleep: bool, busy_cpus: float) -> None:
    with drowsy(busy_cpus) as machine:
        context = Context(machine=machine, seed=3, fast=True)
        region = working_memory(context)
        machine.asleep = asleep
        findings = repeated_survey(context, region, lambda: measure_references(context, region))[1]
    told = {finding.parameter: finding for finding in findings}
    pair, other = told["prefetcher.l2.pair.present"], told["prefetcher.l2.next_line.present"]
    if busy_cpus:
        assert "0.9 CPUs busy" in other.reason
        assert pair.value is (None if asleep else True)
        assert not any(finding.outcome is Outcome.ABSENT for finding in findings)
    else:
        assert {pair.outcome, other.outcome} == {Outcome.ABSENT}


@pytest.mark.parametrize("asleep_at", ["never", "before", "after"])
def test_rules_are_told_of_a_prefetcher_that_shows_before_and_after(asleep_at: str) -> None:
    with drowsy() as machine:
        context = Context(machine=machine, seed=3, fast=True)
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

"""A CPU that throttles its prefetchers while others are busy is not found to lack them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from altered import Altered
from quiet_machines import quiet
from setebench.scenarios.prefetcher_map.survey import repeated_survey
from swept_machines import swept
from test_prefetcher_map import PAIR, SHAPE

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import measure_references
from setebench.machine import BusyTime
from setebench.results import Outcome
from setebench.sim import spec

pytestmark = pytest.mark.long(8)


class Throttled(Altered):
    """A simulated machine that brings nothing while it is `throttled`, with others that keep `busy_cpus` at work."""

    def __init__(self, machine: Any, busy_cpus: float) -> None:
        super().__init__(machine)
        self.busy_cpus, self.throttled, self._seconds = busy_cpus, False, 0

    def run(self, *what: Any, **how: Any) -> Any:
        if not self.throttled:
            return self._machine.run(*what, **how)
        names = [switch.name for switch in self._machine.prefetcher_switches()]
        with self._machine.prefetchers_off(names, self._machine.facts.cpus):
            return self._machine.run(*what, **how)

    def busy_time(self) -> BusyTime:
        self._seconds += 1
        return BusyTime(passed=self._seconds, others=self._seconds * self.busy_cpus, cpus=2)


@pytest.mark.parametrize(("throttled", "busy_cpus"), [(True, 0.0), (True, 0.9), (False, 0.9)])
def test_nothing_is_absent_while_others_are_busy(throttled: bool, busy_cpus: float) -> None:
    core = spec.Core(cores=2, prefetcher_switches=True)
    with closing(quiet(prefetchers=(PAIR,), core=core, **SHAPE)) as inner:
        machine = Throttled(inner, busy_cpus)
        context = swept(machine, seed=3, fast=True)
        region = working_memory(context)
        machine.throttled = throttled
        findings = repeated_survey(context, region, lambda: measure_references(context, region))[1]
    found = {finding.parameter: finding for finding in findings}
    pair, other = found["prefetcher.l2.pair.present"], found["prefetcher.l2.next_line.present"]
    if busy_cpus:
        assert other.reason is not None and "0.9 CPUs busy" in other.reason
        assert pair.value is (None if throttled else True)
        assert not any(finding.outcome is Outcome.ABSENT or finding.value is False for finding in findings)
    else:
        assert {pair.outcome, other.outcome} == {Outcome.ABSENT}

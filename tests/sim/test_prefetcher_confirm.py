"""Switching prefetchers off confirms what timing found, and casts doubt where it disagrees."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, nullcontext
from typing import Any

import pytest
from quiet_machines import PAGE_BASE, fetched, quiet
from setebench.scenarios.prefetcher_map import SCENARIO
from setebench.scenarios.prefetcher_map.findings import CURVES
from test_prefetcher_map import L1_STRIDE, L2_STREAM, PAIR, SHAPE

from setebench.machine import PrefetcherSwitch, SwitchesPrefetchers
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

pytestmark = pytest.mark.long(22)

SWITCHED = spec.Core(cores=2, prefetcher_switches=True)


class Altered:
    """A machine whose switches are not what they seem; everything else is the simulated machine's."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self.asked: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        switches: tuple[PrefetcherSwitch, ...] = self._machine.prefetcher_switches()
        return switches

    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Any:
        self.asked.append(tuple(names))
        return self._machine.prefetchers_off(names, cpus)


class WithoutEffect(Altered):
    """A guest whose hypervisor keeps what is written to the register, and does nothing."""

    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Any:
        self.asked.append(tuple(names))
        return nullcontext()


def surveyed(machine: Any) -> tuple[dict[str, Finding], dict[str, Any]]:
    context = Context(machine=machine, seed=5)
    return {finding.parameter: finding for finding in SCENARIO.answer(context)}, context.evidence


def test_a_switch_turns_off_what_it_names_and_nothing_after_it() -> None:
    run = Probe()
    for line in (10, 17, 24, 31):
        run = run.load(PAGE_BASE + line * 64).fence().wait(1500).fence()
    with closing(quiet(prefetchers=(L2_STREAM, PAIR), core=SWITCHED, **SHAPE)) as machine:
        assert isinstance(machine, SwitchesPrefetchers)
        lines = set(range(64)) - {10, 17, 24, 31}
        both = fetched(machine, run, lines)
        with machine.prefetchers_off(["L2 stream"], [0]):
            pairs = fetched(machine, run, lines)
        with machine.prefetchers_off(["L2 pair"], [0]):
            stream = fetched(machine, run, lines)
        with machine.prefetchers_off(["L2 pair", "L2 stream"], [1]):
            of_the_other_core = fetched(machine, run, lines)
        assert pairs == {11, 16, 25, 30}
        assert stream == {32, 33}
        assert both == of_the_other_core == fetched(machine, run, lines) == pairs | stream


def test_every_prefetcher_is_confirmed_by_its_own_switch() -> None:
    with closing(quiet(prefetchers=(L1_STRIDE, L2_STREAM, PAIR), core=SWITCHED, **SHAPE)) as machine:
        found, evidence = surveyed(machine)
    for identity, name in (("l1.stride", "L1 stride"), ("l2.stream", "L2 stream"), ("l2.pair", "L2 pair")):
        finding = found[f"prefetcher.{identity}.present"]
        assert finding.outcome is Outcome.MEASURED
        assert finding.method is not None
        assert finding.method.endswith(f"; confirmed: switching {name} off removes it")
    assert evidence["prefetcher_switches"]["effective"] is True


def test_switches_that_change_nothing_are_not_believed_and_touch_no_finding() -> None:
    with closing(quiet(prefetchers=(PAIR,), core=SWITCHED, **SHAPE)) as machine:
        lying = WithoutEffect(machine)
        found, evidence = surveyed(lying)
        switches = len(machine.prefetcher_switches())
    assert evidence["prefetcher_switches"]["effective"] is False
    assert len(lying.asked) == switches + 1
    assert found["prefetcher.l2.pair.present"].method == CURVES

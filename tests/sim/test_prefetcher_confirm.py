"""Switching prefetchers off confirms what timing found, and casts doubt where it disagrees."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from quiet_machines import quiet
from setebench.scenarios.prefetcher_map import SCENARIO
from setebench.scenarios.prefetcher_map.findings import CURVES
from test_prefetcher_map import L1_STRIDE, L2_STREAM, PAIR, SHAPE

from setebench.machine import PrefetcherSwitch, Region
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

pytestmark = pytest.mark.long(22)

SWITCHES = {"L1 stride": L1_STRIDE, "L2 stream": L2_STREAM, "L2 pair": PAIR}


class Switched:
    """A machine with prefetchers and switches for three. While some are off, one that lacks them runs; both lie in
    the same memory, as equal machines hand out equal addresses. Switches that don't work are those of a guest whose
    hypervisor keeps what is written to the register, and does nothing."""

    def __init__(self, *prefetchers: spec.AnyPrefetcher, works: bool = True) -> None:
        self._works = works
        self._machines = {
            off: quiet(
                prefetchers=tuple(each for each in prefetchers if each not in map(SWITCHES.get, off)),
                core=spec.Core(cores=2),
                **SHAPE,
            )
            for off in ((), *((name,) for name in SWITCHES), tuple(SWITCHES))
        }
        self._now = self._machines[()]
        self._regions: dict[int, list[tuple[SimulatedMachine, Region]]] = {}
        self.asked: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now, name)

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        regions = [(each, each.allocate(size, page_size, populate=populate)) for each in self._machines.values()]
        self._regions[regions[0][1].address] = regions
        return regions[0][1]

    def release(self, region: Region) -> None:
        for machine, own in self._regions.pop(region.address):
            machine.release(own)

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        return tuple(PrefetcherSwitch(name=name, level=int(name[1])) for name in SWITCHES)

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        self.asked.append(tuple(names))
        self._now = self._machines[tuple(names) if self._works else ()]
        yield
        self._now = self._machines[()]


def surveyed(machine: Any) -> tuple[dict[str, Finding], dict[str, Any]]:
    context = Context(machine=machine, seed=5)
    return {finding.parameter: finding for finding in SCENARIO.answer(context)}, context.evidence


def test_every_prefetcher_is_confirmed_by_its_own_switch() -> None:
    found, evidence = surveyed(Switched(*SWITCHES.values()))
    for identity, name in (("l1.stride", "L1 stride"), ("l2.stream", "L2 stream"), ("l2.pair", "L2 pair")):
        finding = found[f"prefetcher.{identity}.present"]
        assert finding.outcome is Outcome.MEASURED
        assert finding.method is not None
        assert finding.method.endswith(f"; confirmed: switching {name} off removes it")
    assert evidence["prefetcher_switches"]["effective"] is True


def test_switches_that_change_nothing_are_not_believed_and_touch_no_finding() -> None:
    lying = Switched(PAIR, works=False)
    found, evidence = surveyed(lying)
    assert evidence["prefetcher_switches"]["effective"] is False
    assert len(lying.asked) == len(SWITCHES)
    assert found["prefetcher.l2.pair.present"].method == CURVES

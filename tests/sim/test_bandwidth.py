"""Bandwidth and loaded latency on simulated machines, held against the limits in their files; with prefetchers and
without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from asked import findings
from quiet_machines import LINE, MEMORY, quiet

from setebench.machine import MemoryNode, Region, Ticks
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine


def answers(scenario: str, machine: Any, **options: Any) -> dict[str, Finding]:
    return findings(scenario, Context(machine=machine, fast=True, options=options))


SMALL = {"l1": {"sets": 32}, "l2": {"sets": 256}, "l3": {"sets": 2048}}
"""16 KiB, 128 KiB, 2 MiB: data sets that outgrow all of it are streamed over soon, and each level fits four times into
the next."""


INTERVAL = 40.0
"""Cycles between lines of memory: more than the misses in flight allow, or those would be the limit."""


@pytest.fixture(scope="module")
def measured() -> dict[str, Finding]:
    """Load and triad on one CPU; the clock of this machine ticks once a cycle."""
    shape = {**SMALL, "l1": {"sets": 32, "fill_interval_cycles": 4.0}}
    machine = quiet(memory=spec.Memory(latency_cycles=MEMORY, interval_cycles=INTERVAL), **shape)
    return answers("bandwidth", machine, kernel=["load", "triad"], threads="1", width=["64"])


def rate(found: dict[str, Finding], parameter: str) -> float:
    finding = found[parameter]
    assert finding.outcome is Outcome.MEASURED and isinstance(finding.value, float), finding
    return finding.value


def test_memory_bandwidth_is_what_the_interval_allows(measured: dict[str, Finding]) -> None:
    most = LINE / INTERVAL * _per_ns()
    assert rate(measured, "bandwidth.memory.load.64.threads_1") == pytest.approx(most, rel=0.05)
    assert 0.8 * most < rate(measured, "bandwidth.memory.triad.64.threads_1.traffic") < 1.05 * most


def test_the_second_level_is_limited_by_its_fills_and_the_first_is_not(measured: dict[str, Finding]) -> None:
    filled = LINE / 4.0 * _per_ns()
    assert rate(measured, "bandwidth.l2.load.64.threads_1") == pytest.approx(filled, rel=0.05)
    assert rate(measured, "bandwidth.l1.load.64.threads_1") > 2 * filled


@pytest.mark.parametrize("core", [{"cores": 3}, {"cores": 1, "threads_per_core": 2}])
def test_a_level_of_the_core_s_own_has_a_rate_for_all_threads(core: dict[str, Any]) -> None:
    """Which data sets of all threads lie in a level is seen with all of them, and not taken from what one has."""
    shape = {**SMALL, "l1": {"sets": 32, "fill_interval_cycles": 4.0}, "l3": None}
    machine = quiet(
        memory=spec.Memory(latency_cycles=MEMORY, interval_cycles=INTERVAL), core=spec.Core(**core), **shape
    )
    found = answers("bandwidth", machine, kernel=["load"], width=["64"], seconds=10.0)
    one, several = (rate(found, f"bandwidth.l2.load.64.threads_{n}") for n in (1, machine.facts.cpus[-1] + 1))
    assert one == pytest.approx(LINE / 4.0 * _per_ns(), rel=0.05)
    assert several == pytest.approx(core["cores"] * one, rel=0.05)
    whole = [rate(found, f"bandwidth.memory.load.64.threads_{n}") for n in (1, machine.facts.cpus[-1] + 1)]
    assert whole == pytest.approx([LINE / INTERVAL * _per_ns()] * 2, rel=0.05)


def loaded(cores: int, interval: float) -> dict[str, Finding]:
    memory = spec.Memory(latency_cycles=MEMORY, interval_cycles=interval)
    context = Context(machine=quiet(memory=memory, core=spec.Core(cores=cores)), fast=True)
    found = findings("loaded-latency", context)
    assert context.evidence["loaded_latency"]["points"]
    return found


def test_a_saturated_memory_is_reported_with_its_peak() -> None:
    found = loaded(4, 30.0)
    assert found["loaded_latency.idle"].value == pytest.approx(MEMORY / _per_ns(), rel=0.02)
    peak, knee, at_peak, idle = (
        rate(found, f"loaded_latency.{name}") for name in ("peak_bandwidth", "knee_bandwidth", "at_peak", "idle")
    )
    assert peak == pytest.approx(LINE / 30.0 * _per_ns(), rel=0.05)
    assert at_peak > 1.5 * idle and knee <= peak


class Nodes:
    """A simulated machine with two nodes of CPUs, one of memory alone, and one that takes no memory; what lies on
    another node than the CPU's takes twice as long."""

    HOME: ClassVar = {0: 0, 1: 0, 2: 1}

    def __init__(self, inner: SimulatedMachine) -> None:
        nodes = tuple(MemoryNode(number=number, cpus=cpus) for number, cpus in enumerate(((0, 1), (2,), (), ())))
        self.inner, self.bound = inner, list[tuple[range, int]]()
        self.facts = msgspec.structs.replace(inner.facts, nodes=nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def bind(self, region: Region, node: int) -> bool:
        self.bound.insert(0, (range(region.address, region.address + region.size), node))
        return node != 3

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        return self.run_together({cpu or 0: probe}, placements, warmup=warmup)[cpu or 0]

    def run_together(self, probes: Mapping[int, Probe], placements: Any, *, warmup: int = 0) -> dict[int, Ticks]:
        found = self.inner.run_together(probes, placements, warmup=warmup)
        for cpu, probe in probes.items():
            where = {int(np.ravel(placements[base])[0]) for base in probe.bases}
            nodes = {next((node for own, node in self.bound if at in own), self.HOME[cpu]) for at in where}
            found[cpu][:, slice(2, 3) if probe.intervals > 1 else slice(1)] *= 1 + bool(nodes - {self.HOME[cpu]})
        return found


def test_every_node_with_cpus_is_measured_with_every_node_that_has_memory() -> None:
    memory = spec.Memory(latency_cycles=MEMORY, interval_cycles=INTERVAL)

    def own() -> Any:
        return Nodes(quiet(memory=memory, core=spec.Core(cores=3), **{**SMALL, "l3": None}))

    found = answers("bandwidth", own(), kernel=["load"], width=["64"], threads="1") | answers("loaded-latency", own())
    for home, cpus in ((0, 2), (1, 1)):
        names = [f".cpu_node_{home}.memory_node_{node}" for node in (home, 1 - home, 2, 3)]
        idle = [rate(found, f"loaded_latency.idle{name}") for name in names[:3]]
        rates = [rate(found, f"bandwidth.memory.load.64.threads_{cpus}{name}") for name in names[:3]]
        assert idle[1:] == pytest.approx([2 * idle[0]] * 2, rel=0.05)
        assert rates[1:] == pytest.approx([rates[0] / 2] * 2, rel=0.05)
        refused = [found[f"{each}{names[3]}"].outcome for each in ("loaded_latency.idle", "bandwidth.memory")]
        assert refused == [Outcome.UNRESOLVED] * 2
    at_peak = [rate(found, f"loaded_latency.at_peak.cpu_node_0.memory_node_{node}") for node in (0, 2)]
    assert at_peak[1] > 1.1 * at_peak[0]


def _per_ns() -> float:
    machine = quiet()
    return machine.facts.ticks_per_second / 1e9

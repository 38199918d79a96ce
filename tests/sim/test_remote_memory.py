"""Another socket's memory: where pages lie, how long its lines take, and what counts them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from setebench.errors import UnsupportedError, UsageError
from setebench.machine import BindsMemory, Region
from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.machine import SimulatedMachine, open_machine_file

FURTHER = 150.0
TARGET = Base("target")
PAGES = 32
ROLES = ("mem_read", "remote_read", "link_flit")


def _machine(**remote: float) -> SimulatedMachine:
    memory = spec.RemoteMemory(bytes=1 << 23, further_cycles=FURTHER, **remote)
    return open_machine_file(msgspec.structs.replace(load("plain"), remote_memory=memory, pmu=spec.Pmu()), 5)


def _regions(machine: SimulatedMachine) -> tuple[Region, Region]:
    near, remote = machine.allocate(PAGES * 4096, 4096), machine.allocate_on(PAGES * 4096, 4096, 1)
    touch = Probe().repeat(PAGES, Probe().store(TARGET), advance=4096).fence()
    for region in (near, remote):
        machine.run(touch, {TARGET: [region.address]})
    return near, remote


def test_pages_lie_where_they_were_bound() -> None:
    machine = _machine()
    near, remote = _regions(machine)
    assert isinstance(machine, BindsMemory)
    assert {machine.node_of(near, page * 4096) for page in range(PAGES)} == {0}
    assert {machine.node_of(remote, page * 4096) for page in range(PAGES)} == {1}
    assert [node.number for node in machine.facts.nodes] == [0, 1]


def test_remote_memory_ends_and_comes_back() -> None:
    machine = _machine()
    regions = [machine.allocate_on(1 << 21, 4096, 1) for _ in range(4)]
    with pytest.raises(UnsupportedError, match="0 bytes left"):
        machine.allocate_on(4096, 4096, 1)
    machine.release(regions[0])
    assert machine.node_of(machine.allocate_on(1 << 21, max(machine.facts.page_sizes), 1), 0) == 1


def test_a_machine_of_one_node_has_none_to_choose() -> None:
    machine = open_machine_file(load("plain"), 5)
    assert machine.facts.nodes == ()
    with pytest.raises(UsageError, match="no memory node 1"):
        machine.allocate_on(4096, 4096, 1)


def test_remote_lines_take_longer_and_are_counted_line_by_line() -> None:
    machine = _machine()
    ticks, counts = [], []
    for region in _regions(machine):
        lines = region.address + np.arange(PAGES) * 4096 + 640
        probe = Probe().flush(TARGET).fence().start().load(TARGET).stop()
        with machine.count_events(ROLES) as counting:
            ticks.append(machine.run(probe, {TARGET: lines}).mean())
            counts.append([count.value for count in counting.read().values()])
    assert counts == [[PAGES, 0, 0], [PAGES, PAGES, 8 * PAGES]]
    assert ticks[1] - ticks[0] == pytest.approx(FURTHER, rel=0.05)


def test_the_link_has_a_time_of_its_own_between_lines() -> None:
    probe = Probe().repeat(PAGES, Probe().flush(TARGET), advance=4096).fence().start()
    probe = probe.repeat(PAGES, Probe().load(TARGET), advance=4096).stop()
    taken = []
    for interval in (0.0, 200.0):
        machine = _machine(link_interval_cycles=interval)
        _, remote = _regions(machine)
        taken.append(machine.run(probe, {TARGET: [remote.address + 640] * 4}).mean())
    assert taken[1] > 0.9 * 200 * PAGES > taken[0]

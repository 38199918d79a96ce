"""Several simulated cores: who delivers a line, what taking it away costs."""

from __future__ import annotations

import pytest
from quiet_machines import L1, LINE_BASE, PAGE, cycles, quiet, timed

from setebench.machine import Region
from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

DISTANCES = ((0.0, 5.0, 9.0), (5.0, 0.0, 3.0), (9.0, 3.0, 0.0))
RULES = spec.Coherence(
    modified_cycles=120,
    exclusive_cycles=110,
    shared_cycles=90,
    invalidate_cycles=60,
    distance_cycles=DISTANCES,
)


def three_cores() -> tuple[SimulatedMachine, Region]:
    machine = quiet(core=spec.Core(cores=3), coherence=RULES, l3=None)
    for cpu in machine.facts.cpus:  # caches of a core that never ran are not looked into
        machine.run(Probe().nop(1), 1, cpu=cpu)
    return machine, machine.allocate(PAGE, PAGE)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (0, 2), (1, 2), (2, 0)])
def test_reading_a_line_of_another_core(a: int, b: int) -> None:
    machine, region = three_cores()
    other = ({0, 1, 2} - {a, b}).pop()
    states = {"modified": 120, "exclusive": 110, "shared": 90}
    for line, (state, expected) in enumerate(states.items()):
        where = {LINE_BASE: [region.address + line * 64]}
        touch = Probe().store(LINE_BASE) if state == "modified" else Probe().load(LINE_BASE)
        machine.run(Probe().load(LINE_BASE + 40 * 64), where, cpu=a)  # warms a's TLB
        machine.run(touch.fence(), where, cpu=b)
        nearest = DISTANCES[a][b]
        if state == "shared":
            machine.run(Probe().load(LINE_BASE).fence(), where, cpu=other)
            nearest = min(nearest, DISTANCES[a][other])
        assert cycles(machine, timed(LINE_BASE), where, cpu=a) == [expected + nearest]
        assert cycles(machine, timed(LINE_BASE), where, cpu=a) == [L1]


def timed_store() -> Probe:
    return Probe().fence().start(dither=False).store(LINE_BASE).fence().stop()


@pytest.mark.parametrize(("holders", "cost"), [(0, 0), (1, 60), (2, 60)])
def test_a_store_after_a_shared_or_an_exclusive_prefetch(holders: int, cost: int) -> None:
    machine, region = three_cores()
    for hint, extra in (("t0", cost), ("w", 0)):
        where = {LINE_BASE: [region.address]}
        machine.run(Probe().flush(LINE_BASE).fence(), where)
        for cpu in range(1, 1 + holders):
            machine.run(Probe().load(LINE_BASE).fence(), where, cpu=cpu)
        probe = Probe().prefetch(LINE_BASE, hint).wait(3000).fence() + timed_store()
        assert cycles(machine, probe, where) == [L1 + extra]
        if holders:
            time = cycles(machine, timed(LINE_BASE), where, cpu=1)[0]
            assert time == 120 + DISTANCES[1][0]  # the store took it away


def test_barriers_order_what_cores_do() -> None:
    machine, region = three_cores()
    writer = Probe().barrier().store(LINE_BASE).fence().barrier()
    reader = Probe().load(LINE_BASE + 640).fence().barrier().barrier() + timed(LINE_BASE)
    ticks = machine.run_together({0: reader, 1: writer}, {LINE_BASE: [region.address] * 4})
    assert (ticks[0][:, 0] - 20).tolist() == [120 + 5] * 4
    assert ticks[1].shape == (4, 0)

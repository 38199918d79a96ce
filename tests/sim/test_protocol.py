"""Simulated machines as machines: the protocol, errors, what a scenario can reach, repeatability."""

from __future__ import annotations

import gc
import types

import numpy as np
import pytest
from quiet_machines import HUGE, LINE_BASE, PAGE, quiet

from setebench.errors import ProbeFault, UnsupportedError, UsageError
from setebench.machine import Machine
from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.machine import simulation
from setebench.sim.memory_map import MemoryMap


def reachable(start: object) -> list[object]:
    """Every object that can be reached from `start` without passing a module, a class or a function's globals."""
    barriers = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
    seen = {id(start)}
    found = [start]
    queue = [start]
    while queue:
        for referent in gc.get_referents(queue.pop()):
            if id(referent) in seen or isinstance(referent, barriers):
                continue
            seen.add(id(referent))
            found.append(referent)
            queue.append(referent)
    return found


def test_the_truth_cannot_be_reached_from_the_machine() -> None:
    machine = quiet(pmu=spec.Pmu(events={"load": (spec.Fault(kind="zero"),)}))
    region = machine.allocate(PAGE, PAGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: [region.address]})
    hidden = simulation(machine)
    counting = machine.count_events(("load",))
    counting.__enter__()
    for start in (machine, region, machine.run, machine.facts, counting, counting.read(), machine.event_roles()):
        for thing in reachable(start):
            assert not isinstance(thing, (spec.Table, MemoryMap, np.ndarray, type(hidden)))
            assert thing is not hidden
    assert isinstance(hidden.machine, spec.Machine)  # the walk would have known one


def test_it_is_a_machine() -> None:
    machine = quiet(core=spec.Core(cores=2, threads_per_core=2))
    assert isinstance(machine, Machine)
    assert machine.facts.cpus == (0, 1, 2, 3)
    assert machine.facts.siblings == ((0, 2), (1, 3))
    assert machine.facts.kind == "sim"


def test_a_released_region_leaves_nothing_behind() -> None:
    machine = quiet(memory=spec.Memory(bytes=2 * HUGE))
    region = machine.allocate(2 * HUGE, HUGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: [region.address]})
    machine.release(region)
    with pytest.raises(ProbeFault) as error:
        machine.run(Probe().nop(3).load(LINE_BASE), {LINE_BASE: [region.address]})
    assert (error.value.signal, error.value.operation, error.value.address) == ("SIGSEGV", 1, region.address)
    again = machine.allocate(2 * HUGE, HUGE)
    time = machine.run(Probe().fence().start(dither=False).load(LINE_BASE).stop(), {LINE_BASE: [again.address]})[0, 0]
    assert time > 300


def test_variants_that_a_machine_lacks() -> None:
    machine = quiet(
        clock=spec.Clock(brackets={"lfence": 20.0}),
        core=spec.Core(access_sizes=(8,)),
        software_prefetch=spec.SoftwarePrefetch(hints={"t0": spec.Hint()}),
    )
    region = machine.allocate(PAGE, PAGE)
    where = {LINE_BASE: [region.address]}
    for probe in (
        Probe().prefetch(LINE_BASE, "w"),
        Probe().load(LINE_BASE, 64),
        Probe().load(LINE_BASE).start(bracket="rdpru").stop(bracket="rdpru"),
        Probe().load(LINE_BASE).fence("serialize"),
    ):
        with pytest.raises(UnsupportedError):
            machine.run(probe, where)
    with pytest.raises(UsageError):
        machine.run(Probe().load(LINE_BASE), where, cpu=5)
    with pytest.raises(UnsupportedError):
        machine.allocate(1 << 30, 1 << 30)

"""The native machine as a `Machine`: opening, pinning, threads, running together, and every refusal in one line."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from native_fixture import LINE, in_python, two_cpus

from setebench.errors import ProbeFault, UsageError
from setebench.machine import Machine, Region
from setebench.native.machine import NativeMachine
from setebench.probe import Probe

EMPTY = Probe().start().stop()


# ---- facts --------------------------------------------------------------------------------------------------------


def test_the_facts_make_sense(native: NativeMachine) -> None:
    facts = native.facts
    assert isinstance(native, Machine)
    assert facts.kind == "native"
    assert facts.line_size in (32, 64, 128)
    assert 8 in facts.access_sizes
    assert 4096 in facts.page_sizes
    assert 1e8 < facts.ticks_per_second < 1e10
    assert len(set(facts.brackets)) == len(facts.brackets) >= 1
    assert sorted(cpu for group in facts.siblings for cpu in group) == sorted({c for g in facts.siblings for c in g})


def test_every_variant_of_the_facts_runs(native: NativeMachine, region: Region) -> None:
    facts = native.facts
    probe = Probe()
    for size in facts.access_sizes:
        probe = probe.load(LINE, size).store(LINE, size)
    for hint in facts.prefetch_hints:
        probe = probe.prefetch(LINE, hint)
    for how in facts.flushes:
        probe = probe.flush(LINE, how)
    for fence in facts.fences:
        probe = probe.fence(fence)
    for number, bracket in enumerate(facts.brackets):
        probe = probe.start(number, bracket=bracket).add(100).stop(number, bracket=bracket)
    ticks = native.run(probe, {LINE: region.random_lines(50, 1)})
    assert ticks.shape == (50, len(facts.brackets))
    assert (np.median(ticks, axis=0) > 0).all()


# ---- running ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("repetitions", "warmup", "rows"), [(0, 0, 0), (5, 0, 5), (5, 2, 3), (5, 5, 0), (5, 9, 0)])
def test_warmups_are_not_returned(native: NativeMachine, repetitions: int, warmup: int, rows: int) -> None:
    ticks = native.run(EMPTY, repetitions, warmup=warmup)
    assert ticks.shape == (rows, 1)
    assert ticks.dtype == np.int64


def test_a_repeat_advances_every_round(native: NativeMachine, region: Region) -> None:
    """A walk of exactly the region's size stays inside; one step more leaves it."""
    last = region.pages - 1
    native.run(Probe().repeat(region.pages, Probe().load(LINE), advance=4096), {LINE: [region.address]})
    native.run(Probe().repeat(region.pages, Probe().load(LINE), advance=-4096), {LINE: [region.line(last)]})
    with pytest.raises(ProbeFault):
        native.run(Probe().repeat(2, Probe().load(LINE), advance=1 << 30).repeat(2, Probe().load(LINE)), {LINE: [4096]})


# ---- CPUs and threads ---------------------------------------------------------------------------------------------


def test_a_cpu_that_is_not_allowed() -> None:
    with pytest.raises(UsageError, match="CPU 4095 is offline or not allowed to this process; allowed are"):
        NativeMachine(4095)


def test_the_thread_is_free_again_after_close() -> None:
    code = """
import os
from setebench.native.machine import NativeMachine
before = os.sched_getaffinity(0)
machines = [NativeMachine(cpu) for cpu in sorted(before)[:2]]
for machine in machines:
    assert set(machine.facts.cpus) == before, (machine.facts.cpus, before)
    assert len(os.sched_getaffinity(0)) == 1
for machine in machines:   # in the order of opening, not the reverse
    machine.close()
    machine.close()
assert os.sched_getaffinity(0) == before, os.sched_getaffinity(0)
print("ok")
"""
    done = in_python(code)
    assert done.stdout.strip() == "ok", done.stderr


def test_each_of_two_machines_runs_on_its_own_cpu(native: NativeMachine) -> None:
    """The one opened first, too, though the other has moved the thread since."""
    first, second = two_cpus(native)
    one, two = NativeMachine(first), NativeMachine(second)
    running, done = threading.get_native_id(), threading.Event()
    seen: list[set[int]] = []

    def watch() -> None:
        while not done.wait(0.001):
            seen.append(os.sched_getaffinity(running))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        one.run(Probe().wait(10**8), 5)
    finally:
        done.set()
        watcher.join()
        one.close()
        two.close()
    assert {first} in seen


# ---- regions ------------------------------------------------------------------------------------------------------


def test_a_strangers_region_is_refused(native: NativeMachine) -> None:
    strange = Region(1 << 20, 4096, 4096)
    for use in (lambda: native.release(strange), lambda: native.link(strange, np.array([strange.address]))):
        with pytest.raises(UsageError, match="another machine"):
            use()


def test_linked_lines_are_followed_once_around(native: NativeMachine, region: Region) -> None:
    """After as many steps as there are lines the chase is back at its start: a zero stored there stops it."""
    order = region.address + 64 * np.random.default_rng(1).permutation(1000)
    native.link(region, order)
    ends = {LINE: [order[0]]}
    assert native.run(Probe().start().chase(LINE, 5000).stop(), ends)[0, 0] > 0
    native.run(Probe().store(LINE), ends)
    native.run(Probe().chase(LINE + int(order[1] - order[0]), 999), ends)
    with pytest.raises(ProbeFault):
        native.run(Probe().chase(LINE + int(order[1] - order[0]), 1001), ends)


# ---- together -----------------------------------------------------------------------------------------------------


def test_two_cpus_meet_at_every_barrier(native: NativeMachine, region: Region) -> None:
    first, second = two_cpus(native)
    placed = {LINE: region.random_lines(300, 1)}
    fast = Probe().barrier().start().barrier().stop()
    slow = Probe().barrier().start().wait(20_000).fence("l").barrier().stop()
    together = native.run_together({first: fast, second: slow}, placed, warmup=20)
    assert set(together) == {first, second}
    for ticks in together.values():
        assert ticks.shape == (280, 1)
        assert (ticks > 0).all()
    alone = native.run(Probe().start().stop(), 300)
    # the fast one waits for the slow one at the second barrier, every time
    assert np.median(together[first]) > 0.5 * np.median(together[second]) > 5 * np.median(alone)


NEVER_HANGS = """
from setebench.native.machine import NativeMachine
from setebench.errors import SetebenchError
from setebench.probe import Base, Probe

machine = NativeMachine()
first, second = machine.facts.cpus[:2]
region = machine.allocate(4096, 4096)
here, gone = Base("here"), Base("gone")
try:
    machine.run_together({{first: {FIRST}, second: {SECOND}}}, {{here: [region.address] * 50}})
except SetebenchError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [
        ("Probe().load(here)", "Probe().load(gone)", "ProbeError no placement for gone"),
        ("Probe().barrier()", "Probe().barrier().barrier()", "ProbeError probes that run together need equally many"),
        ("Probe().start().stop()", "Probe().stop()", "ProbeError every interval needs one start"),
    ],
)
def test_a_probe_that_cannot_run_keeps_nobody_waiting(
    native: NativeMachine, first: str, second: str, reported: str
) -> None:
    two_cpus(native)
    done = in_python(NEVER_HANGS.format(FIRST=first, SECOND=second), timeout=30)
    assert done.stdout.startswith(reported), done.stderr

"""The core of simulated machines: what overlaps, what waits, and for what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, LINE, LINE_BASE, MEMORY, PAGE, PAGE_BASE, cycles, quiet, timed

from setebench.probe import CHASE_WORK, Base, Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

OTHER = Base("other")


def far_lines(count: int, how: str = "load", hint: str = "t0") -> Probe:
    """`count` independent misses, all in one 2 MiB page, no two in a pair or run."""
    probe = Probe()
    for k in range(count):
        where = PAGE_BASE + (k * 37 + 3) * LINE
        probe = probe.load(where) if how == "load" else probe.prefetch(where, hint)
    return probe


def misses_time(machine: SimulatedMachine, count: int, how: str = "load", hint: str = "t0") -> int:
    """Time of `count` independent misses on lines never touched before."""
    region = machine.allocate(HUGE, HUGE)
    warm = Probe().load(PAGE_BASE).fence()
    probe = warm.start(dither=False) + far_lines(count, how, hint).stop()
    time = cycles(machine, probe, {PAGE_BASE: [region.address]})[0]
    machine.release(region)
    return time


def test_calibrations() -> None:
    machine = quiet()
    assert cycles(machine, Probe().start(dither=False).stop()) == [0]
    assert cycles(machine, Probe().start(dither=False).add(100).stop()) == [100]
    assert cycles(machine, Probe().start(dither=False).multiply(100).stop()) == [300]
    assert cycles(machine, Probe().start(dither=False).multiply(100, chained=False).stop())[0] < 30
    assert cycles(machine, Probe().start(dither=False).transfer(10).stop()) == [40]
    assert cycles(machine, Probe().start(dither=False).wait(777).stop()) == [777]
    assert cycles(machine, Probe().start(dither=False).nop(400).stop())[0] == pytest.approx(100, abs=1)
    assert cycles(machine, Probe().start(dither=False).add(50).add(50).stop()) == [100]
    assert cycles(machine, Probe().start(dither=False).add(50).multiply(10).stop()) == [50]


def test_waiting_does_not_hold_back_an_out_of_order_core() -> None:
    machine = quiet(core=spec.Core(reorder_window=512))
    region = machine.allocate(PAGE, PAGE)
    behind = Probe().flush(LINE_BASE).fence().start(dither=False).wait(200).load(LINE_BASE).stop()
    fenced = Probe().flush(LINE_BASE).fence().start(dither=False).wait(200).fence("l").load(LINE_BASE).stop()
    where = {LINE_BASE: [region.address] * 2}
    assert max(cycles(machine, behind, where)) < MEMORY + 200
    assert cycles(machine, fenced, where) == [MEMORY + 200] * 2


def test_the_window_limits_overlap() -> None:
    """A miss with more instructions behind it than the window has holds back the next miss."""
    for instructions, rounds in ((30, 1), (70, 2)):
        machine = quiet(core=spec.Core(reorder_window=64))
        region = machine.allocate(HUGE, HUGE)
        probe = Probe().load(PAGE_BASE).fence().start(dither=False).load(PAGE_BASE + 40 * LINE)
        probe = probe.nop(instructions).load(PAGE_BASE + 99 * LINE).stop()
        time = cycles(machine, probe, {PAGE_BASE: [region.address]})[0]
        assert rounds * MEMORY <= time < rounds * MEMORY + 50


@pytest.mark.parametrize("entries", [1, 4, 10])
def test_one_miss_more_than_entries_takes_one_more_round(entries: int) -> None:
    machine = quiet(l1={"mshr_entries": entries})
    for rounds in (1, 2, 3):
        assert misses_time(machine, rounds * entries) == pytest.approx(rounds * MEMORY, abs=12)
        assert misses_time(machine, rounds * entries + 1) == pytest.approx((rounds + 1) * MEMORY, abs=12)


@pytest.mark.parametrize("how", ["load", "prefetch"])
def test_separate_limits_for_demand_and_prefetch(how: str) -> None:
    """Entries 12, at most 8 by loads and 5 by software prefetches. A prefetch is done once it has its entry."""
    machine = quiet(l1={"mshr_entries": 12, "mshr_demand_limit": 8, "mshr_prefetch_limit": 5})
    if how == "load":
        assert misses_time(machine, 8) < 2 * MEMORY <= misses_time(machine, 9)
    else:
        assert misses_time(machine, 5, "prefetch") < 20
        assert misses_time(machine, 6, "prefetch") >= MEMORY


def test_prefetches_stall_or_drop_when_entries_run_out() -> None:
    times = {}
    for when_full in ("stalls", "drops"):
        machine = quiet(l1={"mshr_entries": 4}, software_prefetch=spec.SoftwarePrefetch(when_full=when_full))
        region = machine.allocate(HUGE, HUGE)
        fetch = Probe().load(PAGE_BASE).fence().start(0, dither=False) + far_lines(6, "prefetch").stop(0)
        fetch = fetch.fence().wait(2000).fence().start(1, dither=False).load(PAGE_BASE + (5 * 37 + 3) * LINE).stop(1)
        times[when_full] = machine.run(fetch, {PAGE_BASE: [region.address]})[0] - 20
    assert times["stalls"][0] >= MEMORY
    assert times["stalls"][1] == L1
    assert times["drops"][0] < 20
    assert times["drops"][1] == MEMORY


def test_a_load_of_a_line_in_flight_waits_for_the_rest() -> None:
    machine = quiet()
    region = machine.allocate(PAGE, PAGE)
    for elapsed in (0, 100, 250):
        probe = Probe().flush(LINE_BASE).fence().prefetch(LINE_BASE)
        if elapsed:
            probe = probe.fence("l").wait(elapsed).fence("l")
        time = cycles(machine, probe.start(dither=False).load(LINE_BASE).stop(), {LINE_BASE: [region.address]})[0]
        assert time == pytest.approx(MEMORY - elapsed, abs=2)


def test_dependence_orders_loads() -> None:
    machine = quiet()
    region = machine.allocate(PAGE, PAGE)
    clean = Probe().flush(PAGE_BASE).flush(PAGE_BASE + 9 * LINE).fence().start(dither=False).load(PAGE_BASE)
    where = {PAGE_BASE: [region.address]}
    assert cycles(machine, clean.load(PAGE_BASE + 9 * LINE).stop(), where)[0] < MEMORY + 4
    assert cycles(machine, clean.load(PAGE_BASE + 9 * LINE, after=-1).stop(), where)[0] == 2 * MEMORY
    assert cycles(machine, clean.prefetch(PAGE_BASE + 9 * LINE, after=-1).stop(), where)[0] == MEMORY
    assert cycles(machine, clean.fence("l").load(PAGE_BASE + 9 * LINE).stop(), where)[0] == 2 * MEMORY


def test_chases_follow_the_links() -> None:
    machine = quiet(core=spec.Core(vector_load_extra=spec.VectorExtra(bytes32=3.0), vector_to_integer_cycles=2.0))
    region = machine.allocate(PAGE, PAGE)
    order = region.address + np.array([0, 5, 3, 9, 1]) * LINE
    machine.link(region, order)
    once = {LINE_BASE: [region.address]}
    machine.run(Probe().chase(LINE_BASE, 5), once)
    assert cycles(machine, Probe().start(dither=False).chase(LINE_BASE, 100).stop(), once) == [100 * L1]
    assert cycles(machine, Probe().start(dither=False).chase(LINE_BASE, 100, 32).stop(), once) == [100 * (L1 + 3 + 2)]
    assert cycles(machine, timed(LINE_BASE, 32), once) == [L1 + 3]


@pytest.mark.parametrize("out_of_order", [True, False])
def test_work_of_a_chase_runs_beside_its_misses_unless_the_pointer_needs_it(out_of_order: bool) -> None:
    machine = quiet(core=spec.Core(out_of_order=out_of_order, multiply_cycles=3.0))
    region = machine.allocate(HUGE, HUGE)
    order = region.address + np.random.default_rng(1).permutation(HUGE // 4096)[:8] * 4096
    machine.link(region, order)
    flush = Probe()
    for address in order:
        flush = flush.flush(LINE_BASE + int(address - order[0]))
    once = {LINE_BASE: [int(order[0])]}
    machine.run(flush, once)

    def steps(work: str) -> int:
        return cycles(machine, flush.fence().start(dither=False).chase(LINE_BASE, 8, work=work).stop(), once)[0]

    assert steps("") == steps("free") == 8 * MEMORY
    assert steps("chained") == 8 * (MEMORY + CHASE_WORK * 3)


@pytest.mark.parametrize("out_of_order", [True, False])
def test_blocking_loads(out_of_order: bool) -> None:
    for blocking in (False, True):
        core = spec.Core(out_of_order=out_of_order, issue_width=2, blocking_load=blocking)
        expected = 3 * MEMORY if blocking else MEMORY
        assert misses_time(quiet(core=core), 3) == pytest.approx(expected, abs=12)


def test_a_full_fence_waits_for_flushes_and_a_load_fence_does_not() -> None:
    machine = quiet(core=spec.Core(flush_cycles=90))
    region = machine.allocate(PAGE, PAGE)
    for fence, low, high in (("m", 90, 100), ("l", 0, 10), ("s", 0, 10)):
        probe = Probe().load(PAGE_BASE).fence().start(dither=False).flush(PAGE_BASE).fence(fence).stop()
        assert low <= cycles(machine, probe, {PAGE_BASE: [region.address]})[0] <= high


def smt_pair(machine: SimulatedMachine, count: int) -> tuple[int, int]:
    region = machine.allocate(2 * HUGE, HUGE)
    begin = Probe().load(PAGE_BASE).fence().barrier().start(dither=False)
    first = begin + far_lines(count).stop()
    second = Probe()
    for k in range(count):
        second = second.load(OTHER + (k * 41 + 5) * LINE)
    second = Probe().load(OTHER).fence().barrier().start(dither=False) + second.stop()
    ticks = machine.run_together({0: first, 1: second}, {PAGE_BASE: [region.address], OTHER: [region.address + HUGE]})
    return int(ticks[0][0, 0]) - 20, int(ticks[1][0, 0]) - 20


@pytest.mark.parametrize("shared", [True, False])
def test_smt_threads_share_entries(shared: bool) -> None:
    machine = quiet(core=spec.Core(threads_per_core=2), l1={"mshr_entries": 8, "mshr_shared_by_smt": shared})
    times = smt_pair(machine, 6)
    assert (max(times) >= 2 * MEMORY) == shared
    assert max(times) < 2 * MEMORY + 20


@pytest.mark.parametrize(
    ("memory", "low", "high"),
    [
        ({"interval_cycles": 10.0}, MEMORY + 190, MEMORY + 200),
        ({"banks": 1, "bank_busy_cycles": 20.0}, MEMORY + 380, MEMORY + 400),
        ({}, MEMORY, MEMORY + 12),
    ],
)
def test_memory_bandwidth_and_banks(memory: dict[str, Any], low: int, high: int) -> None:
    machine = quiet(memory=spec.Memory(**memory), l1={"mshr_entries": 0}, l2={"mshr_entries": 0})
    assert low <= misses_time(machine, 20) <= high

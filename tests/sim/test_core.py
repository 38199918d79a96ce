"""The core of simulated machines: what overlaps, what waits, and for what; and what each further resource does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, LINE, LINE_BASE, MEMORY, PAGE, PAGE_BASE, cycles, quiet, timed, took

from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

OTHER = Base("other")
SLACK = 50
WARM = "load page; fence; start dither=no; "


def far_lines(count: int, how: str = "load") -> str:
    """`count` independent misses, all in one 2 MiB page, no two in a pair or run."""
    return "; ".join(f"{how} page+{37 * k + 3}l" for k in range(count))


def misses_time(machine: SimulatedMachine, count: int, how: str = "load") -> int:
    """Time of `count` independent misses on lines never touched before."""
    return took(machine, f"{WARM}{far_lines(count, how)}; stop")[0]


@pytest.mark.parametrize(
    ("work", "low", "high"),
    [
        ("", 0, 0),
        ("add 100", 100, 100),
        ("multiply 100", 300, 300),
        ("multiply 100 free", 0, 29),
        ("transfer 10", 40, 40),
        ("wait 777", 777, 777),
        ("nop 400", 99, 101),
        ("add 50; add 50", 100, 100),
        ("add 50; multiply 10", 50, 50),
    ],
)
def test_calibrations(work: str, low: int, high: int) -> None:
    assert low <= took(quiet(), f"start dither=no; {work}; stop")[0] <= high


def test_waiting_does_not_hold_back_an_out_of_order_core() -> None:
    machine = quiet(core=spec.Core(reorder_window=512))
    behind = "flush page; fence; start dither=no; wait 200; {}load page; stop"
    assert max(took(machine, behind.format(""), PAGE, 2)) < MEMORY + 200
    assert took(machine, behind.format("fence l; "), PAGE, 2) == [MEMORY + 200] * 2


@pytest.mark.parametrize(("instructions", "rounds"), [(30, 1), (70, 2)])
def test_the_window_limits_overlap(instructions: int, rounds: int) -> None:
    """A miss with more instructions behind it than the window has holds back the next miss."""
    machine = quiet(core=spec.Core(reorder_window=64))
    (time,) = took(machine, f"{WARM}load page+40l; nop {instructions}; load page+99l; stop")
    assert rounds * MEMORY <= time < rounds * MEMORY + SLACK


@pytest.mark.parametrize("entries", [1, 4, 10])
def test_one_miss_more_than_entries_takes_one_more_round(entries: int) -> None:
    machine = quiet(l1={"mshr_entries": entries})
    for rounds in (1, 2, 3):
        assert misses_time(machine, rounds * entries) == pytest.approx(rounds * MEMORY, abs=12)
        assert misses_time(machine, rounds * entries + 1) == pytest.approx((rounds + 1) * MEMORY, abs=12)


@pytest.mark.parametrize("stalls", [True, False])
def test_prefetches_stall_or_drop_when_entries_run_out(stalls: bool) -> None:
    """Six of four entries: the last one's line is there only where it waited."""
    prefetch = spec.SoftwarePrefetch(when_full="stalls" if stalls else "drops")
    sixth = f"fence; wait 2000; fence; start dither=no; load page+{5 * 37 + 3}l; stop"
    machine = quiet(l1={"mshr_entries": 4}, software_prefetch=prefetch)
    assert (misses_time(machine, 6, "prefetch") >= MEMORY) == stalls
    assert took(machine, f"load page; fence; {far_lines(6, 'prefetch')}; {sixth}") == [L1 if stalls else MEMORY]


@pytest.mark.parametrize(
    ("second", "low", "high"),
    [
        ("load page+9l", MEMORY, MEMORY + 3),
        ("load page+9l after=-1", 2 * MEMORY, 2 * MEMORY),
        ("prefetch page+9l after=-1", MEMORY, MEMORY),
        ("fence l; load page+9l", 2 * MEMORY, 2 * MEMORY),
    ],
)
def test_dependence_orders_loads(second: str, low: int, high: int) -> None:
    (time,) = took(quiet(), f"flush page; flush page+9l; fence; start dither=no; load page; {second}; stop", PAGE)
    assert low <= time <= high


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
def test_blocking_loads(out_of_order: bool) -> None:
    for blocking in (False, True):
        core = spec.Core(out_of_order=out_of_order, issue_width=2, blocking_load=blocking)
        expected = 3 * MEMORY if blocking else MEMORY
        assert misses_time(quiet(core=core), 3) == pytest.approx(expected, abs=12)


@pytest.mark.parametrize("shared", [True, False])
def test_smt_threads_share_entries(shared: bool) -> None:
    machine = quiet(core=spec.Core(threads_per_core=2), l1={"mshr_entries": 8, "mshr_shared_by_smt": shared})
    region = machine.allocate(2 * HUGE, HUGE)
    probes = {}
    for cpu, base in enumerate((PAGE_BASE, OTHER)):
        probes[cpu] = Probe().load(base).fence().barrier().start(dither=False)
        for k in range(6):
            probes[cpu] = probes[cpu].load(base + (37 * k + 3) * LINE)
        probes[cpu] = probes[cpu].stop()
    ticks = machine.run_together(probes, {PAGE_BASE: [region.address], OTHER: [region.address + HUGE]})
    longest = max(int(each[0, 0]) - 20 for each in ticks.values())
    assert (longest >= 2 * MEMORY) == shared
    assert longest < 2 * MEMORY + 20


@pytest.mark.parametrize(
    ("memory", "low", "high"),
    [
        ({"interval_cycles": 10.0}, MEMORY + 180, MEMORY + 200),
        ({}, MEMORY, MEMORY + 12),
    ],
)
def test_memory_gives_a_line_per_interval(memory: dict[str, Any], low: int, high: int) -> None:
    machine = quiet(memory=spec.Memory(**memory), l1={"mshr_entries": 0}, l2={"mshr_entries": 0})
    assert low <= misses_time(machine, 20) <= high

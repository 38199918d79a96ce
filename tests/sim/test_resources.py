"""What each further resource and rule of a machine file does, seen from outside."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import (
    HUGE,
    L1,
    LINE,
    LINE_BASE,
    MEMORY,
    PAGE,
    PAGE_BASE,
    cycles,
    fetched,
    quiet,
    timed,
)

from setebench.probe import Probe
from setebench.sim import spec

SLACK = 50
WALK = 60


def one_time(machine: Any, probe: Probe, page_size: int = HUGE) -> int:
    region = machine.allocate(HUGE, page_size)
    return cycles(machine, probe, {PAGE_BASE: [region.address]})[0]


@pytest.mark.parametrize(("stores", "waits"), [(4, False), (5, True)])
def test_a_store_more_than_the_queue_holds_waits_for_the_first(stores: int, waits: bool) -> None:
    machine = quiet(core=spec.Core(store_queue=4), l1={"mshr_entries": 0})
    probe = Probe().load(PAGE_BASE).fence().start(dither=False)
    for number in range(stores):
        probe = probe.store(PAGE_BASE + (number * 37 + 3) * LINE)
    time = one_time(machine, probe.stop())
    assert (MEMORY <= time < MEMORY + SLACK) if waits else time < SLACK


@pytest.mark.parametrize("walkers", [1, 2, 4])
def test_page_walks_go_on_side_by_side_as_far_as_there_are_walkers(walkers: int) -> None:
    """Four cached lines in four pages that the TLB doesn't hold."""
    table = spec.TlbTable(entries=1, miss_penalty_cycles=WALK)
    machine = quiet(tlb=spec.Tlb(l1_4k=table, l2_4k=spec.TlbTable(entries=0), walkers=walkers))
    probe = Probe()
    for page in range(5):
        probe = probe.load(PAGE_BASE + page * (PAGE + LINE))
    probe = probe.fence().start(dither=False)
    for page in range(4):
        probe = probe.load(PAGE_BASE + page * (PAGE + LINE))
    assert one_time(machine, probe.stop(), PAGE) == pytest.approx(4 // walkers * WALK + L1, abs=2)


@pytest.mark.parametrize("ports", [1, 2, 3])
def test_a_cache_starts_as_many_accesses_a_cycle_as_it_has_ports(ports: int) -> None:
    machine = quiet(core=spec.Core(issue_width=6), l1={"ports": ports})
    probe = Probe().load(PAGE_BASE).fence().start(dither=False)
    for _ in range(120):
        probe = probe.load(PAGE_BASE)
    assert one_time(machine, probe.stop()) == pytest.approx(120 / ports + L1, abs=2)


@pytest.mark.parametrize("out_of_order", [True, False])
def test_in_order_nothing_starts_before_what_comes_first(out_of_order: bool) -> None:
    """A miss, a hit that needs its value, and a miss that needs nothing."""
    machine = quiet(core=spec.Core(out_of_order=out_of_order))
    probe = Probe().load(PAGE_BASE).fence().start(dither=False).load(PAGE_BASE + 40 * LINE)
    probe = probe.load(PAGE_BASE, after=-1).load(PAGE_BASE + 99 * LINE).stop()
    rounds = 1 if out_of_order else 2
    assert rounds * MEMORY <= one_time(machine, probe) < rounds * MEMORY + SLACK


def test_a_sibling_makes_every_load_longer_while_it_runs() -> None:
    machine = quiet(core=spec.Core(threads_per_core=2, smt_extra_cycles=7))
    region = machine.allocate(PAGE, PAGE)
    where = {LINE_BASE: [region.address] * 2}
    probe = Probe().load(LINE_BASE) + timed(LINE_BASE)
    alone = machine.run(probe, where)[1, 0]
    together = machine.run_together({0: probe, 1: probe}, where)
    assert [int(ticks[1, 0] - alone) for ticks in together.values()] == [7, 7]


@pytest.mark.parametrize(("directions", "up", "down"), [("both", 1, 1), ("up", 1, 0), ("down", 0, 1)])
@pytest.mark.parametrize("kind", [spec.Streamer, spec.Stride])
def test_prefetchers_follow_the_directions_they_may(kind: Any, directions: str, up: int, down: int) -> None:
    for step, expected in ((1, up), (-1, down)):
        machine = quiet(prefetchers=(kind(level=2, directions=directions),))
        train = Probe()
        for number in range(4):
            train = train.load(PAGE_BASE + (30 + number * step) * LINE, ip="A").fence()
        ahead = fetched(machine, train, [30 + number * step for number in range(4, 8)])
        assert bool(ahead) == bool(expected)

"""What a simulated PMU without faults counts: small probes whose counts are known by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, LINE, LINE_BASE, MEMORY, PAGE_BASE, quiet

from setebench.machine import Region
from setebench.probe import CHASE_WORK, Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, stream_bytes
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine
from setebench.sim.spec.pmu import SIMULATED_ROLES

IDLE = 60
"""Cycles of the loop around a probe: all of them execute, none counts as an instruction of the probe."""

MULTIPLY = 3
STEPS = 40


def counted(machine: SimulatedMachine, probe: Probe, placements: Any = 1, cpu: int = 0) -> dict[str, int]:
    """Every role's count of one run, in groups that fit the registers."""
    with machine.count_events(SIMULATED_ROLES) as counting:
        machine.run(probe, placements, cpu=cpu)
        return values(counting)


def values(counting: Any) -> dict[str, int]:
    return {role: count.value for role, count in counting.read().items()}


def perfect(**changes: Any) -> SimulatedMachine:
    return quiet(pmu=spec.Pmu(registers=len(SIMULATED_ROLES)), **changes)


def chain_of_lines(machine: SimulatedMachine) -> tuple[Region, Mapping[Base, Any]]:
    """Linked lines of one 2 MiB page, none of them cached, the page's translation at hand; no two in a pair or run."""
    region = machine.allocate(HUGE, HUGE)
    order = region.address + (np.arange(STEPS) * 37 + 3) * LINE
    machine.link(region, order)
    machine.run(Probe().load(PAGE_BASE), {PAGE_BASE: [region.address]})
    return region, {LINE_BASE: order[:1]}


def only(found: dict[str, int], **expected: int) -> None:
    """All of these counts, and nothing else of those that the roles given belong to."""
    assert {role: found[role] for role in expected} == expected


@pytest.mark.parametrize("work", ["", "free", "chained"])
def test_a_chase_through_memory(work: str) -> None:
    """Work of the pointer itself adds cycles without execution, but none while a miss is in flight; free work executes
    while one is."""
    machine = perfect()
    _, where = chain_of_lines(machine)
    found = counted(machine, Probe().chase(LINE_BASE, STEPS, work=work), where)
    only(
        found, load=STEPS, load_l1_miss=STEPS, load_fb_hit=0, l1d_fill=STEPS, l2_fill=STEPS, mem_read=STEPS, mem_write=0
    )
    only(found, offcore_mem_read=STEPS, home_read=STEPS, l2_rfo=0, store=0, stall_store_buffer=0, fb_full=0, sq_full=0)
    only(found, l1d_inflight_sum=STEPS * MEMORY, l1d_inflight_cycles=STEPS * MEMORY)
    chained = STEPS * CHASE_WORK * MULTIPLY if work == "chained" else 0
    executing = STEPS * (1 if work != "free" else 1 + CHASE_WORK // 4)
    assert found["cycles"] == STEPS * MEMORY + chained + IDLE
    assert found["instructions"] == STEPS * (1 + (CHASE_WORK if work else 0))
    assert found["stall_l1d_miss"] == found["stall_load_any"] == pytest.approx(STEPS * MEMORY - executing, abs=STEPS)
    assert found["no_execute"] - found["stall_l1d_miss"] == chained * (MULTIPLY - 1) // MULTIPLY
    if work != "free":
        assert found["stall_l1d_miss"] == STEPS * (MEMORY - 1)


def far_apart(machine: SimulatedMachine, count: int, how: str) -> dict[str, int]:
    region, _ = chain_of_lines(machine)
    probe = Probe()
    for line in range(count):
        probe = getattr(probe, how)(PAGE_BASE + (line * 41 + 8) * LINE)
    return counted(machine, probe, {PAGE_BASE: [region.address]})


def test_waiting_for_an_entry_and_for_the_store_buffer() -> None:
    """Two entries: six misses take three latencies, and until the third begins one waits."""
    found = far_apart(perfect(l1={"mshr_entries": 2}), 6, "load")
    assert found["fb_full"] == pytest.approx(2 * MEMORY, abs=1)
    assert found["sq_full"] == found["stall_store_buffer"] == 0
    found = far_apart(perfect(l2={"mshr_entries": 2}), 6, "load")
    assert found["sq_full"] == pytest.approx(2 * MEMORY, abs=1)
    assert found["fb_full"] == 0
    found = far_apart(perfect(core=spec.Core(store_queue=4)), 8, "store")
    assert found["stall_store_buffer"] == pytest.approx(MEMORY, abs=2)
    only(found, store=8, l2_rfo=8, l2_rfo_miss=8, l1d_fill=8, l2_fill=8, mem_read=8, load_l1_miss=0, l1d_inflight_sum=0)


@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize(
    ("name", "rolled"),
    [(name, rolled) for name, kernel in KERNELS.items() if kernel.accesses for rolled in kernel.forms],
)
def test_streams_move_the_lines_that_their_table_says(name: str, rolled: bool, width: int) -> None:
    """From memory, nothing of it cached before."""
    kernel, size = KERNELS[name], 1 << 16
    machine = perfect()
    region = machine.allocate(stream_bytes(kernel, size), HUGE)
    probe = Probe().stream(LINE_BASE, name, size, width, rolled=rolled)
    found = counted(machine, probe, {LINE_BASE: [region.address]})
    blocks, read = size // BLOCK_BYTES, kernel.read_bytes + kernel.allocated_bytes
    assert found["load"] * width == blocks * kernel.read_bytes
    assert found["store"] * width == blocks * kernel.written_bytes
    lines = dict.fromkeys(("mem_read", "l1d_fill", "l2_fill", "offcore_mem_read"), blocks * read // LINE)
    only(found, fp_op=size // 8 * kernel.flops, l2_rfo=blocks * kernel.allocated_bytes // LINE, **lines)
    if kernel.bypass:
        only(found, mem_write=blocks * kernel.written_bytes // LINE, l1d_writeback=0)


# -- the capability ----------------------------------------------------------------------------------------------------


def test_groups_fit_the_registers_and_more_take_turns() -> None:
    machine = quiet(pmu=spec.Pmu(registers=3))
    assert machine.event_groups(SIMULATED_ROLES[:7]) == (
        SIMULATED_ROLES[:3],
        SIMULATED_ROLES[3:6],
        SIMULATED_ROLES[6:7],
    )
    assert machine.event_groups(("load", "load")) == (("load",),)
    for roles, share in ((SIMULATED_ROLES[:3], 1.0), (SIMULATED_ROLES[:6], 0.5)):
        with machine.count_events(roles) as counting:
            machine.run(Probe().nop(40_000), 1)
            counts = counting.read()
        for count in counts.values():
            assert count.running == pytest.approx(share * count.enabled, abs=1)
            assert count.shared == (share < 1)
        assert counts["instructions"].value == pytest.approx(share * 40_000, rel=0.11 if share < 1 else 0)

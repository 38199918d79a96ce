"""Ways of a third cache, and whether it includes the second, on simulated machines of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L3, MEMORY, quiet

from setebench.hierarchy.third_sets import third_sets
from setebench.machine import Region
from setebench.measure.absent import Absent
from setebench.measure.crowded import crowd
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.overflow import Looks, critical, unbiased
from setebench.measure.thinning import Latencies
from setebench.measure.trials import Trials
from setebench.scenario import Context
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, simulation

REGION_BYTES = 48 << 20
CYCLES = [4.0, 14.0, 46.0, 300.0]
"""Latencies of the quiet machine's levels."""

SECOND = {"sets": 256, "ways": 4}
SECOND_LINES = 1024
SETS = 8192


def _machine(
    ways: int = 8, replacement: str = "lru", inclusion: str = "neither", **changes: object
) -> SimulatedMachine:
    third = {"sets": SETS, "ways": ways, "replacement": replacement, "inclusion": inclusion, "hashed_index": True}
    return quiet(l2=SECOND | changes.pop("l2", {}), l3=third | changes.pop("l3", {}), **changes)


def _set_of(machine: SimulatedMachine, line: int) -> int:
    """The set of the third cache that a line falls into, as its index is documented (`spec.Level.hashed_index`)."""
    arrays = simulation(machine._number).arrays
    page = (line - at.BASE_ADDRESS) // TLB_PAGE_BYTES
    frame = int(arrays.s[int(arrays.c[at.C_PAGE_TABLE]) + page]) >> at.FRAME_BITS
    number, bits = frame * (TLB_PAGE_BYTES // 64) + line % TLB_PAGE_BYTES // 64, SETS.bit_length() - 1
    return (number ^ number >> bits ^ number >> 2 * bits) % SETS


@pytest.mark.parametrize(
    ("ways", "replacement", "inclusion", "hashed"),
    [
        (8, "lru", "inclusive", True),
        (12, "lru", "neither", False),
        (16, "tree_plru", "exclusive", True),
        (8, "random", "neither", True),
        (12, "random", "exclusive", True),
        (9, "random", "inclusive", True),
    ],
)
def test_ways_and_inclusion(ways: int, replacement: str, inclusion: str, hashed: bool) -> None:
    machine = _machine(ways, replacement, inclusion, l3={"hashed_index": hashed})
    context = Context(machine=machine)
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    capacity = SETS * ways + (SECOND_LINES if inclusion == "exclusive" else 0)
    found = third_sets(context, region, CYCLES, SECOND_LINES, capacity, by_age=True)
    assert found.ways == ways, found.reason
    # an index without a hash puts all lines of a set into one of the second cache, which then loses some by itself
    assert found.inclusive[0] in (inclusion == "inclusive", None if not hashed else inclusion == "inclusive")
    assert found.victims_only == (inclusion == "exclusive")


def test_a_second_cache_that_replaces_at_random_must_lose_the_lines_all_the_same() -> None:
    """A line that it kept would make the third cache seem to have a way more."""
    machine = _machine(8, "lru", "exclusive", l2={"replacement": "random"})
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, 9 * SETS, by_age=False)
    assert found.ways == 8, found.reason


def test_prefetchers_bring_lines_that_are_told_apart() -> None:
    """What they bring lies in the same pages, which are used as a whole."""
    prefetchers = (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1"), spec.Streamer(level=2))
    machine = _machine(8, "lru", "neither", prefetchers=prefetchers)
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, 8 * SETS, by_age=True)
    assert found.ways == 8, found.reason


def test_lines_of_the_system_that_stay_in_some_sets_for_good() -> None:
    """A cache of victims gets them back each time; one set in eight is then full with a page less."""
    noise = spec.Noise(interrupt_interval_cycles=3e5, interrupt_cycles=3000.0, interrupt_lines=100)
    machine = _machine(8, "random", "exclusive", noise=noise)
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, 9 * SETS, by_age=True)
    assert found.ways == 8, found.reason
    assert found.victims_only is True


def test_a_capacity_that_was_taken_for_half_is_outgrown() -> None:
    machine = _machine(8, "lru", "inclusive")
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, 0.55 * 8 * SETS, by_age=True)
    assert found.ways == 8, found.reason


def test_unresolved_where_the_clock_moves_in_long_steps() -> None:
    machine = _machine(clock=spec.Clock(step_ticks=160.0))
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, 8 * SETS, by_age=True)
    assert found.ways is None
    assert "clock" in found.reason


def test_unresolved_where_no_walk_overfills_a_set() -> None:
    """There is no third cache of that size."""
    machine = _machine(8, "lru", "inclusive")
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, SECOND_LINES, SETS, by_age=True)
    assert found.ways is None
    assert found.reason


def test_crowded_pages_hold_lines_of_overfull_sets_and_clean_ones_none() -> None:
    machine = _machine()
    context, region, absent = _absent(machine)
    found = crowd(context, region, absent, 8 * SETS, SECOND_LINES)
    assert found is not None
    pages = np.concatenate([found.crowded, found.clean])
    sets = {int(page): {_set_of(machine, int(page) + 64 * n) for n in range(63)} for page in pages}
    used = np.bincount([each for own in sets.values() for each in own], minlength=SETS)
    overfull = set(np.flatnonzero(used > 8).tolist())
    assert all(sets[int(page)] & overfull for page in found.crowded)
    assert not any(sets[int(page)] & overfull for page in found.clean)


def test_nothing_is_told_with_lines_of_the_set_among_those_that_push_others_out() -> None:
    """One page of the class in the ballast takes a way of every set; eight others seem to be one more than it holds."""
    machine = _machine()
    context, region, absent = _absent(machine)
    pages = _pages_of_one_class(machine, region, 9)
    clean = [page for page in _pages(region) if _class(machine, page) != _class(machine, pages[0])][:64]
    for ballast, chosen, sound in (([*clean], pages, True), ([*clean[1:], pages[-1]], pages[:-1], False)):
        lines = np.array(ballast)[:, None] + np.arange(64) * 64
        looks = Looks(Trials(context, region, absent, lines, 1), 12)
        found = critical(looks, [page + np.arange(63) * 64 for page in chosen])
        assert found is not None
        assert unbiased(looks, found, 30.0) is sound


@pytest.mark.parametrize("second_ways", [16, 4])
def test_a_second_cache_that_is_indexed_alike_loses_lines_by_itself(second_ways: int) -> None:
    """Lines of one set of the third cache then lie in one set of the second, whose overflow is no inclusion."""
    machine = _machine(8, "lru", "neither", l2={"sets": 1024, "ways": second_ways}, l3={"hashed_index": False})
    region = machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    found = third_sets(Context(machine=machine), region, CYCLES, 1024 * second_ways, 8 * SETS, by_age=True)
    assert found.ways in (8, None)
    assert found.inclusive[0] is not True


def _absent(machine: SimulatedMachine) -> tuple[Context, Region, Absent]:
    context, region = Context(machine=machine), machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    return context, region, Absent(context, region, Latencies(L1, L3, MEMORY))


def _class(machine: SimulatedMachine, page: int) -> int:
    return min(_set_of(machine, page + 64 * n) for n in range(64))


def _pages_of_one_class(machine: SimulatedMachine, region: Region, count: int) -> list[int]:
    wanted = _class(machine, region.address)
    return [page for page in _pages(region) if _class(machine, page) == wanted][:count]


def _pages(region: Region) -> range:
    return range(region.address, region.address + 2048 * TLB_PAGE_BYTES, TLB_PAGE_BYTES)

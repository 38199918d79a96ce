"""Sizes of caches that replace at random, whose steps are too blunt for a stream, from how they fill; known truth."""

from __future__ import annotations

import pytest
from quiet_machines import PAGE, quiet

from setebench.calibration import Calibration, Levels
from setebench.hierarchy.filling import third_size, with_ways
from setebench.hierarchy.first_level import Geometry
from setebench.infer.filling import Holding
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
PREFETCHERS = (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1"))
REGION = spec.Region(level=1, fills="l2", region_size_bytes=4096, trigger=1, indexed_by="offset")


@pytest.mark.parametrize("inclusion", ["neither", "exclusive", "inclusive"])
@pytest.mark.parametrize("ways", [8, 12])
def test_a_third_cache_of_known_ways(inclusion: str, ways: int) -> None:
    third = {"sets": 4096, "ways": ways, "replacement": "random", "inclusion": inclusion, "hashed_index": True}
    machine = quiet(l2={"sets": 512, "ways": 8}, l3=third, prefetchers=PREFETCHERS)
    context = Context(machine=machine, calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))
    region = machine.allocate(32 << 20, PAGE)
    size, second, exclusive = 4096 * ways * 64, 4096, inclusion == "exclusive"
    held = (1.03 * second, 0.95 * size / 64 + second * exclusive)
    holdings = [Holding(each // 64, float(second * exclusive)) for each in (size * 7 // 8, size, size * 5 // 4)]
    assert third_size(context, region, ways, held, holdings, (True,)) == size


def test_a_region_prefetcher_brings_no_line_that_is_to_be_timed() -> None:
    third = {"sets": 4096, "ways": 8, "replacement": "random", "hashed_index": True}
    machine = quiet(l2={"sets": 512, "ways": 8}, l3=third, prefetchers=(REGION,))
    context = Context(machine=machine, calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))
    region = machine.allocate(32 << 20, PAGE)
    assert third_size(context, region, 8, (4096.0, 32768.0), [Holding(32768, 0.0)], (True,)) == 2 << 20
    assert max(context.evidence["third_filling"]["cycles"]) > 2 * CYCLES["l3"]


@pytest.mark.parametrize("inclusion", ["exclusive", "neither"])
def test_sizes_that_leave_as_much_room_with_the_level_before(inclusion: str) -> None:
    """A cache that only gets what the one before gives up fills later, and holds as much as a larger one in all."""
    third = {"sets": 2048, "ways": 8, "inclusion": inclusion, "hashed_index": True}
    machine = quiet(l2={"sets": 512, "ways": 8}, l3=third)
    context = Context(machine=machine, calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))
    region = machine.allocate(32 << 20, PAGE)
    room = 16384 + 4096 * (inclusion == "exclusive")
    holdings = [Holding(room, 0.0), Holding(room - 4096, 4096.0)]
    assert third_size(context, region, 8, (4096.0, room), holdings, (True, False)) == 1 << 20


def test_a_second_cache_that_replaces_at_random() -> None:
    second = {"sets": 1024, "ways": 8, "replacement": "random", "hashed_index": True}
    machine = quiet(l1={"ways": 4}, l2=second, l3={"sets": 8192, "ways": 12}, prefetchers=PREFETCHERS)
    context, region = Context(machine=machine), machine.allocate(32 << 20, PAGE)
    unknown = Geometry(None, None, "too blunt a step")
    found = with_ways(context, region, unknown, 8000.0, 256, list(CYCLES.values()), {448 << 10, 512 << 10, 640 << 10})
    assert (found.size, found.ways) == (512 << 10, 8)
    assert with_ways(context, region, unknown, 8000.0, 256, list(CYCLES.values())) == unknown

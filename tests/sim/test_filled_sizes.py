"""Sizes of caches that replace at random, whose steps are too blunt for a stream, from how they fill; known truth."""

from __future__ import annotations

import pytest
from quiet_machines import PAGE, quiet

from setebench.hierarchy.filling import third_size, with_ways
from setebench.hierarchy.first_level import Geometry
from setebench.infer.filling import Holding
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
PREFETCHERS = (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1"))


@pytest.mark.parametrize("inclusion", ["neither", "exclusive", "inclusive"])
@pytest.mark.parametrize("ways", [8, 12])
def test_a_third_cache_of_known_ways(inclusion: str, ways: int) -> None:
    third = {"sets": 4096, "ways": ways, "replacement": "random", "inclusion": inclusion, "hashed_index": True}
    machine = quiet(l2={"sets": 512, "ways": 8}, l3=third, prefetchers=PREFETCHERS)
    context = Context(machine=machine, known={"level_cycles": CYCLES})
    region = machine.allocate(32 << 20, PAGE)
    size, second, exclusive = 4096 * ways * 64, 4096, inclusion == "exclusive"
    held = (1.03 * second, 0.95 * size / 64 + second * exclusive)
    holdings = [Holding(each // 64, float(second * exclusive)) for each in (size * 7 // 8, size, size * 5 // 4)]
    assert third_size(context, region, ways, held, holdings, (True,)) == size


def test_a_second_cache_that_replaces_at_random() -> None:
    second = {"sets": 1024, "ways": 8, "replacement": "random", "hashed_index": True}
    machine = quiet(l1={"ways": 4}, l2=second, l3={"sets": 8192, "ways": 12}, prefetchers=PREFETCHERS)
    context, region = Context(machine=machine), machine.allocate(32 << 20, PAGE)
    unknown = Geometry(None, None, "too blunt a step")
    found = with_ways(context, region, unknown, 8000.0, 256, list(CYCLES.values()), {448 << 10, 512 << 10, 640 << 10})
    assert (found.size, found.ways) == (512 << 10, 8)
    assert with_ways(context, region, unknown, 8000.0, 256, list(CYCLES.values())) == unknown

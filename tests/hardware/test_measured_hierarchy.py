"""The hierarchy on this CPU: orderings that hold on any, however busy; and nothing told without an outcome."""

from __future__ import annotations

import numpy as np
import pytest
from setebench.scenarios.hierarchy.faults import FirstTouches
from setebench.scenarios.hierarchy.line_size import line_size

from setebench.experiments.lines.rings import ring_ticks, shuffled
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.scenario import Context


def test_a_flush_takes_the_line_that_the_system_knows(native: NativeMachine, region: Region) -> None:
    found = line_size(Context(machine=native), region)
    if found is None:
        pytest.skip("this machine is too noisy: hits and misses could not be distinguished")
    assert found == native.facts.line_size


def test_lines_spread_over_many_pages_cost_more_than_packed_ones(native: NativeMachine, region: Region) -> None:
    """Pages enough to miss the first TLB of any CPU, lines few enough for its first cache."""
    context = Context(machine=native)
    number = np.arange(200)
    place = number % 64 * native.facts.line_size
    pages = number % (region.size // 4096)
    assert len(set(pages.tolist())) > 128
    spread = shuffled(context, region.address + pages * 4096 + place)
    packed = shuffled(context, region.address + number * native.facts.line_size)
    assert ring_ticks(context, region, packed, 21) < ring_ticks(context, region, spread, 21)


def test_more_lines_in_a_set_than_any_first_cache_has_ways_cost_more(native: NativeMachine, region: Region) -> None:
    context = Context(machine=native)
    number = np.arange(48)
    tight = shuffled(context, region.address + number * 4096)
    loose = shuffled(context, region.address + number * (4096 + native.facts.line_size))
    assert ring_ticks(context, region, loose, 21) < ring_ticks(context, region, tight, 21)


def test_a_first_touch_costs_more_than_a_later_one(native: NativeMachine) -> None:
    found = FirstTouches(Context(machine=native), 4096).cost()
    if found.cycles is None:
        pytest.skip(f"this machine is too noisy: {found.reason}")
    assert found.cycles.value > 0

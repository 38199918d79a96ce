"""How long lines stay, beside prefetchers that learn which lines of a page are used together."""

from __future__ import annotations

import pytest
from quiet_machines import quiet

from setebench.hierarchy.capacities import Capacities
from setebench.scenario import Context
from setebench.sim import spec

MEMORY = 96 << 20
CYCLES = (4.0, 14.0, 46.0, 300.0)
"""Latencies of the quiet machine's levels."""


@pytest.mark.parametrize("indexed_by", ["offset", "ip"])
def test_a_region_prefetcher_brings_no_line_that_is_to_be_timed(indexed_by: str) -> None:
    """What warms the translation lies as far from its target every time: loaded, it would bring the target."""
    region = spec.Region(level=1, fills="l1", region_size_bytes=4096, trigger=1, indexed_by=indexed_by)
    machine = quiet(l3={"sets": 4096}, prefetchers=(region,))
    context = Context(machine=machine)
    capacities = Capacities(context, machine.allocate(MEMORY, 4096), 512, CYCLES)
    second, third = capacities.second(), capacities.third(8192)
    assert second is not None
    assert second.lines.value == pytest.approx(8192, rel=0.06)
    assert third is not None
    assert third.lines.value == pytest.approx(65536, rel=0.08)


def test_a_first_cache_that_ends_all_at_once_spoils_no_fit() -> None:
    """Lines in order fill set by set, so under the oldest-first order the first cache ends like no gamma distribution:
    on a clock of single ticks that misfit was larger than any that is believed."""
    machine = quiet(
        l1={"ways": 10}, l2={"ways": 16, "latency_cycles": 23, "hashed_index": True}, l3={"latency_cycles": 42}
    )
    capacities = Capacities(Context(machine=machine), machine.allocate(MEMORY, 4096), 640, (4.0, 23.0, 42.0, 300.0))
    second = capacities.second()
    assert second is not None
    assert second.steady
    assert second.lines.value == pytest.approx(16384, rel=0.06)

"""Inclusion behind a first cache that replaces at random, by prefetches that pass it, on machines of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L2, L3, MEMORY, PAGE, quiet

from setebench.calibration import Calibration, Levels
from setebench.hierarchy.hinted import inclusive_by_groups, inclusive_by_hints
from setebench.hierarchy.inclusion import all_held
from setebench.hierarchy.page_sets import PageGroup
from setebench.hierarchy.resting import inclusive_at_rest
from setebench.infer.page_sets import Group
from setebench.machine import Region
from setebench.measure.eviction import Congruent
from setebench.scenario import Context
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, simulation

KNOWN = Calibration(levels=Levels(walks={}, cycles={"l1": L1, "l2": L2, "l3": L3, "memory": MEMORY}))
BYTES, SETS, PAGE_LINES = 16 << 20, 512, 64
BALLAST = 16


def hints(t1: str, t2: str, nta: str) -> spec.SoftwarePrefetch:
    """Hints that fill these levels, and are dropped where the first TLB lacks the page."""
    fills = {"t0": "l1", "t1": t1, "t2": t2, "nta": nta}
    return spec.SoftwarePrefetch(hints={name: spec.Hint(fills=level) for name, level in fills.items()})


def machine_of(first: dict[str, object], second: dict[str, object], *fills: str, **changes: object) -> SimulatedMachine:
    """A first cache of 4 ways that replaces at random, before a second one of `SETS` sets."""
    first = {"ways": 4, "replacement": "random"} | first
    return quiet(l1=first, l2={"sets": SETS} | second, software_prefetch=hints(*fills), **changes)


def groups_of(machine: SimulatedMachine, region: Region, ways: int, *, hashed: bool) -> list[PageGroup]:
    """Three groups of one page more than there are ways, with pages of other sets: pages share sets by their frames, as
    the index is documented (`spec.Level.hashed_index`)."""
    arrays, bits = simulation(machine._number).arrays, SETS.bit_length() - 1
    pages = region.address + np.arange(region.size // PAGE) * PAGE
    entries = int(arrays.c[at.C_PAGE_TABLE]) + (pages - at.BASE_ADDRESS) // PAGE
    numbers = (arrays.s[entries] >> at.FRAME_BITS) * PAGE_LINES
    colours = (numbers ^ (numbers >> bits ^ numbers >> 2 * bits if hashed else 0)) % SETS // PAGE_LINES
    ballast = pages[colours > 2][:BALLAST]
    return [PageGroup(pages[colours == one][: ways + 1], ballast, Group(ways + 1, 64.0, 0.0)) for one in range(3)]


def by_groups(machine: SimulatedMachine, ways: int, *, hashed: bool) -> tuple[bool | None, str]:
    region = machine.allocate(BYTES, PAGE)
    groups = groups_of(machine, region, ways, hashed=hashed)
    return inclusive_by_groups(Context(machine=machine, calibration=KNOWN), region, groups, L3 - L2)


@pytest.mark.parametrize(
    ("inclusion", "replacement", "fills"),
    [
        ("inclusive", "tree_plru", ("l2", "l2", "l1")),
        ("inclusive", "random", ("l3", "l1", "l2")),
        ("neither", "tree_plru", ("l3", "l2", "l1")),
        ("neither", "random", ("l2", "l2", "l1")),
    ],
)
def test_lines_of_a_set(inclusion: str, replacement: str, fills: tuple[str, str, str]) -> None:
    """Sixteen ways behind four that replace at random: loads leave none of the lines where they were."""
    machine = machine_of({}, {"ways": 16, "replacement": replacement, "inclusion": inclusion}, *fills)
    region = machine.allocate(BYTES, PAGE)
    group = groups_of(machine, region, 16, hashed=False)[0]
    found = Congruent(group.pages + 320, group.ballast + 320)
    context = Context(machine=machine, calibration=KNOWN)
    assert inclusive_at_rest(context, found, L3 - L2)[0] is None
    assert inclusive_by_hints(context, found, L3 - L2) == (inclusion == "inclusive", "")


@pytest.mark.parametrize("inclusion", ["inclusive", "neither"])
@pytest.mark.parametrize("hashed", [False, True])
def test_pages_that_share_sets(inclusion: str, hashed: bool) -> None:
    """An index that is hashed puts lines at other offsets of the pages into one set."""
    second = {"ways": 8, "replacement": "random", "inclusion": inclusion, "hashed_index": hashed}
    assert by_groups(machine_of({}, second, "l2", "l2", "l1"), 8, hashed=hashed) == (inclusion == "inclusive", "")


@pytest.mark.parametrize("fills", [("l1", "l1", "l1"), ("l3", "l3", "l1")])
def test_hints_that_fill_the_first_cache_or_not_the_second_tell_nothing(fills: tuple[str, str, str]) -> None:
    second = {"ways": 8, "replacement": "random", "inclusion": "inclusive"}
    assert by_groups(machine_of({}, second, *fills), 8, hashed=False)[0] is None


def test_next_lines_dont_hide_what_is_missing() -> None:
    prefetchers = (spec.NextLine(level=2),)
    second = {"ways": 8, "replacement": "random", "inclusion": "neither"}
    machine = machine_of({}, second, "l2", "l2", "l1", prefetchers=prefetchers)
    assert by_groups(machine, 8, hashed=False) == (False, "")


@pytest.mark.parametrize("inclusion", ["inclusive", "exclusive"])
def test_more_lines_of_a_set_than_lines_of_others(inclusion: str) -> None:
    """Sixteen lines push out what a first cache of four ways holds; of a set of 20 ways there are 21."""
    machine = machine_of({}, {"ways": 20, "inclusion": inclusion}, "l1", "l1", "l1")
    region = machine.allocate(BYTES, PAGE)
    group = groups_of(machine, region, 20, hashed=False)[0]
    found = Congruent(group.pages + 320, group.ballast + 320)
    context = Context(machine=machine, calibration=KNOWN)
    assert all_held(context, region, found, L3 - L2) == (inclusion == "exclusive")

"""TLBs of simulated machines: hashed and skewed sets, entries of several pages, stores' own, upper levels of walks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, LINE_BASE, PAGE, cycles, pages_of, quiet, timed

from setebench.machine import Region
from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

HIT, SECOND, WALK = 0, 7, 40


def machine_with(first: dict[str, Any], memory: spec.Memory | None = None, **tlb: Any) -> SimulatedMachine:
    """A machine whose first TLB is so, before a large second one."""
    tables = {
        "l1_4k": spec.TlbTable(**{"entries": 16, "miss_penalty_cycles": SECOND, **first}),
        "l2_4k": spec.TlbTable(entries=1024, ways=8, miss_penalty_cycles=WALK),
    }
    return quiet(tlb=spec.Tlb(**{**tables, **tlb}), memory=memory or spec.Memory())


def penalties(machine: SimulatedMachine, pages: np.ndarray, rounds: int = 3) -> list[int]:
    """What translating each page takes in the last of some rounds over them, lines of all sets of the first cache."""
    where = pages + np.arange(len(pages)) % 64 * 64
    times = cycles(machine, timed(LINE_BASE), {LINE_BASE: np.tile(where, rounds)})
    return [time - L1 for time in times[(rounds - 1) * len(pages) :]]


def every(region: Region, stride: int, count: int) -> np.ndarray:
    return region.address + np.arange(count) * stride * PAGE


@pytest.mark.parametrize(("index", "conflict"), [("linear", True), ("hashed", False), ("skewed", False)])
def test_pages_a_number_of_sets_apart_conflict_only_where_the_set_is_bits(index: str, conflict: bool) -> None:
    """Eight pages 16 apart: one set of sixteen with four ways by low bits, several by a hash."""
    machine = machine_with({"entries": 64, "ways": 4, "index": index})
    region = machine.allocate(16 * 16 * PAGE, PAGE)
    found = penalties(machine, every(region, 16, 8))
    assert set(found) == ({SECOND} if conflict else {HIT})


@pytest.mark.parametrize("index", ["linear", "hashed", "skewed"])
def test_a_table_of_sets_holds_as_many_pages_as_it_has_entries(index: str) -> None:
    """Pages in a row: exactly as many by bits and by a hash of each 256; a skewed one loses some, as it has no sets."""
    machine = machine_with({"entries": 64, "ways": 4, "index": index})
    region = machine.allocate(4 << 20, PAGE)
    begin = (-(region.address // PAGE)) % 256 * PAGE
    few, full, many = (
        penalties(machine, region.address + begin + np.arange(n) * PAGE).count(HIT) for n in (32, 64, 128)
    )
    assert few >= 28
    assert full == 64 if index != "skewed" else 40 < full <= 64
    assert many < 64


def test_skewed_ways_have_hashes_of_their_own() -> None:
    """Pages that conflict in one way of a skewed table don't in the next: no five pages of many lose each other."""
    machine = machine_with({"entries": 64, "ways": 4, "index": "skewed"})
    region = machine.allocate(8 << 20, PAGE)
    rng = np.random.default_rng(1)
    lost = [
        penalties(machine, region.address + rng.choice(2000, 5, replace=False) * PAGE).count(SECOND) for _ in range(60)
    ]
    assert sum(lost) == 0


@pytest.mark.parametrize(
    ("pages_per_entry", "run", "reach"), [(1, 4, 16), (4, 4, 64), (4, 16, 64), (4, 2, 16), (8, 8, 128)]
)
def test_neighbours_share_an_entry_where_their_frames_are_neighbours(
    pages_per_entry: int, run: int, reach: int
) -> None:
    machine = machine_with({"pages_per_entry": pages_per_entry}, memory=spec.Memory(frame_run_pages=run))
    region = machine.allocate(256 * PAGE, PAGE)
    begin = (-(region.address // PAGE)) % 16
    first = pages_of(region, reach, begin)
    assert set(penalties(machine, first)) == {HIT}
    beyond = penalties(machine, pages_of(region, reach + pages_per_entry, begin))
    assert set(beyond[:: max(1, reach // 16)]) == {SECOND}, "the first page of each group brings the others"
    apart = every(region, pages_per_entry, 17)
    assert HIT not in penalties(machine, apart), "pages that don't share one need one each"


def test_stores_have_a_table_of_their_own() -> None:
    small = {"l1_4k_store": spec.TlbTable(entries=4), "l1_2m_store": spec.TlbTable(entries=4)}
    for stores, expected in ((small, {SECOND}), ({}, {HIT})):
        machine = machine_with({}, **stores)
        region = machine.allocate(64 * PAGE, PAGE)
        where = pages_of(region, 8)
        assert set(penalties(machine, where)) == {HIT}, "loads use theirs"
        store = Probe().fence("m").start(bracket="mfence", dither=False).store(LINE_BASE).stop(bracket="mfence")
        ticks = machine.run(store, {LINE_BASE: np.tile(where, 4)})[24:, 0]
        assert {int(each) - 20 - L1 for each in ticks} == expected
        assert set(penalties(machine, where)) == {HIT}, "stores take nothing from them"


def test_walks_take_longer_where_upper_levels_are_not_at_hand() -> None:
    more, entries = 33, 4
    second = spec.TlbTable(entries=16, ways=4, miss_penalty_cycles=WALK)
    tlb = {"l2_4k": second, "walk_cache_entries": entries, "walk_cache_miss_cycles": more}
    machine = machine_with({}, **tlb)
    region = machine.allocate(12 * HUGE, PAGE)
    for pieces, expected in ((entries, WALK), (entries + 1, WALK + more)):
        pages = region.address + np.array([piece * HUGE + page * PAGE for page in range(12) for piece in range(pieces)])
        assert set(penalties(machine, pages)) == {expected}
    everywhere = machine_with({}, l2_4k=second)
    region = everywhere.allocate(12 * HUGE, PAGE)
    assert set(penalties(everywhere, region.address + np.arange(12 * 8) * 64 * PAGE)) == {WALK}

"""What lies behind private caches: third levels for victims, with a directory, a cache of memory, open rows; ways
that are predicted, and lines that go by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, L3, LINE, LINE_BASE, MEMORY, PAGE, PAGE_BASE, cycles, levels, quiet, timed

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import cached_in, counters

SMALL: dict[str, Any] = {"l1": {"sets": 1, "ways": 2}, "l2": {"sets": 64, "ways": 2}}
FOURTH = 120


@pytest.mark.parametrize(
    ("inclusion", "after_load", "after_eviction", "after_hit"),
    [
        ("neither", {1, 2, 3}, {3}, {1, 2, 3}),
        ("exclusive", {1, 2}, {3}, {1, 2}),
        ("victim", {1, 2}, {3}, {1, 2, 3}),
    ],
)
def test_who_holds_a_line(inclusion: str, after_load: set[int], after_eviction: set[int], after_hit: set[int]) -> None:
    machine = quiet(**SMALL, l3={"inclusion": inclusion})
    region = machine.allocate(HUGE, HUGE)
    first = {LINE_BASE: [region.address]}
    others = region.address + np.arange(1, 5) * 64 * LINE
    assert cycles(machine, timed(LINE_BASE), first)[0] >= MEMORY
    assert cached_in(machine, region.address) == after_load
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: others})
    assert cached_in(machine, region.address) == after_eviction
    assert cycles(machine, timed(LINE_BASE), first) == [L3]
    assert cached_in(machine, region.address) == after_hit


def test_a_full_directory_takes_lines_out_of_private_caches() -> None:
    """Twelve lines of one set of it, and of twelve sets of the caches: two of them keep their places in it."""
    for directory, kept in (({"directory_sets": 4096, "directory_ways": 2}, 2), ({}, 12)):
        machine = quiet(l3={"inclusion": "victim", **directory})
        region = machine.allocate(32 * HUGE, HUGE)
        # hashed by 12 bits of the line number: lines 2 MiB apart may fall anywhere, so that set is looked for
        lines = _of_one_directory_set(machine, region.address, 12)
        machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: lines})
        held = [bool(cached_in(machine, int(line)) & {1, 2}) for line in lines]
        assert sum(held) == kept and all(held[-kept:])
        assert len(set(lines % 4096)) > 1, "not one set of the first cache"


def _of_one_directory_set(machine: Any, begin: int, count: int) -> np.ndarray:
    from setebench.sim import layout as at
    from setebench.sim.machine import simulation

    arrays = simulation(machine._number).arrays
    first = (begin - at.BASE_ADDRESS) // LINE
    numbers = np.arange(32 * HUGE // LINE)
    frames = arrays.s[int(arrays.c[at.C_PAGE_TABLE]) + (first + numbers) // 64] >> at.FRAME_BITS
    physical = frames * 64 + numbers % 64
    sets = (physical ^ physical >> 12 ^ physical >> 24) & 4095
    chosen = numbers[sets == sets[0]]
    return begin + np.random.default_rng(1).choice(chosen, count, replace=False) * LINE


def test_modified_lines_that_a_directory_drops_are_not_lost() -> None:
    machine = quiet(l3={"inclusion": "neither", "directory_sets": 4096, "directory_ways": 2})
    region = machine.allocate(32 * HUGE, HUGE)
    lines = _of_one_directory_set(machine, region.address, 6)
    machine.run(Probe().store(LINE_BASE).fence("m"), {LINE_BASE: lines})
    assert [cached_in(machine, int(line)) & {1, 2} for line in lines[:4]] == [set()] * 4
    machine.run(Probe().flush(LINE_BASE).fence("m"), {LINE_BASE: lines})
    assert counters(machine)["memory_writes"] == 6


def four_levels() -> Any:
    fourth = spec.Level(sets=256, ways=16, latency_cycles=FOURTH)
    first, second, third = levels(**SMALL, l3={"sets": 64, "ways": 4})
    return quiet(levels=(first, second, third, fourth))


def test_a_fourth_level_keeps_what_memory_gave() -> None:
    machine = four_levels()
    region = machine.allocate(4 * HUGE, HUGE)
    lines = region.address + np.arange(1024) * LINE
    assert set(cycles(machine, timed(LINE_BASE), {LINE_BASE: lines})[1:]) == {MEMORY}
    assert set(cycles(machine, timed(LINE_BASE), {LINE_BASE: lines})) == {FOURTH}
    seen = counters(machine)
    assert seen["memory_reads"] == 1024
    machine.run(Probe().flush(LINE_BASE).fence(), {LINE_BASE: lines})
    assert set(cycles(machine, timed(LINE_BASE), {LINE_BASE: lines})) == {MEMORY}
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: region.address + np.arange(8192) * LINE})
    assert set(cycles(machine, timed(LINE_BASE), {LINE_BASE: lines[:8]})) == {MEMORY}, "4,096 lines fit"


def test_modified_lines_rest_in_the_fourth_level() -> None:
    machine = four_levels()
    region = machine.allocate(4 * HUGE, HUGE)
    lines = region.address + np.arange(2048) * LINE
    machine.run(Probe().store(LINE_BASE).fence("m"), {LINE_BASE: lines})
    assert counters(machine)["memory_writes"] == 0
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: region.address + np.arange(4096, 20000) * LINE})
    assert counters(machine)["memory_writes"] == 2048


def test_an_open_row_answers_sooner() -> None:
    saves = 70
    memory = spec.Memory(latency_cycles=MEMORY, banks=16, row_bytes=1024, row_hit_saves_cycles=saves)
    machine = quiet(memory=memory)
    region = machine.allocate(8 * HUGE, HUGE)
    one = np.full(4, region.address)
    again = cycles(machine, Probe().flush(LINE_BASE) + timed(LINE_BASE), {LINE_BASE: one})
    assert again == [MEMORY] + [MEMORY - saves] * 3
    scattered = region.address + np.random.default_rng(2).integers(0, 8 * HUGE // LINE, 400) * LINE
    times = cycles(machine, Probe().flush(LINE_BASE) + timed(LINE_BASE), {LINE_BASE: scattered})
    assert set(times) <= {MEMORY, MEMORY - saves}
    assert times.count(MEMORY) > 350, "rows of 16 KiB in all, of 16 MiB"
    in_a_row = region.address + np.arange(512) * LINE
    times = cycles(machine, Probe().flush(LINE_BASE) + timed(LINE_BASE), {LINE_BASE: in_a_row})
    assert times.count(MEMORY - saves) > 440, "sixteen lines of each row"


# -- level 1 finds a line's way by a hash of its virtual page --------------------------------------------------------


BITS, MORE = 8, 7
SAME_TAG = PAGE * ((1 << BITS) | 1)
"""Folding both halves of the page number gives the same tag as page 0's."""

OTHER_TAG = PAGE


def latencies(distance: int, times: int = 20, **level: Any) -> list[int]:
    """Of loads that turn between two lines of a set, so far apart."""
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE, **level})
    region = machine.allocate(2 * HUGE, HUGE)
    turns = [region.address + (turn % 2) * distance for turn in range(times)]
    return cycles(machine, timed(PAGE_BASE), {PAGE_BASE: turns})[2:]


def test_lines_with_one_tag_mispredict_each_other() -> None:
    assert set(latencies(SAME_TAG)) == {L1 + MORE}
    assert set(latencies(OTHER_TAG)) == {L1}
    assert set(latencies(SAME_TAG + LINE)) == {L1}, "another set"


def test_tags_begin_above_the_bits_of_the_set() -> None:
    """With 32 sets two lines of a page share one, and their tags differ in the lowest bit."""
    half = 32 * LINE
    assert set(latencies(half, sets=32)) == {L1}
    assert set(latencies(half * ((1 << BITS) | 1), sets=32)) == {L1 + MORE}


@pytest.mark.parametrize("level", [{"way_tag_bits": 0}, {"mispredicted_way_cycles": 0}])
def test_without_prediction_nothing_is_mispredicted(level: dict[str, int]) -> None:
    assert set(latencies(SAME_TAG, **level)) == {L1}


def test_the_latest_used_line_is_found() -> None:
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE})
    region = machine.allocate(2 * HUGE, HUGE)
    near, far = region.address, region.address + SAME_TAG
    turns = [near, far, far, far, near, near]
    assert cycles(machine, timed(PAGE_BASE), {PAGE_BASE: turns})[2:] == [L1, L1, L1 + MORE, L1]


def test_stores_wait_for_no_way() -> None:
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE})
    region = machine.allocate(2 * HUGE, HUGE)
    store = Probe().fence().start(dither=False).store(PAGE_BASE).fence().stop()
    same = {PAGE_BASE: [region.address + (turn % 2) * SAME_TAG for turn in range(10)]}
    other = {PAGE_BASE: [region.address + PAGE * 8 + (turn % 2) * OTHER_TAG for turn in range(10)]}
    assert cycles(machine, store, same)[2:] == cycles(machine, store, other)[2:]


# -- lines that leave private caches by themselves, because others need their entries of a directory -----------------


LINES, WAIT = 256, 100_000


def kept(interval: float, share: float, waits: int = 1) -> list[int]:
    """Latencies of lines that were loaded before so many waits of 100,000 cycles."""
    machine = quiet(noise=spec.Noise(loss_interval_cycles=interval, loss_share=share))
    region = machine.allocate(HUGE, HUGE)
    where = region.address + np.arange(LINES) * LINE
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: where})
    machine.run(Probe().wait(WAIT), waits)
    return cycles(machine, timed(LINE_BASE), {LINE_BASE: where})


def test_lines_go_to_memory_at_the_rate_of_the_bursts() -> None:
    assert kept(0.0, 0.5).count(L1) == LINES
    few, many = (kept(WAIT / 20, share) for share in (0.01, 0.1))
    assert 0.6 * LINES < few.count(L1) < 0.95 * LINES, "exp(-20 * 0.01) of them, and fewer while they are read"
    assert many.count(L1) < 0.35 * LINES, "exp(-2)"
    assert set(few) <= {L1, MEMORY}, "no cache has what left"


def test_a_long_rest_takes_nearly_all() -> None:
    assert kept(1000.0, 0.05, waits=20).count(L1) < 0.15 * LINES


def test_modified_lines_are_written_to_memory() -> None:
    machine = quiet(noise=spec.Noise(loss_interval_cycles=WAIT / 10, loss_share=1.0))
    region = machine.allocate(HUGE, HUGE)
    where = region.address + np.arange(LINES) * LINE
    machine.run(Probe().store(LINE_BASE).fence(), {LINE_BASE: where})
    machine.run(Probe().wait(WAIT), 20)
    gone = [address for address in where.tolist() if not cached_in(machine, address)]
    assert len(gone) > 0.9 * LINES
    assert counters(machine)["memory_writes"] >= len(gone)

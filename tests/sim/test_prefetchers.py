"""Every kind of hardware prefetcher alone, seen from outside: which lines are in a cache after some accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from quiet_machines import HUGE, LINE, MEMORY, PAGE, PAGE_BASE, cycles, fetched, quiet, timed

from setebench.machine import Region
from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import SimulatedMachine

KNC_EDGES = (1, 2, 2, 1)
PAPER = spec.Streamer(
    level=2,
    trained_by=("load", "store"),
    trigger=3,
    trigger_at_page_edge=KNC_EDGES,
    degree=4,
    ramp=(2, 3),
    max_distance=16,
    streams=16,
    when_full="stalls",
)


def with_prefetchers(*prefetchers: Any, **changes: Any) -> SimulatedMachine:
    changes.setdefault("l3", None)
    return quiet(prefetchers=prefetchers, **changes)


def loads(lines: Sequence[int], ip: str | None = None) -> Probe:
    """Loads of lines of a page, each done before the next."""
    probe = Probe()
    for line in lines:
        probe = probe.load(PAGE_BASE + line * LINE, ip=ip).fence().wait(2000).fence()
    return probe


def near(machine: SimulatedMachine, train: Probe, touched: Sequence[int], lines: range = range(64)) -> set[int]:
    """Lines that training brought in beside those it touched."""
    return fetched(machine, train, [line for line in lines if line not in touched])


def stepwise(machine: SimulatedMachine, region: Region, lines: Sequence[int]) -> list[int]:
    """How many lines level 2's prefetchers fetch at each of these accesses."""
    fresh = []
    for line in lines:
        before = counters(machine)["l2_fill_prefetched"]
        machine.run(Probe().load(PAGE_BASE + line * LINE).fence().wait(2000), {PAGE_BASE: [region.address]})
        fresh.append(counters(machine)["l2_fill_prefetched"] - before)
    return fresh


def test_streamer_reproduces_figure_7() -> None:
    machine = with_prefetchers(PAPER)
    region = machine.allocate(PAGE, PAGE)
    batches = stepwise(machine, region, range(64))
    triggering = [line for line, batch in enumerate(batches) if batch]
    assert triggering == [0, 1, 2, 3, 4, 5, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47]
    assert [batches[line] for line in triggering] == [2, 3, *[4] * 14, 2]
    seen = counters(machine)
    assert seen["l2_fill"] - seen["l2_fill_prefetched"] == 1


BOTH_WAYS = spec.Streamer(level=2, trigger=3, degree=2, max_distance=20, streams=32, streams_per_page=2)
BY_LEVEL_ONE = spec.Streamer(
    level=2,
    trigger=5,
    trigger_by_l1_prefetcher=1,
    degree=2,
    max_distance=20,
    streams=32,
    streams_per_page=2,
    trained_by=("load", "store", "prefetch", "l1_prefetcher"),
)
"""Sandy Bridge's: five misses of loads, or one that a level-1 prefetcher sent."""

NEXT_LINE = spec.NextLine(level=1, fills="l1", trigger=3)
NEXT_FOUR = spec.NextLine(level=2, degree=4)
PAIR, UP_DOWN = spec.LinePair(level=2), spec.UpDown(level=2)
STRIDE = spec.Stride(level=1, fills="l1", trigger=3, max_stride_bytes=2048, entries=8, ip_bits=8)
FAR_STRIDE = spec.Stride(level=1, fills="l1", trigger=3, degree=2, max_distance=4, max_stride_bytes=128)
BROUGHT: list[tuple[tuple[spec.AnyPrefetcher, ...], list[int], set[int]]] = [
    ((PAPER,), [20, 21], set()),
    ((PAPER,), [20, 21, 22], {23, 24}),
    ((PAPER,), [22, 21, 20], {19, 18}),
    ((PAPER,), [10, 14, 20], {21, 22}),
    ((PAPER,), [0], {1, 2}),
    ((PAPER,), [1, 2], {3, 4}),
    ((PAPER,), [62, 61], {60, 59}),
    ((PAPER,), [10, 40, 11, 39, 12, 38], set()),  # one stream per page
    ((BOTH_WAYS,), [10, 40, 11, 39, 12, 38], {13, 14, 36, 37}),
    ((BY_LEVEL_ONE,), [20, 21, 22, 23, 24], {25, 26}),
    ((NEXT_LINE,), [30, 30, 30], {31}),
    ((NEXT_FOUR,), [61], {62, 63}),
    ((BY_LEVEL_ONE, NEXT_LINE), [30, 30, 30], {31, 32, 33}),
    ((PAIR,), [30], {31}),
    ((STRIDE,), [10, 15, 20], {25}),
    ((STRIDE,), [10, 42], set()),
    ((FAR_STRIDE,), [10, 12, 14], {16, 18}),
    ((FAR_STRIDE,), [10, 12, 14, 16, 18], {20, 22, 24, 26}),
    ((FAR_STRIDE,), [10, 12, 15], set()),
    ((UP_DOWN,), [30], {31}),
    ((UP_DOWN,), [30, 20], {31, 19}),
]


@pytest.mark.parametrize(("prefetchers", "lines", "expected"), BROUGHT)
def test_lines_that_accesses_bring(
    prefetchers: tuple[spec.AnyPrefetcher, ...], lines: list[int], expected: set[int]
) -> None:
    """Of a page, by accesses of one instruction."""
    assert near(with_prefetchers(*prefetchers), loads(lines, ip="A"), lines) == expected


@pytest.mark.parametrize(
    ("page_size", "in_2m", "expected"), [(PAGE, True, False), (HUGE, True, True), (HUGE, False, False)]
)
def test_streamer_at_the_page_boundary(page_size: int, in_2m: bool, expected: bool) -> None:
    streamer = spec.Streamer(level=2, trigger=3, degree=4, max_distance=16, crosses_4k_in_2m=in_2m)
    machine = with_prefetchers(streamer)
    region = machine.allocate(HUGE, page_size)
    probe = loads([60, 61, 62]).fence() + timed(PAGE_BASE + 65 * LINE)
    assert (cycles(machine, probe, {PAGE_BASE: [region.address + 5 * PAGE]})[0] < MEMORY) == expected


def test_hardware_prefetches_take_entries_of_their_own_limit() -> None:
    streamer = spec.Streamer(level=2, trigger=3, degree=8, max_distance=32, when_full="drops")
    machine = with_prefetchers(streamer, l2={"mshr_entries": 16, "mshr_hardware_limit": 3})
    assert near(machine, loads([20, 21, 22]), [20, 21, 22]) == {23, 24, 25}


@pytest.mark.parametrize("shared", [True, False])
def test_smt_threads_may_train_one_stream(shared: bool) -> None:
    streamer = spec.Streamer(level=2, trigger=3, degree=4, max_distance=16, shared_by_smt=shared)
    machine = with_prefetchers(streamer, core=spec.Core(threads_per_core=3))
    region = machine.allocate(HUGE, HUGE)
    where = {PAGE_BASE: [region.address]}
    for cpu, line in enumerate((20, 21, 22)):
        machine.run(Probe().load(PAGE_BASE + line * LINE).fence().wait(1000), where, cpu=cpu)
    assert (cycles(machine, timed(PAGE_BASE + 24 * LINE), where, cpu=0)[0] < MEMORY) == shared


@pytest.mark.parametrize("line", [14, 16, 24])
def test_a_software_prefetch_of_lines_that_the_stream_wants_ends_it(line: int) -> None:
    """Lines 10 to 12 start a stream, which has fetched up to 16 and would fetch on at line 13."""
    streamer = spec.Streamer(level=2, trigger=3, degree=4, max_distance=16, silenced_by_software=True)
    silenced = Probe().prefetch(PAGE_BASE + line * LINE, "t1").fence().wait(2000)
    machine = with_prefetchers(streamer)
    assert near(machine, loads([10, 11, 12]) + silenced + loads([13]), [10, 11, 12, 13]) == {14, 15, 16, line}

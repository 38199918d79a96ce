"""The hierarchy's parts on simulated machines of known truth, and the whole scenario on two presets."""

from __future__ import annotations

from functools import cache

import pytest
from quiet_machines import quiet
from small_presets import small_file

from setebench.hierarchy.capacities import Capacities
from setebench.hierarchy.cores import Transfers
from setebench.hierarchy.faults import FirstTouches
from setebench.hierarchy.filling import with_ways
from setebench.hierarchy.findings import walked_finding
from setebench.hierarchy.first_level import Geometry, line_size
from setebench.hierarchy.inclusion import inclusive
from setebench.hierarchy.kept import first_in_second, second_in_third
from setebench.hierarchy.outer import Outer
from setebench.hierarchy.outer_levels import way_bytes
from setebench.hierarchy.private_walk import private_walk
from setebench.infer.inclusion import SPARED, UNKEPT, agreed
from setebench.judge import Judgement, Verdict
from setebench.measure.eviction import Sets
from setebench.measure.page_classes import PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context
from setebench.score import Task, judge_all, perform
from setebench.sim import spec

pytestmark = pytest.mark.long(90)

MEMORY = 32 << 20
CLOSE = Latencies(4.0, 14.0, 50.0)
"""Levels of the quiet machine."""


@pytest.mark.parametrize("line", [32, 64, 128])
def test_line_size(line: int) -> None:
    machine = quiet(line_size_bytes=line)
    assert line_size(Context(machine=machine), machine.allocate(MEMORY, 4096)) == line


def test_a_walk_that_memory_has_no_room_for_is_none() -> None:
    machine = quiet(core=spec.Core(cores=2))
    region = machine.allocate(MEMORY, 4096)
    outer = {"l2": Outer(Geometry(None, None, most_bytes=MEMORY // 8), "")}
    assert not len(private_walk(Context(machine=machine), region, outer))


@pytest.mark.parametrize(
    ("first_ways", "second"),
    [
        (8, {"ways": 8, "inclusion": "inclusive"}),
        (8, {"ways": 4, "inclusion": "neither"}),
        (4, {"ways": 16, "inclusion": "exclusive"}),
        (8, {"ways": 16, "inclusion": "neither", "replacement": "random"}),
    ],
)
def test_lines_of_one_set_of_the_second_cache(first_ways: int, second: dict[str, object]) -> None:
    """Also where the second cache has fewer ways than the first, so that its evictions hide behind it."""
    machine = quiet(l1={"ways": first_ways}, l2=second)
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, first_ways, CLOSE).find()
    assert found is not None
    assert found.ways == second["ways"]
    told, _why = inclusive(context, region, found, CLOSE.beyond - CLOSE.own)
    assert told in ({second["inclusion"] == "inclusive"} | ({None} if second.get("replacement") else set()))


def test_rare_evictions_are_not_left_out_as_stalls() -> None:
    """Memory so far behind the second cache that one load in sixteen from there looks like an interrupt."""
    levels = {"l1": {"ways": 12}, "l2": {"ways": 16, "inclusion": "inclusive"}, "l3": None}
    machine = quiet(memory=spec.Memory(latency_cycles=460.0), **levels)
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, 12, Latencies(4.0, 14.0, 460.0)).find()
    assert found is not None
    assert inclusive(context, region, found, 446.0) == (True, "")


@pytest.mark.parametrize(
    ("second", "prefetchers"),
    [
        ({"sets": 1024, "ways": 8, "hashed_index": True}, ()),
        ({"sets": 1024, "ways": 8, "inclusion": "exclusive"}, (spec.LinePair(level=2),)),
        ({"sets": 1024, "ways": 16, "hashed_index": False}, (spec.NextLine(level=1, fills="l1"),)),
        ({"sets": 512, "ways": 8, "replacement": "tree_plru"}, ()),
    ],
)
def test_size_and_ways_of_the_second_cache(second: dict[str, object], prefetchers: tuple[spec.Prefetcher, ...]) -> None:
    """Also where all address bits are hashed into the index, and where prefetchers bring further lines."""
    # with other seeds a hashed index leaves the number of classes open now and then: it is counted to a quarter
    machine = quiet(4, l1={"ways": 8}, l2=second, prefetchers=prefetchers)
    context = Context(machine=machine, seed=4)
    region = machine.allocate(4 * MEMORY, 4096)
    found = Sets(context, region, 8, CLOSE).find()
    assert found is not None
    assert found.ways == second["ways"]
    classes = PageClasses(context, region, 8, CLOSE, found)
    assert classes.sure()
    assert way_bytes(classes.count()) == second["sets"] * 64  # type: ignore[operator]


def test_a_region_prefetcher_brings_no_lines_of_an_overfull_set_back_in() -> None:
    """It learns what visits of a page touch together. Under the order of use all lines of an overfull set are gone."""
    region_prefetcher = spec.Region(level=1, fills="l2", region_size_bytes=4096, active_regions=8, entries=32)
    second = {"sets": 512, "inclusion": "inclusive"}
    machine = quiet(l1={"replacement": "tree_plru"}, l2=second, prefetchers=(region_prefetcher,))
    context = Context(machine=machine)
    region = machine.allocate(4 * MEMORY, 4096)
    found = Sets(context, region, 8, CLOSE).find()
    assert found is not None
    classes = PageClasses(context, region, 8, CLOSE, found)
    assert classes.sure()
    assert classes.gone(found.lines[-1:]) > found.ways - 1


GUEST_CLOCK = spec.Clock(step_ticks=36.0, brackets={"lfence": 20, "mfence": 20, "cpuid": 20})
"""A clock so coarse that no lines of one set can be found of a hashed cache in reasonable time."""


@pytest.mark.parametrize(
    ("second", "prefetchers"),
    [
        ({"ways": 8, "hashed_index": True}, ()),
        ({"ways": 16, "hashed_index": True, "inclusion": "exclusive"}, (spec.LinePair(level=2),)),
        ({"ways": 8, "hashed_index": True, "replacement": "random"}, ()),
        ({"ways": 8, "inclusion": "inclusive"}, (spec.Streamer(level=2),)),
    ],
)
def test_capacity_without_sets(second: dict[str, object], prefetchers: tuple[spec.Prefetcher, ...]) -> None:
    """What stays of a stream, in the first two caches together: those of the first count where the second is exclusive
    of it. Random replacement tells a bound only: its step could be that of a cache that keeps some lines for long."""
    l1, third = {"ways": 8}, {"sets": 8192, "ways": 12}
    machine = quiet(l1=l1, l2=second, l3=third, prefetchers=prefetchers, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    found = Capacities(context, machine.allocate(4 * MEMORY, 4096), 512, (4.0, 14.0, 46.0, 300.0)).second()
    assert found is not None
    lines = 1024 * second["ways"] + (512 if second.get("inclusion") == "exclusive" else 0)  # type: ignore[operator]
    assert found.lines.value == pytest.approx(lines, rel=0.08)
    assert found.lines.low < lines < found.lines.high
    assert found.steady == (second.get("replacement") != "random")
    assert found.blunt != found.steady


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        ({"ways": 8}, {"ways": 16, "hashed_index": True, "replacement": "tree_plru", "inclusion": "exclusive"}, True),
        ({"ways": 4, "replacement": "random"}, {"ways": 8, "sets": 2048, "replacement": "random"}, True),
        ({"ways": 8}, {"ways": 16, "hashed_index": True}, False),
    ],
)
def test_ways_without_sets(first: dict[str, object], second: dict[str, object], known: bool) -> None:
    """From how the empty cache fills, under any replacement and index; not where the size is not known."""
    prefetchers = (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1"))
    machine = quiet(l1=first, l2=second, l3={"sets": 8192, "ways": 12}, prefetchers=prefetchers, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    lines = int(second.get("sets", 1024) * second["ways"])  # type: ignore[operator]
    own = Geometry(None, None, "no sets", whole_bytes=64 * lines if known else None)
    region = machine.allocate(8 * MEMORY, 4096)
    found = with_ways(context, region, own, 1.04 * lines, 64 * int(first["ways"]), [4.0, 14.0, 46.0, 300.0])  # type: ignore[call-overload]
    assert found.ways == (second["ways"] if known else None)


def test_a_neighbour_that_takes_a_part_of_a_cache_leaves_its_ways_open() -> None:
    """A smaller cache seems to fill then; here it is smaller, and taken for more."""
    machine = quiet(l1={"ways": 4}, l2={"ways": 8, "hashed_index": True}, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    own = Geometry(None, None, "no sets", whole_bytes=64 * 10240)
    found = with_ways(context, machine.allocate(8 * MEMORY, 4096), own, 9000.0, 256, [4.0, 14.0, 46.0, 300.0])
    assert found.ways is None
    assert "neighbour" in found.ways_reason


def test_a_third_cache_that_nobody_found_leaves_a_bound() -> None:
    machine = quiet(l1={"ways": 8}, l3={"sets": 4096, "ways": 16, "hashed_index": True}, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    found = Capacities(context, machine.allocate(4 * MEMORY, 4096), 512, (4.0, 14.0, 300.0)).second()
    assert found is not None
    assert found.lines.low < 8192 < found.lines.high
    assert not found.steady


def test_capacity_of_the_third_cache() -> None:
    machine = quiet(l1={"ways": 8}, l3={"sets": 8192, "ways": 12, "hashed_index": True}, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    found = Capacities(context, machine.allocate(4 * MEMORY, 4096), 512, (4.0, 14.0, 46.0, 300.0)).third(8192)
    assert found is not None
    assert found.lines.value == pytest.approx(8192 * 12, rel=0.06)
    assert found.lines.low < 8192 * 12 < found.lines.high


@pytest.mark.parametrize("inclusion", ["inclusive", "exclusive", "neither"])
def test_inclusion_without_sets(inclusion: str) -> None:
    shape = {"l2": {"inclusion": inclusion, "hashed_index": True}, "l3": {"sets": 4096, "inclusion": inclusion}}
    machine = quiet(l1={"ways": 8}, clock=GUEST_CLOCK, **shape)
    context = Context(machine=machine)
    region, cycles = machine.allocate(4 * MEMORY, 4096), [4.0, 14.0, 46.0, 300.0]
    wanted = {"inclusive": (True, ""), "exclusive": (None, SPARED), "neither": (False, "")}[inclusion]
    assert first_in_second(context, region, 512, 8192.0, cycles) == wanted
    looks = [second_in_third(context, region, 8192.0, 65536.0, cycles, by_age=True, often=often) for often in (1, 2)]
    assert looks[0][:2] == looks[1][:2] == agreed(*looks)[:2] == wanted


def test_lines_that_an_inclusive_third_cache_takes_are_not_the_second_one_s_doing() -> None:
    """It is but three times as large as the second, which takes none, and loses lines in use to the same stream."""
    levels = {"l2": {"ways": 20, "sets": 2048, "inclusion": "exclusive", "hashed_index": True}}
    third = {"sets": 8192, "ways": 16, "inclusion": "inclusive"}
    machine = quiet(l1={"ways": 8}, l3=third, clock=GUEST_CLOCK, **levels)
    region = machine.allocate(4 * MEMORY, 4096)
    answer, reason = first_in_second(Context(machine=machine), region, 512, 40960.0, [4.0, 14.0, 46.0, 300.0])
    assert answer is None
    assert reason


def test_a_second_cache_that_gives_up_lines_in_use_tells_no_inclusion() -> None:
    """It loses them as often as an inclusive third one would take them: once after each time that the third has."""
    third = {"sets": 4096, "replacement": "random", "inclusion": "neither"}
    machine = quiet(l1={"ways": 4}, l2={"replacement": "random", "hashed_index": True}, l3=third)
    context = Context(machine=machine)
    region, cycles = machine.allocate(4 * MEMORY, 4096), [4.0, 14.0, 46.0, 300.0]
    told = second_in_third(context, region, 8192.0, 65536.0, cycles, by_age=False)
    assert told.answer is None
    assert told.reason == UNKEPT


def test_too_little_memory_for_a_stream_tells_nothing() -> None:
    machine = quiet(l1={"ways": 8}, clock=GUEST_CLOCK)
    context = Context(machine=machine)
    region, cycles = machine.allocate(8 << 20, 4096), [4.0, 14.0, 46.0, 300.0]
    assert Capacities(context, region, 512, cycles).third(32768.0) is None
    assert second_in_third(context, region, 8192.0, 65536.0, cycles, by_age=True)[0] is None


@pytest.mark.parametrize(("most_bytes", "kept"), [(1 << 20, False), (1 << 16, True)])
def test_a_shared_line_that_the_reader_lost(most_bytes: int, kept: bool) -> None:
    """Two cores, and a second cache of 512 KiB that replaces at random, of which a bound is known, right or not."""
    machine = quiet(l1={"ways": 8}, l2={"replacement": "random"}, l3={"sets": 8192}, core=spec.Core(cores=2))
    context = Context(machine=machine)
    region = machine.allocate(4 * MEMORY, 4096)
    outer = {"l2": Outer(Geometry(None, None, most_bytes=most_bytes), "")}
    estimate, share = Transfers(context, region, private_walk(context, region, outer)).cycles(0, 1, "shared")
    cycles = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
    assert (walked_finding("x", estimate, cycles) is not None) == kept
    if not kept:
        assert share > 0.8
        assert estimate.value == pytest.approx(46.0, abs=1.0)


def test_a_shared_line_behind_a_second_cache_of_known_size_that_replaces_at_random() -> None:
    """A walk of two and a half capacities leaves one line in twelve there, and a coarse clock tells none of them."""
    second = {"ways": 16, "replacement": "random"}
    clock = spec.Clock(step_ticks=46.0, brackets={"lfence": 20, "mfence": 20, "cpuid": 20})
    machine = quiet(l1={"ways": 8}, l2=second, l3={"sets": 8192}, core=spec.Core(cores=2), clock=clock)
    context = Context(machine=machine)
    region = machine.allocate(4 * MEMORY, 4096)
    outer = {"l2": Outer(Geometry(16, None, whole_bytes=1 << 20), "", blunt=True)}
    estimate, _ = Transfers(context, region, private_walk(context, region, outer)).cycles(0, 1, "shared")
    assert estimate.value == pytest.approx(46.0, abs=1.5)


def test_page_faults_beyond_the_reach_of_a_large_tlb() -> None:
    """Later touches must miss the TLB as the first ones do, or a fault seems dearer by a page walk."""
    tables = spec.Tlb(l2_4k=spec.TlbTable(entries=8192, ways=8, miss_penalty_cycles=100.0))
    machine = quiet(tlb=tables, memory=spec.Memory(bytes=1 << 30, page_fault_4k_cycles=2000.0))
    found = FirstTouches(Context(machine=machine), 4096).told()
    assert found.cycles is not None
    assert found.cycles.low < 2000.0 < found.cycles.high


SMALLER = {"plain": (1, 8), "zen-like": (4, 16)}
"""By so much the second and the third level are smaller than shipped."""


@cache
def judged(machine: str) -> dict[str, Judgement]:
    answer = perform(
        Task(machine=small_file(machine, *SMALLER[machine]), scenarios=("hierarchy",), noise="quiet", seed=1, fast=True)
    )
    assert answer.failures == []
    prefixes = ("cache.", "tlb.", "page_fault.", "latency.core_to_core.", "latency.smt.")
    return {judgement.parameter: judgement for judgement in judge_all([answer], prefixes)}


WANTED = {
    "plain": ("cache.l1.size", "cache.l1.ways", "cache.l2.size", "cache.l2.ways", "cache.l1.inclusive_in_l2"),
    "zen-like": ("cache.l1.size", "tlb.l1.entries.4k", "tlb.l1.entries.2m", "tlb.l2.miss_penalty.4k"),
}


@pytest.mark.parametrize("machine", WANTED)
def test_presets(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the third cache's sets, which aren't asked for here, would take minutes of simulation
    monkeypatch.setattr("setebench.measure.trials.MOST_LOADS", 6_000_000)
    found = judged(machine)
    assert [j for j in found.values() if j.verdict is Verdict.WRONG] == []
    assert {name: found[name].verdict for name in WANTED[machine]} == dict.fromkeys(WANTED[machine], Verdict.RIGHT)
    cores = [j.verdict for name, j in found.items() if name.startswith("latency.core_to_core.0-1")]
    assert cores[:2] == [Verdict.RIGHT] * 2  # modified and exclusive; shared needs a sure way out of private caches

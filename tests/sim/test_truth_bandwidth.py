"""The true bandwidths of simulated machines, worked out by hand for machines with one narrow place each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import left_open, truth

FIRST = spec.Level(sets=64, ways=8, latency_cycles=4.0, fill_interval_cycles=0.0, mshr_entries=10)
SECOND = spec.Level(sets=512, ways=8, latency_cycles=14.0, fill_interval_cycles=0.0, mshr_entries=16)
QUICK_PAGES = spec.TlbTable(miss_penalty_cycles=0.0)
TLB = spec.Tlb(l1_4k=QUICK_PAGES, l2_4k=QUICK_PAGES, l1_2m=QUICK_PAGES, l2_2m=QUICK_PAGES)


def rates(
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    memory: dict[str, Any] | None = None,
    **core: Any,
) -> dict[str, Finding]:
    """Bandwidths of a machine of one cycle per nanosecond, so that they are bytes per cycle."""
    machine = spec.Machine(
        name="by hand",
        clock=spec.Clock(ticks_per_second=1e9),
        core=spec.Core(**core),
        levels=(_changed(FIRST, first), _changed(SECOND, second)),
        memory=_changed(spec.Memory(latency_cycles=200.0), memory),
        tlb=TLB,
    )
    return {finding.parameter: finding for finding in truth(machine) if finding.parameter.startswith("bandwidth.")}


def highest(finding: Finding) -> float:
    """The end of a range that stands for the narrowest place alone."""
    return float(finding.high if finding.high is not None else finding.value)


def _changed(table: Any, fields: dict[str, Any] | None) -> Any:
    return msgspec.structs.replace(table, **(fields or {}))


BLOCKING = {"out_of_order": False, "blocking_load": True, "issue_width": 1}
WAITING = {**BLOCKING, "blocking_store": True, "threads_per_core": 2, "smt_extra_cycles": 4.0}
CASES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "the first level gives what its ports take": (
        {"first": {"ports": 2}, "issue_width": 8},
        {"l1.load.64.threads_1": 128.0},
    ),
    "misses in flight over latency": (
        {},
        {"l2.load.64.threads_1": 10 * 64 / 14, "memory.load.64.threads_1": 10 * 64 / 200},
    ),
    "a blocking core has one, and its own issue waits with it": (
        BLOCKING,
        {"memory.load.64.threads_1": 64 / 200.5, "memory.store.64.threads_1": 640 / 200},
    ),
    "wide loads and siblings hold a blocking core up, and stores don't wait for them": (
        {**WAITING, "vector_load_extra": spec.VectorExtra(bytes64=3.0)},
        {
            "l2.load.64.threads_1": 64 / 17.5,
            "l2.load.64.threads_2": 2 * 64 / 21.5,
            "l2.store.64.threads_1": 64 / 14.5,
            "l2.store.64.threads_2": 2 * 64 / 14.5,
        },
    ),
    "all cores share memory, and stores move every line twice": (
        {"memory": {"interval_cycles": 32.0}, "cores": 4},
        {
            "memory.load.64.threads_1": 2.0,
            "memory.load.64.threads_4": 2.0,
            "memory.store.64.threads_4": 1.0,
            "memory.store.64.threads_4.traffic": 2.0,
        },
    ),
    "siblings share a queue": (
        {"first": {"mshr_shared_by_smt": True}, "second": {"mshr_shared_by_smt": True}, "threads_per_core": 2},
        {"memory.load.64.threads_2": 10 * 64 / 200},
    ),
    "siblings have a queue each": (
        {"first": {"mshr_shared_by_smt": False}, "second": {"mshr_shared_by_smt": False}, "threads_per_core": 2},
        {"memory.load.64.threads_2": 20 * 64 / 200, "memory.store.64.threads_2": 20 * 64 / 200},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_narrowest_place_is_the_limit(case: str) -> None:
    machine, expected = CASES[case]
    found = rates(**machine)
    assert {name: highest(found[f"bandwidth.{name}"]) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(("entries", "most"), [(128, 32.0), (32, 32 * 64 / 200), (20 * 4, None)])
def test_the_peak_of_memory_is_that_of_all_that_cores_share_on_the_way(entries: int, most: float | None) -> None:
    """Nobody outside can tell the queue of a last level from memory behind it; ten entries of each core are their own
    limit."""
    third = spec.Level(sets=4096, ways=16, latency_cycles=40.0, fill_interval_cycles=0.0, mshr_entries=entries)
    cores = 4 if most is None else 16
    machine = spec.Machine(
        name="by hand",
        clock=spec.Clock(ticks_per_second=1e9),
        core=spec.Core(cores=cores),
        levels=(FIRST, SECOND, third),
        memory=spec.Memory(latency_cycles=200.0, interval_cycles=2.0 if entries == 128 else 0.0),
        tlb=TLB,
    )
    found = [each for each in truth(machine) if each.parameter == "loaded_latency.peak_bandwidth"]
    assert [highest(each) for each in found] == ([] if most is None else [pytest.approx(most)])


def test_prefetchers_make_it_a_range() -> None:
    machine = spec.Machine(
        name="helped",
        clock=spec.Clock(ticks_per_second=1e9),
        levels=(FIRST, SECOND),
        memory=spec.Memory(latency_cycles=200.0),
        tlb=TLB,
        prefetchers=(spec.LinePair(level=2, fills="l2"),),
    )
    found = {finding.parameter: finding for finding in truth(machine)}
    reported = found["bandwidth.memory.load.64.threads_1"]
    assert reported.low == pytest.approx(10 * 64 / 200, rel=0.02)
    assert reported.high == pytest.approx(16 * 64 / 200)  # no more than the second level's queue holds
    assert highest(found["bandwidth.l2.load.64.threads_1"]) == pytest.approx(10 * 64 / 14)  # it brings nothing to there


def test_the_truth_leaves_open_what_a_machine_has_but_nothing_else() -> None:
    """So that a score doesn't call a rate made up where only the truth is unknown."""
    plain = load("plain")
    two = msgspec.structs.replace(plain, levels=plain.levels[:2])
    name = "bandwidth.{}.load.{}.threads_{}"
    width, cpus = max(plain.core.access_sizes), plain.core.cores * plain.core.threads_per_core
    assert name.format("l3", width, 1) in left_open(plain)
    assert not {name.format(*made_up) for made_up in (("l3", width, 1), ("l2", 128, 1), ("l2", width, cpus + 1))} & (
        left_open(two)
    )
    reported = {finding.parameter for finding in truth(plain) if finding.parameter.startswith("bandwidth.")}
    assert reported <= left_open(plain)

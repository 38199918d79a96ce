"""Streams without a machine: who runs where, what a kernel asks for, and machines that lack them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from setebench.scenarios.bandwidth.findings import findings_of
from setebench.scenarios.bandwidth.levels import DataSets, Levels
from setebench.scenarios.bandwidth.sweep import Case, between

from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import choose_cpus
from setebench.experiments.streams.points import Point
from setebench.experiments.streams.team import Timing
from setebench.kernels import BLOCK_BYTES, KERNELS, MOST_ARRAY_BYTES, array_spacing
from setebench.machine import Facts
from setebench.notation import parse
from setebench.probe import Base, Kind, Probe
from setebench.report.plots.bandwidth import bandwidth_figure
from setebench.report.plots.loaded_latency import loaded_latency_figure
from setebench.results import Finding, Outcome
from setebench.stats.bandwidth.peaks import why_no_rate

A = Base("a")


def facts(siblings: tuple[tuple[int, ...], ...], **others: object) -> Facts:
    cpus = tuple(sorted(cpu for group in siblings for cpu in group))
    return Facts(name="some CPU", kind="sim", cpus=cpus, siblings=siblings, ticks_per_second=1e9, **others)  # type: ignore[arg-type]


def test_compact_fills_a_core_and_spread_takes_another() -> None:
    two_by_two = facts(((0, 2), (1, 3)))
    assert choose_cpus(two_by_two, 0, 2, "compact") == (0, 2)
    assert choose_cpus(two_by_two, 0, 2, "spread") == (0, 1)
    assert choose_cpus(two_by_two, 3, 4, "compact") == (3, 1, 0, 2)
    assert choose_cpus(two_by_two, 3, 3, "spread") == (3, 0, 1)


@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_every_cpu_is_used_once_and_the_measured_one_first(cores: int, smt: int, data: st.DataObject) -> None:
    known = facts(tuple(tuple(core + cores * thread for thread in range(smt)) for core in range(cores)))
    first = data.draw(st.sampled_from(known.cpus))
    for placement in ("spread", "compact"):
        chosen = choose_cpus(known, first, len(known.cpus), placement)
        assert (chosen[0], sorted(chosen)) == (first, list(known.cpus))


@given(
    st.sampled_from([(name, rolled) for name, kernel in KERNELS.items() for rolled in kernel.forms]),
    st.integers(8, 30),
    st.sampled_from((8, 16, 32, 64)),
    st.integers(-64, 64),
)
def test_a_stream_can_be_written_and_read(form: tuple[str, bool], power: int, width: int, offset: int) -> None:
    name, rolled = form
    probe = Probe().start().stream(A + 64 * offset, name, 1 << power, width, rolled=rolled).stop()
    assert parse(str(probe)) == probe
    assert [operation.rolled for operation in probe.operations] == [False, rolled, False]
    (row,) = (row for row in probe.rows.tolist() if row[0] == Kind.STREAM)
    assert row[3] == (width if KERNELS[name].accesses else 0)
    assert row[5] == 1 << power


@given(st.integers(1, MOST_ARRAY_BYTES // BLOCK_BYTES))
def test_the_same_place_of_two_arrays_never_lies_at_the_same_place_of_a_page(blocks: int) -> None:
    distance = array_spacing(blocks * BLOCK_BYTES)
    assert distance >= blocks * BLOCK_BYTES + BLOCK_BYTES
    assert distance < 2**31
    for arrays in (1, 2, 3):
        assert 512 <= arrays * distance % 4096 <= 3584


def test_the_time_counts_from_the_first_start_to_the_last_end() -> None:
    ticks, waits = np.array([[1000, 2000], [1000, 1000], [1000, 1000]]), np.array([[1000, 0], [0, 0], [1000, 0]])
    timing = Timing(ticks, waits, 8000, 1e9)
    assert timing.seconds().tolist() == [2e-6, 1e-6, 2e-6]
    assert timing.gigabytes_per_second().tolist() == [8.0, 16.0, 8.0]
    assert timing.overlap().tolist() == [0.5, 1.0, 0.0]  # the last: one thread began where the other had ended
    assert timing.start_microseconds().tolist() == [0.0, 0.0, 1.0]


def test_a_budget_is_spent_by_what_the_machine_answers() -> None:
    budget = Budget(facts(((0,),), lines_per_second=1e6), 10.0)
    assert budget.spend(64_000_000) == 1.0
    assert budget.spend(6400, np.array([[2_000_000_000, 1_000_000_000]])) == 2.0  # ticks of a clock of 1 GHz
    assert budget.left == 7.0
    assert budget.part(0.5).left == 3.5
    assert budget.bytes(0.5) == 64 * 3.5e6
    assert budget.times(64 * 1e6, 0.5, 2, 9) == 3
    assert (budget.times(64 * 1e9, 1.0, 2, 9), budget.times(64, 1.0, 2, 9)) == (2, 9)


def case(*cpus: int) -> Case:
    return Case(KERNELS["load"], "64", cpus)


SETS = DataSets({"l1": (4096, 8192), "l2": (131072, 262144), "l3": (2097152,)}, 1 << 27)


def test_data_sets_for_the_plot_alone_are_octaves_up_to_the_largest() -> None:
    assert between([262144, 20000], True) == [4096 << octave for octave in range(6)]
    assert between([262144], False)[:3] == [4096, 5792, 8192]
    assert between([], False) == []


LEVELS = Levels({"l1": 4.0, "l2": 14.0, "l3": 40.0, "memory": 100.0}, {"l1": 32768.0, "l3": 8388608.0}, 100.0)


def test_lines_after_a_pass_say_which_level_serves_a_stream() -> None:
    assert [LEVELS.serves("l2", ticks) for ticks in (4.0, 12.0, 13.5, 17.0, 20.0, 40.0)] == [-1, -1, 0, 0, 1, 1]
    assert [LEVELS.serves("l3", ticks) for ticks in (14.0, 36.0, 38.0, 45.0, 60.0)] == [-1, -1, 0, 0, 1]
    assert (LEVELS.is_memory(84.0), LEVELS.is_memory(86.0)) == (False, True)


def test_what_threads_have_of_a_cache_depends_on_who_shares_it() -> None:
    """A second of three levels is a core's own, the last may be everybody's."""
    assert [LEVELS.end(name, 8, 2) for name in LEVELS.caches] == [16384.0, 0.0, 1048576.0]


def reported(points: list[Point], sets: DataSets = SETS, *cpus: int) -> dict[str, Finding]:
    return {found.parameter: found for found in findings_of(case(*(cpus or (0,))), points, sets, "")}


MEMORY_POINTS = [Point(1 << 27, [30.0, 40.0], 1.0), Point(1 << 28, [24.8, 25.0, 24.9], 1.0)]
SLOWER_TOGETHER = [Point(4096, [12.0, 4.6, 11.0], 0.99, together=4.6), Point(8192, [4.5], 0.99, together=4.5)]
NOT_REPORTED: list[tuple[str, list[Point], DataSets, str]] = [
    ("memory", MEMORY_POINTS, DataSets(SETS.caches, 0), "surely outgrows"),
    ("l2", [Point(131072, [100.0], 1.0), Point(262144, [50.0], 1.0)], SETS, "differ in bandwidth"),
    ("l2", [Point(131072, [100.0], 1.0), Point(262144, [120.0], 1.0)], SETS, "differ in bandwidth"),
    # seen on random machines: sets of a level with hardly room for one reached half of its rate
    ("l3", [Point(2097152, [50.0], 1.0)], SETS, "only one data set"),
    (
        "l3",
        [Point(2097152, [50.0], 1.0)],
        DataSets({**SETS.caches, "l3": ()}, 1 << 27),
        "has outgrown the level before",
    ),
    ("l1", [Point(4096, [9.0], 1.0), Point(8192, [8.9], 1.0)], SETS, "one round"),
    ("l1 of two", [Point(4096, [9.0], 0.5), Point(8192, [8.9], 0.5)], SETS, "50% of the time only"),
    # seen in a guest whose CPUs shared a core: 4.6 GB/s in the one round in which both ran at once, 12 in others
    ("l1 of two", SLOWER_TOGETHER, SETS, "12 GB/s were reached while threads waited for each other, and 4.6"),
]


@pytest.mark.parametrize(("level", "points", "sets", "reason"), NOT_REPORTED)
def test_what_shows_no_rate_is_not_reported(level: str, points: list[Point], sets: DataSets, reason: str) -> None:
    cpus = (0, 1) if "two" in level else (0,)
    found = reported(points, sets, *cpus)[f"bandwidth.{level.split()[0]}.load.64.threads_{len(cpus)}"]
    assert (found.value, found.outcome) == (None, Outcome.UNRESOLVED)
    assert reason in str(found.reason)


def test_the_largest_data_set_alone_is_memory_s() -> None:
    found = reported(MEMORY_POINTS)["bandwidth.memory.load.64.threads_1"]
    half = 4.3027 * 0.1 / 3**0.5  # Student's t of three rounds
    limits = (pytest.approx((24.9 - half) * 0.97, rel=1e-5), pytest.approx((24.9 + half) * 1.03, rel=1e-5))
    assert (found.value, (found.low, found.high)) == (25.0, limits)
    assert reported([Point(1 << 27, [5.0], 1.0)])["bandwidth.memory.load.64.threads_1"].value == 5.0, (
        "one round is enough"
    )


def test_how_threads_ran_is_in_the_method() -> None:
    both = [Point(4096, [9.0, 9.0], overlap=0.99, start_microseconds=0.25), Point(8192, [8.9, 8.9], overlap=0.99)]
    found = reported(both, SETS, 0, 1)["bandwidth.l1.load.64.threads_2"]
    assert found.value == 9.0 and "started within 0.25 us, all at once 99% of the time" in found.method
    rolled = [Point(4096, [9.0, 9.0], 0.99, rolled=True), Point(8192, [8.9, 8.9], 0.99)]
    assert "over 4 KiB a thread, rolled, " in reported(rolled, SETS, 0, 1)["bandwidth.l1.load.64.threads_2"].method
    assert why_no_rate([12.0, 11.8], 11.8) == ""


def test_plots_are_drawn_from_evidence_alone() -> None:
    sweep = {"kernel": "load", "width": "64", "size_bytes": [4096, 8192], "rounds_gb_per_s": [[2.0, 3.0], [4.0, 5.0]]}
    sweeps = [{**sweep, "cpus": [0]}, {**sweep, "cpus": [0, 1]}]
    figure = bandwidth_figure({"bandwidth": {"sweeps": sweeps}})
    assert [axes.get_ylabel() for axes in figure.axes] == ["GB/s (log scale)", "GB/s"]
    assert len(figure.axes[1].get_lines()) == 1
    known = bandwidth_figure({"bandwidth": {"sweeps": sweeps, "peak_gb_per_s": 12.0}})
    assert "memory's peak: 12 GB/s" in [text.get_text() for text in known.legends[0].get_texts()]
    assert all(12.0 in np.asarray(axes.get_lines()[-1].get_ydata()) for axes in known.axes)
    points = [{"threads": 1, "no_operations": 0, "gb_per_s": 5.0, "latency_ns": 120.0}]
    loaded = loaded_latency_figure({"loaded_latency": {"idle_ns": 90.0, "points": points}})
    assert loaded.axes[0].get_xlabel() == "memory bandwidth, lines read and written (GB/s)"

"""Rounds that lie apart in time: what they say of a machine whose neighbours come and go, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from typing import Any, cast

import numpy as np
import pytest
from setebench.scenarios import loaded_latency
from setebench.scenarios.bandwidth.findings import findings_of
from setebench.scenarios.bandwidth.levels import DataSets
from setebench.scenarios.bandwidth.params import PARAMS
from setebench.scenarios.bandwidth.sweep import Case, Sweep, in_rounds
from setebench.scenarios.loaded_latency.chase import LoadedChase, Reading
from setebench.scenarios.loaded_latency.params import PARAMS as LOADED

from setebench.compare import Agreement, agreement
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.points import Point
from setebench.experiments.streams.team import Stream, Team, Timing
from setebench.kernels import KERNELS
from setebench.machine import Facts
from setebench.registry import scenario
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.stats.bandwidth.peaks import Params, best_of_rounds, too_far_apart

FACTS = Facts(name="drifting", kind="sim", cpus=(0, 1), siblings=((0,), (1,)), ticks_per_second=1e9)
SETS = DataSets({"l1": (12288, 24576), "l2": (276480, 552960)}, 1 << 25)
SIZES = [12288, 24576, 276480, 552960, 1 << 26]
KERNEL_NAMES = ("load", "store", "copy", "triad")


# -- the interval -----------------------------------------------------------------------------------------------------


def test_two_rounds_that_differ_by_a_little_still_show_a_rate() -> None:
    for rounds in ([100.0, 92.0], [100.0, 91.0]):
        found = best_of_rounds(rounds)
        assert found is not None
        assert 0.0 <= found.low < 60.0 < 140.0 < found.high  # and how little they know of others
        assert not too_far_apart(rounds, found)


def test_the_interval_holds_the_best_and_nearly_always_the_mean_of_all_rounds() -> None:
    rng = np.random.default_rng(3)
    runs = rng.normal(100.0, 8.0, (4000, 6))
    found = [best_of_rounds(run, params=Params(run_to_run=0.0)) for run in runs]
    assert all(each and each.low <= each.value <= each.high for each in found)
    assert np.mean([each.low <= 100.0 <= each.high for each in found if each]) > 0.94


def bests_apart(runs: list[list[float]], shared: bool) -> float:
    """How many of all pairs of runs have no figure in common."""
    found = [each for each in (best_of_rounds(run, shared) for run in runs) if each]
    pairs = list(combinations(found, 2))
    return float(np.mean([one.low > other.high or other.low > one.high for one, other in pairs]))


def test_runs_of_what_others_share_agree_though_these_come_and_go() -> None:
    """Single-thread memory bandwidth of eleven runs in a quarter of an hour looked like this: others come for some
    runs, beside whom less is left in all rounds."""
    shares: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        levels = 34.0 * rng.choice([1.0, 0.93, 0.86], 12)
        runs = [(level * (1.0 - np.abs(rng.normal(0.0, 0.04, 6)))).tolist() for level in levels]
        for shared, own in shares.items():
            own.append(bests_apart(runs, shared))
    assert np.mean(shares[False]) > 0.1
    assert np.mean(shares[True]) < 0.02


def test_rounds_that_differ_by_far_show_no_rate() -> None:
    for rounds in ([20.0, 85.0, 21.0, 84.0, 20.0, 22.0], [100.0, 60.0]):
        found = best_of_rounds(rounds)
        assert found is not None
        assert found.low >= 0.0
        assert too_far_apart(rounds, found)


# -- streams on a machine that drifts ---------------------------------------------------------------------------------


class Drifting:
    """A team on a machine that now and then is a fifth slower for a while; every timing takes a moment."""

    budget: Budget | None = None

    def __init__(self, cpus: tuple[int, ...], slow: Callable[[int], bool], clock: list[int]) -> None:
        self.cpus, self._slow, self._clock = cpus, slow, clock

    def passes_for(self, _stream: Stream) -> int:
        return 1

    def time(self, stream: Stream, _repetitions: int) -> Timing:
        self._clock[0] += 1
        ticks = np.full((2, len(self.cpus)), stream.array_bytes // (80 if self._slow(self._clock[0]) else 100))
        return Timing(ticks, np.zeros_like(ticks), stream.array_bytes, FACTS.ticks_per_second)


def reported(slow: Callable[[int], bool]) -> dict[str, Finding]:
    """All findings of a machine that is slow at these epochs."""
    clock = [0]
    cases = [Case(KERNELS[name], "64", cpus) for cpus, name in product(((0,), (0, 1)), KERNEL_NAMES)]
    context = Context(machine=cast(Any, type("Machine", (), {"facts": FACTS})()))
    teams = [cast(Team, Drifting(case.cpus, slow, clock)) for case in cases]
    sweeps = [Sweep(context, case, team, SIZES) for case, team in zip(cases, teams, strict=True)]
    in_rounds(sweeps, Budget(FACTS, 100.0), PARAMS.fast_rounds)
    pairs = zip(cases, sweeps, strict=True)
    return {each.parameter: each for case, sweep in pairs for each in findings_of(case, sweep.points, SETS, "")}


def apart(one: dict[str, Finding], other: dict[str, Finding]) -> list[str]:
    """Numbers whose intervals do not meet."""
    pairs = [(name, found, other[name]) for name, found in one.items() if name in other]
    return [name for name, first, second in pairs if agreement(first, second) is Agreement.DIFFERS]


@pytest.mark.parametrize("period", [60, 90, 140])
def test_runs_of_a_machine_that_drifts_agree(period: int) -> None:
    """A state lasts about as long as a case's rounds would if they came one right after the other."""
    runs = [
        reported(lambda moment, begin=begin: (moment + begin) % period < period // 2) for begin in range(0, period, 7)
    ]
    assert len(runs[0]) > 20
    assert not [name for one, other in product(runs, repeat=2) for name in apart(one, other)]


def test_a_machine_that_does_not_drift_has_narrow_intervals() -> None:
    for found in reported(lambda _moment: False).values():
        assert found.outcome is Outcome.MEASURED
        assert found.high - found.low < 0.07 * found.value  # type: ignore[operator]


def test_a_peak_is_that_of_threads_that_ran_at_once() -> None:
    alone = Timing(np.array([[100, 100]]), np.array([[90, 0]]), 1000, 1e9)  # one began when the other was done
    both = Timing(np.array([[100, 100], [200, 400]]), np.array([[0, 0], [200, 0]]), 1000, 1e9)
    point = Point(4096, [])
    point.add(alone)
    assert (point.together, point.overlap) == (None, pytest.approx(10 / 190))
    point.add(both)
    point.add(alone)
    assert (point.best, point.overlap) == (20.0, 1.0)
    assert point.rounds == pytest.approx([2000 / 190, 20.0, 2000 / 190])


def test_a_moment_that_disturbed_one_data_set_is_made_up_for_by_another() -> None:
    points = [Point(12288, [100.0, 50.0, 99.0], 1.0), Point(24576, [50.0, 100.0, 50.0], 1.0)]
    found = next(iter(findings_of(Case(KERNELS["load"], "64", (0,)), points, SETS, "")))
    assert found.low is not None
    assert found.low > 90.0


def test_a_rate_beside_a_co_runner_in_all_rounds_is_a_bound() -> None:
    point = Point(12288, [])
    ticks = np.array([[100]])
    for alone in (False, False):
        point.add(Timing(ticks, np.zeros_like(ticks), 1000, 1e9, alone))
    found = next(
        iter(findings_of(Case(KERNELS["load"], "64", (0,)), [point, replace(point, size_bytes=24576)], SETS, ""))
    )
    assert (found.value, found.outcome) == (pytest.approx(9.7), Outcome.AT_LEAST)
    point.add(Timing(ticks, np.zeros_like(ticks), 1000, 1e9))
    found = next(
        iter(findings_of(Case(KERNELS["load"], "64", (0,)), [point, replace(point, size_bytes=24576)], SETS, ""))
    )
    assert (found.value, found.outcome) == (10.0, Outcome.MEASURED)


# -- latency under load -----------------------------------------------------------------------------------------------


def test_every_load_point_is_measured_once_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def measure(_self: LoadedChase, loaders: tuple[int, ...], delay: int, writes: int = 0) -> Reading:
        asked.append((len(loaders), delay, writes))
        return Reading(np.array([100.0 + len(asked) % 7]), np.array([10.0]))

    monkeypatch.setattr(LoadedChase, "__init__", lambda self, *_: setattr(self, "_cpu", 0))
    monkeypatch.setattr(LoadedChase, "measure", measure)
    monkeypatch.setattr(LoadedChase, "lay_out", lambda _self: None)
    monkeypatch.setattr(LoadedChase, "close", lambda _self: None)
    context = Context(machine=cast(Any, type("Machine", (), {"facts": FACTS})()), fast=True)
    found = {each.parameter: each for each in scenario("loaded-latency").answer(context)}
    whole, last = divmod(len(asked), LOADED.rounds)
    assert last == 1  # latency without load once more at the end
    rounds = [asked[number * whole : (number + 1) * whole] for number in range(LOADED.rounds)]
    assert all(sorted(each) == sorted(set(asked)) for each in rounds)
    points = context.evidence["loaded_latency"]["points"]
    assert all(len(point["rounds_ns"]) == LOADED.rounds for point in points)
    assert found["loaded_latency.at_peak"].outcome is Outcome.MEASURED


def test_latency_at_the_peak_holds_that_of_loads_which_may_be_as_high() -> None:
    """Chance decides which of them a run picks."""
    highest, as_high, lower = (
        Reading(latency + np.array([-1.0, 0.0, 1.0] * 3), rate + np.array([-2.0, 0.0, 2.0] * 3))
        for latency, rate in ((150.0, 100.0), (190.0, 99.0), (90.0, 50.0))
    )
    found = loaded_latency._latency_at_peak(highest, [lower, as_high, highest])
    assert found.value == 150.0
    assert 140.0 < found.low < 150.0 and 190.0 < found.high < 200.0

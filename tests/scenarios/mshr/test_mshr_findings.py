"""What follows for miss queues from curves that were made up: what limits, and what only resembles it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from setebench.scenarios.mshr.curves import Asked
from setebench.scenarios.mshr.demand import Behind, Demand
from setebench.scenarios.mshr.findings import Evidence, findings
from setebench.scenarios.mshr.params import Params
from setebench.scenarios.mshr.prefetching import UNSTEADY, Prefetching
from setebench.scenarios.mshr.threads import Beside, Siblings, Together, fills_first, fills_second

from setebench.results import Finding, Outcome
from setebench.stats.jump import Curve
from setebench.stats.threshold import Posterior

UNIT, PARAMS = 400.0, Params()
SUDDEN = {n: UNIT * (n >= 20) for n in range(41)}


def at(number: int | None, numbers: range) -> Posterior:
    """An epoch that shows the jump behind `number` for certain, or none."""
    probability = np.array([float(each == number) for each in numbers])
    return Posterior(numbers=np.array(numbers), probability=probability, none=float(number is None))


def curve(times: dict[int, float], *last: int | None, height: float = UNIT) -> Asked:
    """A curve without noise; it jumps behind `last` in each epoch (behind the same in three, if one is given)."""
    numbers = range(min(times), max(times) + 1)
    made = Curve(numbers[0], numbers[-1], UNIT, np.random.default_rng(1))
    for number, time in times.items():
        made.add(number, np.full(8, time))
    made.height = height
    epochs = 3 * last if len(last) == 1 else last or (None,)
    return Asked(cast(Any, None), made, [at(each, numbers) for each in epochs])


def jump(last: int, most: int = 40) -> Asked:
    return curve({n: UNIT + UNIT * (n > last) for n in range(1, most)}, last)


def flat(most: int, height: float = 50.0) -> Asked:
    return curve(dict.fromkeys(range(most), height))


def soon(most: int) -> dict[int, float]:
    """Times until the last line is there where none waits for another."""
    return dict.fromkeys(range(1, most + 1), UNIT)


def reported(evidence: Evidence, levels: tuple[str, ...] = ("l1", "l2")) -> dict[str, Finding]:
    return {finding.parameter: finding for finding in findings(evidence, levels, PARAMS)}


def seen(loads: Asked, *prefetching: Prefetching, disturbed: float = 0.0) -> Evidence:
    return Evidence(Demand(loads), list(prefetching), disturbed)


def hint(name: str, fills: str, last: int) -> Prefetching:
    phase = curve({0: 50.0} | {n: UNIT + UNIT * (n > last) for n in range(1, 60)}, last)
    return Prefetching(name, fills, phase, curve(dict.fromkeys(range(1, 60), 50.0)), soon(last))


def hits(times: dict[int, float], last: int | None = None) -> Evidence:
    """Loads that jump behind 20, and what a hit behind misses takes."""
    return Evidence(Demand(jump(20), None, Behind(curve(times, last), True, 40, 1e5)), [])


@pytest.mark.parametrize("lost", [UNSTEADY, "memory"])
def test_a_level_one_hint_only_bounds_level_two_where_another_hint_was_lost(lost: str) -> None:
    found = reported(seen(jump(20), hint("t0", "l1", 20), Prefetching("t1", lost)))
    second = found["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.AT_LEAST, 20)
    assert second.reason is not None and "t1" in second.reason
    assert found["mshr.l1.prefetch"].outcome is Outcome.MEASURED


@pytest.mark.parametrize("other", ["l1", "l3"])
def test_a_level_one_hint_answers_for_level_two_where_no_hint_fills_that_alone(other: str) -> None:
    second = reported(seen(jump(10), hint("t0", "l1", 10), Prefetching("t1", other)))["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.MEASURED, 10)


@pytest.mark.parametrize(("apart", "outcome"), [(900.0, Outcome.AT_LEAST), (60.0, Outcome.MEASURED)])
def test_lines_missing_in_groups_too_were_not_dropped_by_a_full_queue(apart: float, outcome: Outcome) -> None:
    lines = curve({n: 50.0 + 850.0 * (n > 240) for n in range(1, 256)}, 240, height=850.0)
    first = reported(seen(jump(20), Prefetching("t0", "l1", flat(256), lines, soon(256), apart)), ("l1",))
    assert first["mshr.l1.prefetch"].outcome is outcome
    assert 220 <= cast(int, first["mshr.l1.prefetch"].value) <= 240  # of that many none was lost


def test_lines_that_are_missing_later_were_not_in_flight() -> None:
    """No jump is certain, but from 60 prefetches on a line is missing."""
    lines = curve({n: 50.0 + 2 * n + UNIT * (n > 60) for n in range(1, 200)})
    first = reported(seen(jump(20), Prefetching("t0", "l1", flat(200), lines, soon(200))), ("l1",))
    assert (first["mshr.l1.prefetch"].outcome, first["mshr.l1.prefetch"].value) == (Outcome.AT_LEAST, 60)


def test_a_delay_that_grows_little_by_little_is_no_entry_limit() -> None:
    grows = {n: 15.0 * n for n in range(41)}
    for last in (None, 30):
        first = reported(hits(grows, last), ("l1",))["mshr.l1.demand"]
        assert (first.outcome, first.value) == (Outcome.AT_LEAST, 20)
    sudden = {n: time + UNIT * (n >= 20) for n, time in grows.items()}
    first = reported(hits(sudden, 19), ("l1",))["mshr.l1.demand"]  # and loads jump at the same number
    assert (first.outcome, first.value) == (Outcome.MEASURED, 20)


def test_a_hit_that_never_waits_is_a_bound_only_where_a_wait_would_have_shown() -> None:
    evidence = hits(dict.fromkeys(range(81), 0.0))
    first = reported(evidence, ("l1",))["mshr.l1.demand"]
    assert (first.outcome, first.value) == (Outcome.AT_LEAST, 41)


@pytest.mark.parametrize("rise", [0.25, 0.45])
def test_a_small_rise_before_all_entries_are_taken_is_no_limit(rise: float) -> None:
    """A first TLB that is full, for one: what waits for an entry takes a whole miss longer than one alone."""
    loads = curve({n: UNIT * (1 + rise * (n > 16) + (n > 24)) for n in range(1, 60)}, 16)
    for level in ("l1", "l2"):
        found = reported(seen(loads))[f"mshr.{level}.demand"]
        assert (found.outcome, found.value) == (Outcome.AT_LEAST, 24)


def test_time_that_goes_on_to_rise_behind_a_jump_is_no_full_queue() -> None:
    """Page walks one after the other, where a first TLB ends: each further page waits longer."""
    loads = curve({n: UNIT * (1 + max(n - 83, 0) / 8 + (n > 83)) for n in range(1, 100)}, 83)
    found = reported(seen(loads), ("l2",))["mshr.l2.demand"]
    assert (found.outcome, found.value) == (Outcome.AT_LEAST, 83)


def test_prefetches_whose_last_line_comes_late_were_not_all_in_flight() -> None:
    """Seen on a Zen 4 core: 132 prefetches set out, as a queue before takes them, but about a hundred are in flight."""
    for epochs in ((132, 132, 132), (131, 132, 132)):
        phase = curve({n: 50.0 + UNIT * (n > epochs[0]) for n in range(160)}, *epochs)
        total = {n: UNIT * (1 + (n > 110)) for n in range(1, 133)}
        second = reported(seen(jump(20), Prefetching("t1", "l2", phase, flat(160), total)))["mshr.l2.prefetch"]
        assert (second.outcome, second.value) == (Outcome.AT_LEAST, 110)


@pytest.mark.parametrize(
    ("epochs", "outcome", "value"),
    [
        ((20, 20, 18), Outcome.MEASURED, 20),
        ((18, 18, 18), Outcome.MEASURED, 18),
        ((20, 18, 18), Outcome.AT_LEAST, 20),
        ((20, 18), Outcome.AT_LEAST, 20),
    ],
)
def test_epochs_in_which_a_co_runner_takes_entries(epochs: tuple[int, ...], outcome: Outcome, value: Any) -> None:
    loads = curve({n: UNIT + UNIT * (n > epochs[0]) for n in range(1, 40)}, *epochs)
    found = reported(seen(loads))["mshr.l2.demand"]
    assert (found.outcome, found.value) == (outcome, value)


@pytest.mark.parametrize(
    ("loads", "stores", "outcome"),
    [
        (14, 16, Outcome.AT_LEAST),
        (16, 16, Outcome.MEASURED),
        (16, 1, Outcome.MEASURED),
        (1, 24, Outcome.MEASURED),
    ],
)
def test_stores_that_find_more_entries_make_the_number_of_loads_a_bound(
    loads: int, stores: int, outcome: Outcome
) -> None:
    """But for loads that wait for each other, whose number says nothing of entries that are left."""
    found = reported(Evidence(Demand(jump(loads), jump(stores)), []))["mshr.l2.demand"]
    assert (found.outcome, found.value) == (outcome, loads)


def test_a_number_is_a_bound_where_others_jumped_there_in_one_epoch_and_later_in_another() -> None:
    """Seen in a guest: loads 18 in all epochs, prefetches 18 in one and 20 in others; 20 in quiet runs."""
    phase = curve({n: UNIT + UNIT * (n > 18) for n in range(40)}, 18, 20, 20)
    found = reported(seen(jump(18), Prefetching("t0", "l1", phase, flat(40), soon(18))))
    assert (found["mshr.l2.demand"].outcome, found["mshr.l2.demand"].value) == (Outcome.AT_LEAST, 18)


# -- threads -----------------------------------------------------------------------------------------------------------


def shared(level: str, **asked: Any) -> Finding:
    return Siblings(False, **asked).findings((level,), PARAMS)[0]


@pytest.mark.parametrize(
    ("at_part", "at_all", "outcome", "value"),
    [
        (0.9, 0.9, Outcome.MEASURED, True),
        (0.05, 0.9, Outcome.MEASURED, False),
        (0.35, 0.9, Outcome.UNRESOLVED, None),
        (0.05, 0.1, Outcome.UNRESOLVED, None),
    ],
)
def test_siblings_share_what_runs_out_for_all_at_once(
    at_part: float, at_all: float, outcome: Outcome, value: bool | None
) -> None:
    found = shared("l2", together=Together(4, UNIT, at_part * UNIT, at_all * UNIT))
    assert (found.outcome, found.value) == (outcome, value)


@pytest.mark.parametrize(
    ("delay", "later", "outcome", "value"),
    [
        (0.5, 0.0, Outcome.MEASURED, True),
        (0.02, 0.0, Outcome.MEASURED, False),
        (0.15, 0.0, Outcome.UNRESOLVED, None),
        (0.0, 0.9, Outcome.UNRESOLVED, None),  # the prefetches left no lines, so they held nothing
    ],
)
def test_a_hit_waits_for_another_threads_misses_where_the_pool_is_shared(
    delay: float, later: float, outcome: Outcome, value: bool | None
) -> None:
    found = shared("l1", beside=Beside(delay * UNIT, UNIT, later * UNIT))
    assert (found.outcome, found.value) == (outcome, value)


def test_prefetches_that_leave_entries_to_their_own_thread_show_nothing_of_another() -> None:
    """The control: the same prefetches of one thread, which lack an entry, and the thread's own hit behind them."""
    for own, outcome in ((0.02, Outcome.UNRESOLVED), (0.5, Outcome.MEASURED)):
        assert shared("l1", beside=Beside(0.02 * UNIT, UNIT, 0.0, own * UNIT)).outcome is outcome


def with_hints(evidence: Evidence, *own: Prefetching) -> Evidence:
    return Evidence(evidence.demand, list(own))


def test_entries_of_level_one_are_taken_by_loads_or_by_prefetches_that_wait() -> None:
    def filled(evidence: Evidence) -> tuple[str, int]:
        found = fills_first(evidence, PARAMS)
        assert not isinstance(found, str)
        return found.hint, found.entries

    assert filled(hits(SUDDEN, 19)) == ("", 20)
    single = Evidence(Demand(jump(1), None, Behind(curve({n: UNIT * (n >= 1) for n in range(41)}, 0), True, 40, 0)), [])
    assert filled(with_hints(single, hint("t0", "l1", 8))) == ("t0", 8)
    lost = curve({n: 50.0 + UNIT * (n > 8) for n in range(1, 40)}, 8)
    assert filled(with_hints(single, Prefetching("t0", "l1", flat(40), lost, apart=50.0))) == ("t0", 8)
    assert isinstance(fills_first(single, PARAMS), str)
    assert isinstance(fills_first(seen(jump(20)), PARAMS), str)


@pytest.mark.parametrize(
    ("second", "loads", "asked"), [(40, 20, True), (20, 20, False), (17, 17, False), (10, 20, False), (10, 10, True)]
)
@pytest.mark.parametrize("dropping", [False, True])
def test_level_two_is_only_asked_where_level_one_does_not_explain_it(
    second: int, loads: int, asked: bool, dropping: bool
) -> None:
    own = hint("t1", "l2", second)
    if dropping:
        own = Prefetching("t1", "l2", flat(60), jump(second, 60), soon(second), apart=UNIT)
    behind = Behind(curve(SUDDEN, 19), True, 40, 1e5)
    found = fills_second(Evidence(Demand(jump(loads), None, behind), [own]), 2, set(), PARAMS)
    assert isinstance(found, str) is not asked
    assert isinstance(found, str) or (found.entries, found.dropped, found.maybe_first) == (second, dropping, False)
    shown = fills_second(Evidence(Demand(jump(loads), None, behind), [own]), 2, {"t1"}, PARAMS)
    assert (
        not isinstance(shown, str) and shown.entries == second
    )  # its prefetches were seen to take no entry of level 1


@pytest.mark.parametrize("hints", [[hint("t0", "l1", 20)], [hint("t0", "l1", 20), hint("t1", "l2", 20)]])
def test_threads_with_a_level_one_of_their_own_can_only_show_that_level_two_is_shared(hints: list[Prefetching]) -> None:
    filling = fills_second(with_hints(hits(SUDDEN, 19), *hints), 1, set(), PARAMS)
    assert not isinstance(filling, str) and (filling.entries, filling.maybe_first) == (20, True)
    for at_part, value in ((0.9, True), (0.05, None)):
        together = Together(4, UNIT, at_part * UNIT, 0.9 * UNIT, filling.maybe_first)
        assert shared("l2", together=together).value is value

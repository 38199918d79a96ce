"""What is told of miss queues from staircases that were made up: what limits, and what only looks like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from setebench.infer.in_flight import Blocked, Evidence, Nearer, Prefetching, kept_in_flight, proven, surely
from setebench.infer.landing import UNSTEADY
from setebench.infer.mshr import fills_first, fills_second, findings
from setebench.infer.siblings import Beside, Together
from setebench.infer.steps import Staircase, Step
from setebench.infer.ticks import Estimate
from setebench.results import Finding, Outcome

UNIT = 400.0
SUDDEN = {n: UNIT * (n >= 20) for n in range(41)}


def stairs(
    curve: dict[int, float], last: int | None = None, high: int | None = None, height: float = UNIT
) -> Staircase:
    """A staircase without noise; it jumps behind `last`, or no later than behind `high`."""
    found = Staircase(UNIT, {number: [np.full(8, time)] for number, time in curve.items()})
    if last is not None:
        found.step = Step(last, last, high or last, height)
    return found


def jump(last: int, most: int = 40) -> Staircase:
    return stairs({n: UNIT + UNIT * (n > last) for n in range(1, most)}, last)


def flat(most: int, height: float = 50.0) -> Staircase:
    return stairs(dict.fromkeys(range(most), height))


def told(evidence: Evidence, levels: tuple[str, ...] = ("l1", "l2")) -> dict[str, Finding]:
    return {finding.parameter: finding for finding in findings(evidence, levels)}


def hint(name: str, fills: str, last: int) -> Prefetching:
    return Prefetching(name, fills, jump(last), jump(last), flat(40))


@pytest.mark.parametrize("lost", [UNSTEADY, "memory"])
def test_a_level_one_hint_only_bounds_level_two_where_another_hint_was_lost(lost: str) -> None:
    found = told(Evidence(jump(20), prefetching=[hint("t0", "l1", 20), Prefetching("t1", lost)]))
    second = found["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.AT_LEAST, 20)
    assert second.reason is not None and "t1" in second.reason
    assert found["mshr.l1.prefetch"].outcome is Outcome.MEASURED


@pytest.mark.parametrize("other", ["l1", "l3"])
def test_a_level_one_hint_tells_level_two_where_no_hint_fills_that_alone(other: str) -> None:
    second = told(Evidence(jump(10), prefetching=[hint("t0", "l1", 10), Prefetching("t1", other)]))["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.MEASURED, 10)


def test_a_level_two_hint_is_only_a_bound_where_near_levels_blur() -> None:
    own = [hint("t0", "l2", 18), Prefetching("w", UNSTEADY)]
    second = told(Evidence(jump(20), prefetching=own))["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.AT_LEAST, 18)


def test_prefetches_that_set_out_but_stand_in_a_queue_are_not_in_flight() -> None:
    phase, total = jump(130, 160), stairs({n: UNIT * max(1.0, n / 40) for n in range(1, 160)})
    own = [hint("t0", "l1", 20), Prefetching("t1", "l2", phase, total, flat(160))]
    second = told(Evidence(jump(20), prefetching=own))["mshr.l2.prefetch"]
    assert second.outcome is Outcome.AT_LEAST and second.value in range(30, 41)


@pytest.mark.parametrize(
    ("waits", "late", "outcome"), [(144, 128, Outcome.AT_LEAST), (48, 36, Outcome.MEASURED), (58, 58, Outcome.MEASURED)]
)
def test_lines_that_come_late_before_the_next_waits_for_no_level_one_may_lack_what_lies_behind(
    waits: int, late: int, outcome: Outcome
) -> None:
    """48 entries of level 1 are a queue before level 2's; what takes 144 may itself be level 2's."""
    own = Prefetching("t1", "l2", jump(waits, 200), jump(late, 200), flat(200))
    second = told(Evidence(jump(20), prefetching=[hint("t0", "l1", 48), own]))["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (outcome, late)


def test_prefetches_that_never_set_out_together_prove_nothing() -> None:
    """A jump behind none, which noise can leave behind, bounds nothing either."""
    phase = stairs({n: 50.0 + UNIT * (n > 0) for n in range(40)}, 0)
    total = stairs({n: UNIT * n for n in range(1, 40)})
    second = told(Evidence(jump(20), prefetching=[Prefetching("t1", "l2", phase, total, flat(40))]))["mshr.l2.prefetch"]
    assert second.outcome is Outcome.UNRESOLVED


def test_prefetches_that_each_wait_for_the_one_before_are_one_in_flight() -> None:
    phase = stairs({n: 50.0 + UNIT * n for n in range(12)}, 0)
    own = Prefetching("t1", "l2", phase, stairs({n: UNIT * n for n in range(1, 12)}), flat(12))
    second = told(Evidence(jump(1), prefetching=[own]))["mshr.l2.prefetch"]
    assert (second.outcome, second.value) == (Outcome.MEASURED, 1)


@pytest.mark.parametrize(("apart", "outcome"), [(900.0, Outcome.AT_LEAST), (60.0, Outcome.MEASURED)])
def test_lines_missing_in_groups_too_were_not_dropped_by_a_full_queue(apart: float, outcome: Outcome) -> None:
    kept = stairs({n: 50.0 + 850.0 * (n > 240) for n in range(1, 256)}, 240, height=850.0)
    own = Prefetching("t0", "l1", flat(256), None, kept, apart)
    first = told(Evidence(jump(20), prefetching=[own]), ("l1",))["mshr.l1.prefetch"]
    assert first.outcome is outcome
    assert first.value == 240  # of that many none was lost


def blocked(times: dict[int, float], step: Step | None = None) -> dict[str, Any]:
    curve = stairs(times)
    curve.step = step
    return {"loads": jump(20), "blocked": Blocked(curve, in_level_two=True, shows_up_to=40)}


def test_a_delay_that_grows_little_by_little_is_no_entry_limit() -> None:
    grows = {n: 15.0 * n for n in range(41)}
    for step in (None, Step(20, 20, 22, 100.0), Step(30, 30, 30, 100.0)):
        first = told(Evidence(**blocked(grows, step)), ("l1",))["mshr.l1.demand"]
        assert (first.outcome, first.value) == (Outcome.AT_LEAST, 20)


def test_a_delay_that_begins_suddenly_where_loads_jump_is_one() -> None:
    sudden = {n: UNIT * (n >= 20) for n in range(41)}
    for step in (None, Step(19, 18, 20, UNIT), Step(19, 19, 19, UNIT)):
        first = told(Evidence(**blocked(sudden, step)), ("l1",))["mshr.l1.demand"]
        assert (first.outcome, first.value) == (Outcome.MEASURED, 20)


def never_waited(times: dict[int, float], shows_up_to: int) -> int:
    evidence = Evidence(jump(20), blocked=Blocked(stairs(times), in_level_two=True, shows_up_to=shows_up_to))
    found = told(evidence, ("l1",))["mshr.l1.demand"]
    assert found.outcome is Outcome.AT_LEAST and isinstance(found.value, int)
    return found.value


def test_a_hit_that_never_waits_bounds_level_one_as_far_as_a_wait_would_show() -> None:
    free = dict.fromkeys(range(0, 64, 3), 0.0)
    assert never_waited(free, 63) == 64
    assert never_waited(free, 30) == 31


def test_misses_that_were_slow_once_do_not_raise_a_bound() -> None:
    """The hit waits from 26 misses on; what the misses were slower at 60 hides it there."""
    waits = {n: UNIT * (n >= 26) for n in range(0, 60, 2)} | {60: 0.0}
    assert never_waited(waits, 60) <= 26


def test_a_later_jump_bounds_nothing_where_the_first_was_lost() -> None:
    """Ten at a time, but of the staircase only the jump behind 30 was found."""
    assert surely(stairs({n: UNIT * (1 + (n - 1) // 10) for n in range(1, 40)}, 30)) <= 10
    assert surely(jump(20)) == 20


def test_a_single_load_that_was_slow_does_not_raise_what_is_proven() -> None:
    calm = {n: UNIT * max(1.0, n / 10) for n in range(1, 40)}
    assert proven(stairs(calm)) <= proven(stairs(calm | {1: 3 * UNIT})) <= 10


def test_lines_that_are_missing_later_were_not_in_flight() -> None:
    """No jump is certain, but from 60 prefetches on a line is missing."""
    kept = stairs({n: 50.0 + 2 * n + UNIT * (n > 60) for n in range(1, 200)})
    own = Prefetching("t0", "l1", flat(200), None, kept)
    first = told(Evidence(jump(20), prefetching=[own]), ("l1",))["mshr.l1.prefetch"]
    assert (first.outcome, first.value) == (Outcome.AT_LEAST, 60)


def nearer(in_flight: float, last: int | None = None) -> Nearer:
    return Nearer(Estimate(in_flight, 0.95 * in_flight, 1.05 * in_flight), 0.8, jump(last) if last else None)


@pytest.mark.parametrize("outside", [{"l2": nearer(36.0)}, {"l3": nearer(36.0)}, {"l3": nearer(18.0, 26)}])
def test_more_in_flight_from_nearer_levels_leaves_level_one_open(outside: dict[str, Nearer]) -> None:
    first = told(Evidence(**blocked(SUDDEN), nearer=outside), ("l1",))["mshr.l1.demand"]
    assert first.outcome is Outcome.UNRESOLVED


def test_chases_that_tell_more_in_flight_by_chance_contradict_nothing() -> None:
    """Lines of which a third went further out: in a few repetitions a load looks slow, and a wave of them fast."""
    rng = np.random.default_rng(5)
    further = rng.random((18, 4)) < 0.3
    times = np.array([80.0, 140.0, 400.0, 520.0]) + 160.0 * further
    found = kept_in_flight(times, 32, 1.0, rng)
    assert found is not None
    rough = Evidence(**blocked(SUDDEN), nearer={"l3": Nearer(found._replace(value=36.0), 0.9)})
    assert told(rough, ("l1",))["mshr.l1.demand"].value == 20
    clear = kept_in_flight(np.tile([80.0, 140.0, 400.0, 460.0], (18, 1)), 32, 1.0, rng)
    assert clear == Estimate(32.0, 32.0, 32.0)
    sure = Evidence(**blocked(SUDDEN), nearer={"l3": Nearer(clear, 0.9)})
    assert told(sure, ("l1",))["mshr.l1.demand"].outcome is Outcome.UNRESOLVED


def test_a_first_wave_that_was_held_up_tells_nothing() -> None:
    assert kept_in_flight(np.tile([80.0, 140.0, 900.0, 160.0], (18, 1)), 32, 1.0, np.random.default_rng(5)) is None


def test_fewer_in_flight_from_nearer_levels_is_bandwidth_and_stands_beside() -> None:
    evidence = Evidence(**blocked(SUDDEN), nearer={"l2": nearer(9.0), "l3": nearer(18.0, 20)}, chases=19.0)
    first = told(evidence, ("l1",))["mshr.l1.demand"]
    assert (first.outcome, first.value) == (Outcome.MEASURED, 20)
    assert "from l3 parallel chases keep 18.0 in flight, time jumps behind 20" in first.method


def test_more_in_flight_from_memory_than_level_one_has_entries_is_a_contradiction() -> None:
    first = told(Evidence(**blocked(SUDDEN), chases=40.0), ("l1",))["mshr.l1.demand"]
    assert first.outcome is Outcome.UNRESOLVED and first.reason and "40.0" in first.reason


@pytest.mark.parametrize(
    ("at_share", "at_all", "outcome", "value"),
    [
        (0.9, 0.9, Outcome.MEASURED, True),
        (0.05, 0.9, Outcome.MEASURED, False),
        (0.35, 0.9, Outcome.UNRESOLVED, None),
        (0.05, 0.1, Outcome.UNRESOLVED, None),
    ],
)
def test_siblings_share_what_runs_out_for_all_at_once(
    at_share: float, at_all: float, outcome: Outcome, value: bool | None
) -> None:
    together = Together(4, UNIT, at_share * UNIT, at_all * UNIT)
    found = told(Evidence(jump(8), together=together, one_thread=False), ("l2",))["mshr.l2.shared_by_smt"]
    assert (found.outcome, found.value) == (outcome, value)


@pytest.mark.parametrize(
    ("delay", "outcome", "value"),
    [(0.5, Outcome.MEASURED, True), (0.02, Outcome.MEASURED, False), (0.15, Outcome.UNRESOLVED, None)],
)
def test_a_hit_waits_for_another_threads_misses_where_the_pool_is_shared(
    delay: float, outcome: Outcome, value: bool | None
) -> None:
    evidence = Evidence(jump(8), beside=Beside(delay * UNIT, UNIT), one_thread=False)
    found = told(evidence, ("l1",))["mshr.l1.shared_by_smt"]
    assert (found.outcome, found.value) == (outcome, value)


def filled(evidence: Evidence) -> tuple[str, int]:
    found = fills_first(evidence)
    assert not isinstance(found, str)
    return found.hint, found.entries


def test_entries_of_level_one_are_taken_by_loads_or_by_prefetches_that_wait() -> None:
    assert filled(Evidence(**blocked(SUDDEN, Step(19, 19, 19, UNIT)))) == ("", 20)
    single = blocked({n: UNIT * (n >= 1) for n in range(41)}, Step(0, 0, 0, UNIT)) | {"loads": jump(1)}
    assert filled(Evidence(**single, prefetching=[hint("t0", "l1", 8)])) == ("t0", 8)
    lost = stairs({n: 50.0 + UNIT * (n > 8) for n in range(1, 40)}, 8)
    dropping = Prefetching("t0", "l1", flat(40), None, lost, apart=50.0)
    assert filled(Evidence(**single, prefetching=[dropping])) == ("t0", 8)
    assert isinstance(fills_first(Evidence(**single)), str)
    assert isinstance(fills_first(Evidence(jump(20))), str)


def test_prefetches_that_left_no_lines_held_no_entries_that_a_hit_could_wait_for() -> None:
    evidence = Evidence(jump(8), beside=Beside(0.0, UNIT, later=0.9 * UNIT), one_thread=False)
    assert told(evidence, ("l1",))["mshr.l1.shared_by_smt"].outcome is Outcome.UNRESOLVED


@pytest.mark.parametrize(
    ("second", "loads", "delay", "asked"),
    [(40, 20, 0.5, True), (20, 20, 0.5, False), (17, 17, 0.5, False), (10, 20, 0.5, False), (10, 10, 0.5, True)],
)
@pytest.mark.parametrize("dropping", [False, True])
def test_level_two_is_only_asked_where_level_one_does_not_explain_it(
    second: int, loads: int, delay: float, asked: bool, dropping: bool
) -> None:
    own = hint("t1", "l2", second)
    if dropping:
        own = Prefetching("t1", "l2", flat(60), flat(60), jump(second, 60), apart=UNIT)
    evidence = Evidence(**blocked(SUDDEN, Step(19, 19, 19, UNIT)), prefetching=[own], beside=Beside(delay * UNIT, UNIT))
    evidence.loads = jump(loads)
    found = fills_second(evidence, 2)
    assert isinstance(found, str) is not asked
    assert isinstance(found, str) or (found.entries, found.dropped, found.maybe_first) == (second, dropping, False)


def test_more_entries_than_demand_loads_may_use_are_still_level_ones() -> None:
    """Level 1 keeps some of its entries from loads: hints of either level run out where it has none left."""
    own = [hint("t0", "l1", 30), hint("t1", "l2", 30)]
    evidence = Evidence(**blocked(SUDDEN, Step(19, 19, 19, UNIT)), prefetching=own, beside=Beside(0.5 * UNIT, UNIT))
    assert isinstance(fills_second(evidence, 2), str)


@pytest.mark.parametrize("hints", [[hint("t0", "l1", 20)], [hint("t0", "l1", 20), hint("t1", "l2", 20)]])
def test_threads_with_a_level_one_of_their_own_can_only_show_that_level_two_is_shared(hints: list[Prefetching]) -> None:
    evidence = Evidence(
        **blocked(SUDDEN, Step(19, 19, 19, UNIT)), prefetching=hints, beside=Beside(0.0, UNIT), one_thread=False
    )
    filling = fills_second(evidence, 4)
    assert not isinstance(filling, str) and (filling.entries, filling.maybe_first) == (20, True)
    for at_share, value in ((0.9, True), (0.05, None)):
        evidence.together = Together(4, UNIT, at_share * UNIT, 0.9 * UNIT, filling.maybe_first)
        assert told(evidence, ("l2",))["mshr.l2.shared_by_smt"].value is value


def test_without_a_sibling_there_is_nothing_to_share() -> None:
    found = told(Evidence(jump(8)))
    for level in ("l1", "l2"):
        own = found[f"mshr.{level}.shared_by_smt"]
        assert own.outcome is Outcome.UNAVAILABLE and own.reason


@pytest.mark.parametrize(
    ("stores", "said"), [(jump(16), "stores jump behind 16"), (stairs({1: UNIT, 90: 2 * UNIT}), "never jump up to 90")]
)
def test_what_stores_do_stands_beside_the_limit_of_loads(stores: Staircase, said: str) -> None:
    assert said in told(Evidence(jump(20), stores=stores))["mshr.l2.demand"].method


@pytest.mark.parametrize("high", [20, 24])
def test_a_number_is_a_bound_where_others_jumped_there_once_and_later_at_another_time(high: int) -> None:
    """Seen in a guest: loads 18 in all rounds, prefetches 18 at one time and 20 at another; 20 in quiet runs."""
    phase = stairs({n: UNIT + UNIT * (n > 18) for n in range(1, 40)}, 18, high)
    moved = Prefetching("t0", "l1", phase, jump(20), flat(40))
    found = told(Evidence(jump(18), prefetching=[moved]))
    assert (found["mshr.l2.demand"].outcome, found["mshr.l2.demand"].value) == (Outcome.AT_LEAST, 18)


@pytest.mark.parametrize("other", [hint("t0", "l1", 20), Prefetching("t0", "l3", stairs({1: UNIT}, 18, 24))])
def test_another_limit_of_prefetches_doesnt_bound_loads(other: Prefetching) -> None:
    assert told(Evidence(jump(18), prefetching=[other]))["mshr.l2.demand"].outcome is Outcome.MEASURED

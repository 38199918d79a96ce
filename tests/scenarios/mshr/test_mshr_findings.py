"""What follows for miss queues from jumps that were made up: what limits, and what only resembles it."""

from __future__ import annotations

from typing import Any

import pytest
from setebench.scenarios.mshr.ask import NO_JUMP, Evidence, Prefetching
from setebench.scenarios.mshr.findings import findings, in_flight
from setebench.scenarios.mshr.params import Params

from setebench.experiments.bursts.bursts import Burst
from setebench.results import Finding, Outcome
from setebench.stats.jump import Jump

PARAMS = Params()


def jump(last: int | None, *, low: int | None = None, certain: bool = True, most: int = 64) -> Jump:
    """Time jumps by a unit behind `last` requests, in all rounds or not."""
    times = {number: float(last is not None and number > last) for number in range(1, most)}
    return Jump(last=last, low=low or last or 0, high=last or 0, certain=certain, most=most, times=times)


def hint(name: str, level: str, last: int | None, there: int | None = None) -> Prefetching:
    return Prefetching(Burst(count=1, hint=name), level, jump(last), NO_JUMP if there is None else jump(there))


def reported(loads: Jump, *prefetching: Prefetching, **others: Any) -> dict[str, Finding]:
    fills = {each.burst.hint: each.level for each in prefetching}
    evidence = Evidence(unit=400.0, loads=loads, prefetching=prefetching, fills=fills, **others)
    return {finding.parameter.removeprefix("mshr."): finding for finding in findings(evidence, ("l1", "l2"), PARAMS)}


def said(finding: Finding) -> tuple[Outcome, Any]:
    return finding.outcome, finding.value


@pytest.mark.parametrize(
    ("loads", "behind", "first", "second"),
    [
        (16, 15, (Outcome.MEASURED, 16), (Outcome.AT_LEAST, 16)),  # level 1 lets no more through
        (12, 23, (Outcome.MEASURED, 24), (Outcome.MEASURED, 12)),
        (12, 13, (Outcome.MEASURED, 14), (Outcome.AT_LEAST, 12)),  # a prefetcher's line may take an entry of level 2
        (12, None, (Outcome.AT_LEAST, 12), (Outcome.MEASURED, 12)),
        (1, None, (Outcome.AT_LEAST, 1), (Outcome.MEASURED, 1)),
    ],
)
def test_a_jump_is_of_level_two_only_where_level_one_has_more(
    loads: int, behind: int | None, first: tuple[Outcome, int], second: tuple[Outcome, int]
) -> None:
    found = reported(jump(loads), hits=jump(behind))
    assert (said(found["l1.demand"]), said(found["l2.demand"])) == (first, second)
    assert "hidden by level 1" in (found["l2.demand"].reason or "") or second[0] is Outcome.MEASURED or behind == 13


def test_rounds_that_disagree_leave_a_bound() -> None:
    found = reported(jump(16, low=14, certain=False), hits=jump(29, low=27, certain=False))
    assert said(found["l2.demand"]) == (Outcome.AT_LEAST, 14)
    assert said(found["l1.demand"]) == (Outcome.AT_LEAST, 28)


def test_time_that_never_jumps_is_bounded_by_littles_law() -> None:
    slope = {number: number / 10 for number in range(1, 64)}
    assert in_flight(slope, PARAMS) == 7
    found = reported(Jump(last=None, most=63, times=slope), hits=jump(None))
    assert said(found["l2.demand"]) == said(found["l1.demand"]) == (Outcome.AT_LEAST, 7)


@pytest.mark.parametrize(
    ("hints", "outcome", "value"),
    [
        ([hint("t0", "l1", 16, 16)], Outcome.AT_LEAST, 16),  # level 1 lets no more through
        ([hint("t0", "l1", 16), hint("t1", "l2", 16, 16)], Outcome.AT_LEAST, 16),
        ([hint("t0", "l1", 16), hint("t1", "l2", 48, 48)], Outcome.MEASURED, 48),
        ([hint("t0", "l1", 16), hint("t1", "l2", 16, 12)], Outcome.MEASURED, 12),  # late, though they set out
        ([hint("t1", "l2", 32, 32)], Outcome.AT_LEAST, 32),  # nobody knows what level 1 has
        ([hint("t1", "l3", None)], Outcome.UNRESOLVED, None),
    ],
)
def test_prefetches_into_level_two(hints: list[Prefetching], outcome: Outcome, value: int | None) -> None:
    assert said(reported(jump(16), *hints)["l2.prefetch"]) == (outcome, value)


def test_prefetches_whose_lines_come_later_and_later_were_not_all_in_flight() -> None:
    """Seen on a Zen 4 core: 132 prefetches set out, as a queue before takes them, but about a hundred are in flight."""
    creeping = Jump(last=None, most=160, times={n: max(n - 90, 0) / 20 for n in range(1, 160)})
    own = Prefetching(Burst(count=1, hint="t1"), "l2", jump(132, most=160), creeping)
    found = reported(jump(20), hint("t0", "l1", 20), own)["l2.prefetch"]
    assert found.outcome is Outcome.AT_LEAST and isinstance(found.value, int) and 70 <= found.value <= 100


def test_a_few_entries_less_than_others_find_may_be_held_by_a_co_runner() -> None:
    """Seen in a guest: loads 16, prefetches 15 for some seconds. A part kept for others is not so near."""
    for prefetches, outcome in ((15, Outcome.AT_LEAST), (12, Outcome.MEASURED), (16, Outcome.MEASURED)):
        found = reported(jump(16), hint("t0", "l1", prefetches, prefetches), hits=jump(15))
        assert said(found["l1.prefetch"]) == (outcome, prefetches)


def test_beside_a_co_runner_that_was_seen_numbers_are_bounds() -> None:
    found = reported(jump(16), hint("t0", "l1", 16, 16), hits=jump(15), disturbed=0.5)
    assert {each.outcome for each in found.values()} == {Outcome.AT_LEAST}

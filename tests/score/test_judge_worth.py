"""What judgements are worth: rows, shares by machine, what a constant would get right, and pairs of versions."""

from __future__ import annotations

import msgspec
import pytest

from setebench.judge import Judgement, Verdict, accuracy, difference, judge, summary
from setebench.results import Finding, Outcome


def judged(found: Finding, truth: Finding, machine: str = "m") -> Judgement:
    (judgement,) = judge(machine, [found], [truth], frozenset({truth.parameter}))
    return judgement


TRUE = Finding(parameter="latency.l1", value=10.0, unit="cycles")


def named(machine: str, verdicts: dict[str, Verdict]) -> list[Judgement]:
    return [
        Judgement(machine=machine, parameter=name, verdict=verdict, outcome="measured")
        for name, verdict in verdicts.items()
    ]


PAIRS = [f"latency.core_to_core.{a}-{b}.modified" for a in range(4) for b in range(4) if a != b]
LINES = [f"cache.l{level}.line_size" for level in (1, 2, 3)]


def test_pairs_of_cores_and_sizes_of_lines_are_a_row_each() -> None:
    right = named("m", dict.fromkeys((*PAIRS, *LINES, "latency.l1"), Verdict.RIGHT))
    found = summary(1, {"m": 1}, right)
    assert found["by_machine"]["rows"] == found["totals"]["right"] == 3
    one_wrong = named("m", dict.fromkeys(PAIRS, Verdict.RIGHT) | {PAIRS[3]: Verdict.WRONG})
    assert summary(1, {"m": 1}, one_wrong)["totals"]["wrong"] == 1
    some_open = named("m", dict.fromkeys(PAIRS, Verdict.RIGHT) | dict.fromkeys(PAIRS[:5], Verdict.UNRESOLVED))
    assert summary(1, {"m": 1}, some_open)["totals"]["right"] == 1, "as most of them"


def test_machines_without_a_wrong_row_and_four_shares() -> None:
    bound = Finding(parameter="latency.l1", value=8.0, unit="cycles", outcome=Outcome.AT_LEAST)
    far = msgspec.structs.replace(bound, value=7.9)
    wrong = Finding(parameter="latency.l1", value=12.0, unit="cycles")
    answers = {"a": TRUE, "b": bound, "c": far, "d": wrong}
    truths = [msgspec.structs.replace(TRUE, value=10.0 - number / 1000) for number in range(4)]  # no constant is true
    said = [judged(each, truth, name) for (name, each), truth in zip(answers.items(), truths, strict=True)]
    found = summary(1, dict.fromkeys(answers, 1), said)
    own = found["by_machine"]
    assert [own[key]["hits"] for key in ("right", "bounded", "open", "wrong")] == [1, 1, 1, 1]
    assert (own["machines"], own["rows"], own["without_wrong"]["hits"]) == (4, 4, 3)
    assert 0 < own["right"]["low"] < 0.25 < own["right"]["high"] < 1
    assert (found["totals"]["right"], found["totals"]["at_least"]) == (3, 2)


def test_what_a_constant_would_get_right_counts_only_where_it_is_wrong() -> None:
    line, ways = "cache.l1.line_size", "cache.l1.ways"
    said = [
        Judgement(machine=machine, parameter=name, verdict=verdict, truth=truth, outcome="measured")
        for machine, name, verdict, truth in (
            ("a", line, Verdict.RIGHT, 64),
            ("b", line, Verdict.WRONG, 64),
            ("a", ways, Verdict.RIGHT, 8),
            ("b", ways, Verdict.RIGHT, 12),
            ("a", "latency.l4", Verdict.RIGHT, 90.0),
        )
    ]
    found = summary(1, {"a": 1, "b": 2}, said)
    assert found["constant"] == [{"parameter": line, "truth": 64, "machines": 2, "alike": 2}]
    assert (found["totals"]["right"], found["totals"]["wrong"]) == (3, 1)
    assert found["by_machine"]["without_wrong"]["hits"] == 1


def test_a_gain_on_every_machine_is_a_difference_with_an_interval() -> None:
    right, wrong = Verdict.RIGHT, Verdict.WRONG
    alike = dict.fromkeys("abcd", right)
    old = [each for n in range(8) for each in named(f"m{n}", {**alike, "a": wrong})]
    new = [each for n in range(8) for each in named(f"m{n}", {**alike, "a": right if n else wrong})]
    found = difference(old, new)
    shift = found["points"]["right"]
    assert shift["difference"] == pytest.approx(7 / 8 / 4)
    assert 0 < shift["low"] < shift["difference"] < shift["high"]
    assert found["points"]["wrong"]["difference"] == pytest.approx(-7 / 8 / 4)
    assert found["parameters"] == {"a": {"wrong -> right": 7}}
    assert (found["machines"], found["rows"]) == (8, 32)


def test_intervals_that_hold_the_truth_too_seldom_are_named() -> None:
    """Of sixty machines, whose answers are all within the tolerance: one interval in twenty misses, or one in five."""

    def said(name: str, every: int) -> list[Judgement]:
        right = Judgement(machine="", parameter=name, verdict=Verdict.RIGHT, outcome="measured", continuous=True)
        changed = ({"machine": f"m{n}", "covered": n % every > 0} for n in range(60))
        return [msgspec.structs.replace(right, **each) for each in changed]

    rows = accuracy([*said("latency.l1", 20), *said("latency.l2", 5)], lambda _: "latency")["latency"]["parameters"]
    assert [rows[name]["coverage"] for name in ("latency.l1", "latency.l2")] == [[57, 60], [48, 60]]
    assert [rows[name]["miscalibrated"] for name in ("latency.l1", "latency.l2")] == [False, True]

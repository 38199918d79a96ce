"""The scenario's way to the score, on the preset without any disturbance, its third level made small."""

from __future__ import annotations

import pytest
from small_presets import small_file

from setebench.judge import Judgement, Verdict
from setebench.score import Task, judge_all, perform


@pytest.fixture(scope="module")
def judgements() -> dict[str, Judgement]:
    answer = perform(Task(machine=small_file("plain"), scenarios=("latency",), noise="drawn", seed=1, fast=True))
    assert answer.failures == []
    return {
        judgement.parameter: judgement for judgement in judge_all([answer], ("clock.", "latency.l", "latency.memory"))
    }


@pytest.mark.parametrize("level", ["l1", "l2", "l3", "memory"])
def test_every_level_of_the_plain_machine_is_judged_right(judgements: dict[str, Judgement], level: str) -> None:
    judgement = judgements[f"latency.{level}"]
    assert (judgement.verdict, judgement.covered) == (Verdict.RIGHT, True)


def test_nothing_is_reported_wrong_of_the_plain_machine(judgements: dict[str, Judgement]) -> None:
    assert [j for j in judgements.values() if j.verdict is Verdict.WRONG] == []


def test_the_clock_of_the_plain_machine_is_judged_right(judgements: dict[str, Judgement]) -> None:
    clock = {name: j.verdict for name, j in judgements.items() if name.startswith("clock.")}
    assert set(clock.values()) == {Verdict.RIGHT}
    assert {"clock.step", "clock.cycles_per_tick", "clock.overhead.lfence"} <= set(clock)

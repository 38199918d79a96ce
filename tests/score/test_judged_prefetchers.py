"""Prefetchers without a family before the judge: a description is right, a family in its place is wrong."""

from __future__ import annotations

import pytest

from setebench.judge.verdict import Judgement, Verdict, judge
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.truth import truth

LEVELS = (spec.Level(sets=64, ways=8, latency_cycles=4.0), spec.Level(sets=1024, ways=8, latency_cycles=14.0))
START = "prefetcher.l2.other."


def machine(*prefetchers: spec.AnyPrefetcher) -> spec.Machine:
    return spec.Machine(name="m", levels=LEVELS, prefetchers=prefetchers)


def judged(of: spec.Machine, *findings: Finding) -> dict[str, Judgement]:
    truths = truth(of)
    known = frozenset(each.parameter for each in truth(machine(spec.AccessMap(level=2), spec.Streamer(level=2))))
    return {each.parameter: each for each in judge("m", findings, truths, known)}


OTHERS = [spec.BestOffset(level=2), spec.AccessMap(level=2), spec.SignaturePath(level=2)]


@pytest.mark.parametrize("prefetcher", OTHERS)
def test_what_is_not_reported_is_open_and_the_truth_itself_is_right(prefetcher: spec.AnyPrefetcher) -> None:
    of = machine(prefetcher)
    names = {each.parameter for each in truth(of) if each.parameter.startswith(START)}
    assert {START + name for name in ("present", "patterns", "lead", "lead_after_runs", "trained_by")} <= names
    open_ones, right = judged(of), judged(of, *truth(of))
    assert {open_ones[name].verdict for name in names} == {Verdict.UNRESOLVED}
    assert {right[name].verdict for name in names} == {Verdict.RIGHT}


@pytest.mark.parametrize("prefetcher", OTHERS)
def test_a_family_in_their_place_is_wrong(prefetcher: spec.AnyPrefetcher) -> None:
    claims = [
        Finding(parameter="prefetcher.l2.stream.present", value=True, unit="bool"),
        Finding(parameter="prefetcher.l2.stream.degree", value=1, unit="lines"),
    ]
    found = judged(machine(prefetcher), *claims)
    assert {found[claim.parameter].verdict for claim in claims} == {Verdict.WRONG}


def test_other_prefetchers_where_there_are_none_are_wrong() -> None:
    claim = Finding(parameter=START + "present", value=True, unit="bool")
    assert judged(machine(spec.Streamer(level=2)), claim)[claim.parameter].verdict is Verdict.WRONG


def test_a_lead_of_one_line_more_is_wrong() -> None:
    of = machine(spec.Streamer(level=2, leads_by="new_line", degree=2))
    name = "prefetcher.l2.stream.lead"
    true = next(each for each in truth(of) if each.parameter == name)
    assert isinstance(true.value, list)
    other = Finding(parameter=name, value=[*true.value[:-1], 99], unit="list")
    assert judged(of, other)[name].verdict is Verdict.WRONG
    assert judged(of, true)[name].verdict is Verdict.RIGHT

"""The notation of patterns, the plot, and rules that explain made-up curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from setebench.scenarios.prefetcher_map.curves import BY_ONE, Curve, Seen, steps_of
from setebench.scenarios.prefetcher_map.findings import named, others
from setebench.scenarios.prefetcher_map.fit import Fit
from setebench.scenarios.prefetcher_map.model import play
from setebench.scenarios.prefetcher_map.params import Params
from setebench.scenarios.prefetcher_map.pattern import parse
from setebench.scenarios.prefetcher_map.rules import isolated

from setebench.errors import UsageError
from setebench.experiments.presence import Access, Trial
from setebench.report.plots.maps import map_figure

RUN = tuple(range(4, 28))
STREAM: dict[str, Any] = {
    "trigger": 4, "counts": "run", "degree": 2, "max_distance": 8, "leads_by": "new_line", "ramp": (), "far": 0,
    "directions": "both", "store": True, "prefetch": True, "crosses_4k": False, "l1_prefetcher": 1, "fills": "l2",
}  # fmt: skip


def made(name: str, lines: tuple[int, ...], ip: int | None, model: dict[str, Any], late: float) -> Seen:
    """A curve as a machine with these prefetchers shows it, whose lines come in a fraction of repetitions."""
    curve = Curve(name, Trial(tuple(Access(64 * line, ip=ip) for line in lines)), (1, 2, 3, 4, 6, 8, 12, len(lines)))
    after = play(model, steps_of(curve.trial.accesses, 64), 64)
    present = np.array([[late * (after[n - 1][1] >> line & 1) for line in range(64)] for n in curve.counts])
    first = np.array([[late * (after[n - 1][0] >> line & 1) for line in range(64)] for n in curve.counts])
    for row, count in enumerate(curve.counts):
        present[row, list(curve.touched(64, count))] = np.nan
    levels = np.where(np.isnan(present), -1, np.where(first > 0, 0, np.where(present > 0, 1, 2)))
    return Seen(curve, ("l1", "l2", "memory"), present, first, levels)


def curves(model: dict[str, Any], late: float = 1.0) -> dict[str, Seen]:
    down = tuple(63 - line for line in RUN)
    ways: dict[str, tuple[tuple[int, ...], int | None]] = {
        "base": (RUN, None), "one instruction": (RUN, 1), "descending, one instruction": (down, 1),
        "every 5th line": (tuple(range(2, 62, 5)), None),
        "every 3rd line, one instruction": (tuple(range(2, 62, 3)), 1),
        "gaps of two and three": (tuple(np.cumsum([2, *[2, 3] * 11]).tolist()), None),
    }  # fmt: skip
    return {name: made(name, lines, ip, model, late) for name, (lines, ip) in ways.items()}


@pytest.mark.parametrize("late", [1.0, 0.9])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"trigger": 10, "counts": "distinct"},
        {"degree": 4, "ramp": (2, 3), "leads_by": "batch", "max_distance": 16},
        {"directions": "up", "degree": 1},
    ],
    ids=["each line", "any order", "batches", "up"],
)
def test_the_rules_of_a_stream_explain_its_curves(rules: dict[str, Any], late: float) -> None:
    true = {"l2.stream": {**STREAM, **rules}}
    fit = Fit(curves(true, late), 64, Params())
    assert list(fit.model) in (["l2.stream"], ["l1.stream"])  # without lines held in level 2 they differ in nothing
    found = next(iter(fit.model))
    for key in ("trigger", "counts", "degree", "directions"):
        assert true["l2.stream"][key] in fit.plausible(found, key)
    assert fit.best < Params().as_good


@pytest.mark.parametrize("rules", [{"l2.stream": STREAM}, {"l1.stream": {**STREAM, "fills": "l2"}}])
def test_of_two_levels_that_explain_the_curves_alike_neither_is_named(rules: dict[str, Any]) -> None:
    reports = named(Fit(curves(rules), 64, Params()))  # no lines held in level 2 say which accesses train it
    assert {reports[name].findings["present"].value for name in ("l1.stream", "l2.stream")} == {None}


STRIDE: dict[str, Any] = {
    "trigger": 4, "degree": 3, "max_distance": 12, "directions": "both", "indexed_by": "ip", "min_stride": 2,
    "level": 1, "fills": "l1", "store": True, "prefetch": False, "crosses_4k": False,
}  # fmt: skip
PAIR = {"store": True, "prefetch": True, "l1_prefetcher": 0, "fills": "l2"}
NEXT = {"trigger": 1, "only_misses": True, "degree": 2, "crosses_4k": False, "fills": "l1"}


@pytest.mark.parametrize(
    "true",
    [
        {"l2.pair": PAIR, "l2.stream": {**STREAM, "l1_prefetcher": 0}},
        {
            "l1.stride": {**STRIDE, "degree": 1, "max_distance": 8, "alone": True, "min_stride": 0},
            "l2.stream": {**STREAM, "trigger": 12},
        },
        {"l1.next_line": {**NEXT, "degree": 1}, "l2.next_line": {**NEXT, "fills": "l2", "l1_prefetcher": 1}},
    ],
    ids=["pair", "far stride", "next lines"],
)
def test_prefetchers_beside_each_other_are_not_made_up_for_by_others(true: dict[str, Any]) -> None:
    fit = Fit(curves(true), 64, Params())
    assert sorted(name[3:] for name in fit.model) == sorted(name[3:] for name in true)
    assert fit.best < Params().as_good


def test_what_no_rule_explains_is_counted() -> None:
    shown = curves({})
    assert Fit(shown, 64, Params()).model == {}
    shown["base"].present[3:, 60] = 1.0
    fit = Fit(shown, 64, Params())
    assert sum(int(fit.unexplained(seen).sum()) for seen in fit.ordered) == 5


LEADS = {
    "one.stride_1": [5, 4, 4, 6, 8], "one.stride_2": [0, 0, 0, 6, 10, 14, 18], "one.stride_4": [0, 0, 0, 12, 20, 16],
    "own.stride_1": [1, 0, 4, 6, 8], "own.stride_2": [1, 0, 2, 2, 2], "own.stride_4": [1, 0, 0, 0, 0],
}  # fmt: skip


def test_strides_by_instruction_are_isolated() -> None:
    found = isolated(curves({"l1.stride": STRIDE})[BY_ONE], LEADS, 64, Params())
    assert found is not None
    assert (found["trigger"], found["degree"], found["max_distance"]) == (4, 3, 9)


@pytest.mark.parametrize(
    ("rules", "leads"),
    [
        ({}, {}),
        ({"l1.stride": STRIDE}, {"own.stride_4": [0, 0, 0, 12]}),
        ({"l1.stride": STRIDE}, {"one.stride_4": [3]}),
    ],
    ids=["nothing", "by any instruction", "the next lines alone"],
)
def test_what_other_runs_bring_as_well_is_no_stride_by_instruction(
    rules: dict[str, Any], leads: dict[str, list[int]]
) -> None:
    assert isolated(curves(rules)[BY_ONE], {**LEADS, **leads}, 64, Params()) is None


def test_a_behaviour_without_a_name_has_its_lead() -> None:
    shown = curves({"l2.stream": STREAM})
    shown["ordered by address"] = shown["one instruction"]
    fit = Fit(shown, 64, Params())
    fit.take({})
    inner, outer = others(fit, LEADS, {"l1": [], "l2": [1, 2, 4]})
    assert (inner.findings["present"].value, outer.findings["present"].value) == (None, True)
    assert outer.findings["lead"].value == LEADS["own.stride_1"]  # by one instruction they lead by no less
    assert outer.findings["lead.one.stride_1"].value == LEADS["one.stride_1"]
    assert outer.findings["lead.own.stride_2"].value == LEADS["own.stride_2"]


def test_a_pattern_is_read_word_by_word() -> None:
    steps = parse("4 store:5, t0:6 7@A 8@A", 64, 64).accesses
    assert [(step.at // 64, step.kind) for step in steps[:3]] == [(4, "load"), (5, "store"), (6, "t0")]
    assert steps[3].ip == steps[4].ip is not None


@pytest.mark.parametrize("text", ["", "64", "jump:4", "4-6"])
def test_a_word_that_is_no_access_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text, 64, 64)


def test_the_plot_shows_every_curve() -> None:
    shown = {name: seen.evidence(64) for name, seen in curves({"l2.stream": STREAM}).items()}
    figure = map_figure({"prefetchers": shown})
    assert [axes.get_title() for axes in figure.axes] == list(shown)
    drawn = figure.axes[0].get_images()[0].get_array()
    assert drawn is not None and drawn[3].tolist() == shown["base"]["nearest"][3]

"""The papers' figures from counted events: what they show of a simulated machine whose events are without fault."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from matplotlib import colors
from setebench.scenarios.counter_curves import THRESHOLD
from setebench.scenarios.counter_curves.experiments import Params, threshold
from setebench.scenarios.counter_curves.figures import FIGURES, draw

import setebench.sim
from setebench import registry, session
from setebench.errors import SetebenchError, UnsupportedError
from setebench.machine import open_machine
from setebench.scenario import Context

PRESETS = Path(setebench.sim.__file__).parent / "presets"
SMALL = Params(delays=(0, 64, 512), repeats=2, rounds=64, smallest_bytes=8192, largest_bytes=1 << 19, lines=1 << 12)
Point = dict[str, Any]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sandy Bridge of the paper's Table VI with a PMU without fault."""
    text = (PRESETS / "sandybridge.toml").read_text() + "\n[pmu]\n"
    path = tmp_path_factory.mktemp("machine") / "counted.toml"
    path.write_text(text)
    return f"sim:{path}"


@pytest.fixture(scope="module")
def points(counted: str) -> dict[str, list[Point]]:
    """What each figure's experiment counts, in small."""
    found: dict[str, list[Point]] = {}
    with closing(open_machine(counted)) as machine:
        for name in ("helm-6", "helm-9", "molka-4", "molka-7"):
            found[name] = list(FIGURES[name].experiment(Context(machine=machine), SMALL))
        with pytest.raises(UnsupportedError, match="can't be switched off"):
            next(FIGURES["helm-3"].experiment(Context(machine=machine), SMALL))
    found["helm-3"] = found["helm-9"]  # by the same reader
    same = {
        name: next(known for known in found if FIGURES[known].experiment is FIGURES[name].experiment)
        for name in FIGURES
    }
    return {name: found[same[name]] for name in FIGURES}


def test_every_figure_is_drawn_in_grey_with_units(points: dict[str, list[Point]]) -> None:
    for name in FIGURES:
        figure = draw({"counter_curves": {"figure": name, "points": points[name]}})
        (axes,) = figure.axes
        assert axes.get_xlabel() and axes.get_ylabel() and figure.legends and axes.lines
        assert ("Helm" if name.startswith("helm") else "Molka") in axes.get_title()
        for line in axes.lines:
            red, green, blue, _ = colors.to_rgba(line.get_color())
            assert red == green == blue


def test_saturation_is_found_where_more_threads_read_no_more(points: dict[str, list[Point]]) -> None:
    cycles, reason = threshold(points["helm-9"], SMALL)
    assert cycles is not None and 200 < cycles < 280, reason  # memory takes 200 cycles without load
    alone = [point for point in points["helm-9"] if point["threads"] == 1]
    assert threshold(alone, SMALL)[0] is None
    lacking = [point | {"load_miss_latency": []} for point in points["helm-9"]]
    assert "can't be counted" in threshold(lacking, SMALL)[1]


def test_a_triad_moves_the_volume_of_its_code(points: dict[str, list[Point]]) -> None:
    moved = {point["role"]: point["mbytes"][0] for point in points["helm-6"]}
    assert moved["mem_read"] == pytest.approx(moved["read by the code"], rel=0.02)
    assert moved["mem_write"] == pytest.approx(moved["written by the code"], rel=0.02)


def test_a_chase_stalls_for_what_its_steps_take_and_multiplications_hide_none_of_it(
    points: dict[str, list[Point]],
) -> None:
    largest = {point["work"]: point for point in points["molka-7"]}
    assert largest[""]["stall_l1d_miss"][0] == pytest.approx(largest[""]["time of a step"][0], rel=0.15)
    assert largest["chained"]["no_execute"][0] > largest["chained"]["stall_l1d_miss"][0] + 24


def test_lines_come_from_the_level_that_holds_the_working_set(points: dict[str, list[Point]]) -> None:
    largest = {point["kernel"]: point for point in points["molka-4"] if point["bytes"] == SMALL.largest_bytes}
    smallest = [point for point in points["molka-4"] if point["bytes"] == SMALL.smallest_bytes]
    assert largest["load"]["l2_fill"] == pytest.approx([1], abs=0.05)
    assert largest["store"]["l2_writeback"] == pytest.approx([1], abs=0.05)
    assert largest["load"]["mem_read"] == pytest.approx([0], abs=0.05)
    assert all(point["l1d_fill"] == pytest.approx([0], abs=0.01) for point in smallest)


def test_the_scenario_reports_the_threshold_and_is_run_by_name_only(counted: str) -> None:
    document = session.run("counter-curves", counted, figure="helm-9", fast=True)
    assert document[THRESHOLD].unit == "cycles" and document.evidence["counter_curves"]["points"]
    assert registry.scenario("counter-curves").on_request


def test_a_machine_that_counts_nothing_is_refused_in_one_line() -> None:
    with pytest.raises(UnsupportedError, match="count"):
        session.run("counter-curves", "sim:plain")
    with pytest.raises(SetebenchError, match="nothing to plot"):
        draw({})

"""What the map says of prefetchers without a name is what they do, by their rules alone."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from quiet_machines import HUGE, levels, quiet
from setebench.scenarios.prefetcher_map.descriptions.behaviour import report_behaviour
from setebench.scenarios.prefetcher_map.families import FAMILIES
from setebench.scenarios.prefetcher_map.found import Found
from setebench.scenarios.prefetcher_map.lab import Lab
from setebench.scenarios.prefetcher_map.report import Report
from swept_machines import swept

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import measure_references
from setebench.sim import spec
from setebench.sim.truth.parameters import truth

SHAPE: dict[str, Any] = {"l3": None, "l2": {"sets": 512}}
AT_LEVEL_1 = {"level": 1, "fills": "l1"}
STREAM = spec.Streamer(level=2, trigger=2, degree=2, max_distance=12)
BY_CHANCE = ("lead", "lead_after_runs", "max_distance", "trigger")
DELTAS = spec.LocalDeltas(**AT_LEVEL_1)


def said(*prefetchers: spec.AnyPrefetcher, there: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """What is reported of the first one, without its level's prefix, where these families are known to be `there`."""
    level = prefetchers[0].level
    with closing(quiet(prefetchers=prefetchers, **{**SHAPE, **changes})) as machine:
        context = swept(machine, fast=True)
        region = working_memory(context)
        references = measure_references(context, region)
        lab, huge = (Lab(context, each, references) for each in (region, machine.allocate(16 * HUGE, HUGE)))
        lab.known.finds = {family.identity: Found(family.identity in there) for family in FAMILIES}
        lab.known.finds[f"l{level}.other"] = Found(True)
        huge.know_as(lab)
        report = Report(f"l{level}.other")
        report_behaviour(lab, huge, prefetchers[0].fills, report)
    return {finding.parameter.rpartition(".")[2]: finding.value for finding in report}


def true_of(prefetcher: spec.AnyPrefetcher, **changes: Any) -> dict[str, Any]:
    """The truth in the same form, of what `report_behaviour` speaks of."""
    shape = {name: changes.pop(name, SHAPE.get(name)) for name in SHAPE}
    file = spec.Machine(name="quiet", levels=levels(**shape), prefetchers=(prefetcher,), **changes)
    start = f"prefetcher.l{prefetcher.level}.other."
    true = {each.parameter.removeprefix(start): each.value for each in truth(file) if each.parameter.startswith(start)}
    return {name: value for name, value in true.items() if name not in ("present", "trained_by", "fills")}


@pytest.mark.parametrize(
    "prefetcher",
    [
        spec.AccessMap(level=2),
        spec.SpatialPattern(level=2),
        DELTAS,
        spec.InstructionClasses(**AT_LEVEL_1),
        spec.NextPage(**AT_LEVEL_1, degree=2),
        spec.LinePair(**AT_LEVEL_1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_described_is_what_the_rules_do(prefetcher: spec.AnyPrefetcher) -> None:
    assert said(prefetcher) == true_of(prefetcher)


def test_what_level_one_gets_is_described_beside_a_stream_of_level_two() -> None:
    assert said(DELTAS, STREAM, there=("l2.stream",)) == true_of(DELTAS)


def test_nothing_is_described_that_a_family_of_the_level_may_have_brought() -> None:
    assert set(said(DELTAS, there=("l1.next_line",)).values()) == {None}


@pytest.mark.parametrize(
    "prefetcher", [spec.SignaturePath(level=2), spec.BestOffset(level=2, max_offset=16)], ids=["path", "offset"]
)
def test_what_goes_by_chance_is_open_or_right(prefetcher: spec.AnyPrefetcher) -> None:
    """A load that asks takes confidence from all predictions behind it, and an offset is learned anew meanwhile."""
    true, found = true_of(prefetcher), said(prefetcher)
    assert {name for name, value in found.items() if value not in (None, true[name])} == set()
    assert {name for name, value in found.items() if value is None} <= {*BY_CHANCE, "stopped_by"}


def test_no_more_lines_come_than_there_are_miss_entries() -> None:
    recalled = spec.SpatialPattern(level=2)
    few = {**SHAPE, "l2": {"sets": 512, "mshr_entries": 16}}
    found = said(recalled, **few)
    assert 0 < found["lead_after_runs"][0] < 16
    assert found == true_of(recalled, **few)


def test_pages_of_few_lines_are_described() -> None:
    assert said(DELTAS, line_size_bytes=128) == true_of(DELTAS, line_size_bytes=128)

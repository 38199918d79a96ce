"""Size, ways and inclusion of the caches behind the first, from what is left of traversals and beside streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy import inclusion, outer_caches
from setebench.scenarios.hierarchy.private_walk import Params as WalkParams
from setebench.scenarios.hierarchy.private_walk import private_walk

from setebench.calibration import Calibration, Levels
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
"""Of the quiet machine, about."""

FIRST_LINES, REGION_BYTES = 512, 64 << 20


def context(**changes: object) -> Context:
    return Context(machine=quiet(**changes), calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))


@pytest.mark.parametrize(
    ("second", "pairs"),
    [
        ({"sets": 1024, "ways": 8}, False),
        ({"sets": 1024, "ways": 12, "replacement": "random"}, False),
        ({"sets": 1024, "ways": 8, "inclusion": "exclusive", "hashed_index": True}, False),
        ({"sets": 512, "ways": 16, "replacement": "srrip"}, True),
    ],
)
def test_a_second_cache(second: dict[str, object], pairs: bool) -> None:
    """Whatever it replaces, with a hashed index, beside a prefetcher of pairs: the value, or a true bound."""
    prefetchers = (spec.LinePair(level=2),) if pairs else ()
    asked = context(l2=second, prefetchers=prefetchers)
    region = asked.machine.allocate(REGION_BYTES, 4096)
    found = outer_caches.outer_cache(asked, region, "l2", [FIRST_LINES], outer_caches.Params())
    size, ways = found.findings()
    true = int(str(second["sets"])) * int(str(second["ways"])) * 64
    assert size.value == true if size.outcome is Outcome.MEASURED else 0.5 * true <= size.value <= true
    assert ways.value == second["ways"] if ways.outcome is Outcome.MEASURED else ways.value <= int(str(second["ways"]))


@pytest.mark.parametrize("how", ["inclusive", "exclusive", "neither"])
def test_inclusion(how: str) -> None:
    asked = context(l2={"sets": 1024, "ways": 8, "inclusion": how})
    region = asked.machine.allocate(REGION_BYTES, 4096)
    question = inclusion.Question(level=2, lines=8192, first=FIRST_LINES)
    assert inclusion.inclusive(asked, region, question, inclusion.Params()).value is (how == "inclusive")


def test_a_first_cache_that_gives_up_lines_in_use_tells_no_inclusion() -> None:
    asked = context(l1={"replacement": "random"}, l2={"sets": 1024, "ways": 8})
    region = asked.machine.allocate(REGION_BYTES, 4096)
    question = inclusion.Question(level=2, lines=8192, first=FIRST_LINES)
    assert inclusion.inclusive(asked, region, question, inclusion.Params()).outcome is Outcome.UNRESOLVED


def test_one_loss_in_a_pass_is_inclusion_and_none_is_not() -> None:
    params = inclusion.Params()
    assert inclusion.inclusion_posterior(inclusion.Losses(1.0, 0.05, 0.0), params)[True] > 0.95
    assert inclusion.inclusion_posterior(inclusion.Losses(0.0, 0.05, 0.0), params)[False] > 0.95
    often = inclusion.inclusion_posterior(inclusion.Losses(0.5, 0.05, 20.0), params)
    assert max(often.values()) < 0.9


def test_the_posterior_of_drawn_traversals_holds_the_truth() -> None:
    """Pages drawn into classes of sets, without any machine: 20 experiments, of which none is surely wrong."""
    sets, ways = 512, 12
    rng, params = np.random.default_rng(3), outer_caches.Params()
    for _ in range(20):
        points = []
        for ratio in np.tile(np.geomspace(params.low, params.high, params.lengths), 12):
            pages = int(ratio * sets * ways / 64)
            classes = np.bincount(rng.integers(0, sets // 64, pages), minlength=sets // 64)
            missing = float(np.maximum(classes - ways, 0).sum()) / pages
            points.append(outer_caches.Point(pages, missing, 0.02, missing))
        posterior, _ = outer_caches.size_posterior(points, 64, [FIRST_LINES], False, params)
        truth = sum(weight for each, weight in posterior.items() if each.sets * each.ways == sets * ways)
        assert truth > 0.01


def test_a_traversal_that_memory_has_no_room_for_is_none() -> None:
    asked = context()
    region = asked.machine.allocate(8 << 20, 4096)
    second = outer_caches.OuterCache("l2", 64, lines={65536: 1.0})
    assert not len(private_walk(asked, region, {"l2": second}, WalkParams()))
    small = replace(second, lines={1024: 1.0})
    assert len(private_walk(asked, region, {"l2": small}, WalkParams()))

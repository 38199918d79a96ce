"""Size, ways and inclusion of the caches behind the first, from how they fill, and from lines in use beside streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy import inclusion, outer_caches
from setebench.scenarios.hierarchy.cores.transfers import private_walk
from setebench.scenarios.hierarchy.filling_model import Curve, Known, ModelParams, size_posterior

from setebench.calibration import Calibration, Levels
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
"""Of the quiet machine, about."""

FIRST_LINES, REGION_BYTES = 512, 64 << 20


def context(**changes: object) -> Context:
    return Context(machine=quiet(**changes), calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))


def first(lines: int = FIRST_LINES, index: str = "linear") -> outer_caches.OuterCache:
    return outer_caches.OuterCache("l1", 64, lines={lines: 1.0}, index={index: 1.0})


@pytest.mark.parametrize(
    ("second", "pairs"),
    [
        ({"sets": 1024, "ways": 12, "replacement": "random"}, False),
        ({"sets": 1024, "ways": 8, "inclusion": "exclusive", "hashed_index": True}, False),
        ({"sets": 512, "ways": 16, "replacement": "srrip"}, True),
    ],
)
def test_a_second_cache(second: dict[str, object], pairs: bool) -> None:
    """Whatever it replaces, with a hashed index, beside a prefetcher of pairs: the value, or that as a bound."""
    prefetchers = (spec.LinePair(level=2),) if pairs else ()
    asked = context(l2=second, prefetchers=prefetchers)
    region = asked.machine.allocate(REGION_BYTES, 4096)
    found = outer_caches.outer_cache(asked, region, "l2", [first()], outer_caches.Params())
    size, ways, index = found.findings()
    assert size.value == int(str(second["sets"])) * int(str(second["ways"])) * 64
    assert ways.value == second["ways"]
    assert size.outcome in (Outcome.MEASURED, Outcome.AT_LEAST)
    assert index.value == ("hashed" if second.get("hashed_index") else "linear")


def test_slices_of_a_third_cache_are_a_hash_or_open() -> None:
    """Seven slices by a mix of all bits; of two by the parity of some, lines of a page share sets as without a hash."""
    for slices, ways, index in ((7, 4, "hashed"), (2, 8, None)):
        asked = context(l3={"sets": 2048, "slices": slices, "ways": ways})
        region = asked.machine.allocate(REGION_BYTES, 4096)
        second = replace(first(8192), name="l2")
        found = outer_caches.outer_cache(asked, region, "l3", [first(), second], outer_caches.Params())
        size, _, hashed = found.findings()
        true = slices * 2048 * ways * 64
        assert size.value == true if size.outcome is Outcome.MEASURED else 0.7 * true <= size.value <= true
        assert hashed.value == index


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


def drawn(sets: int, ways: int, rng: np.random.Generator) -> Curve:
    """The mean curve of 32 fillings by pages drawn into classes of sets, of which so many loads are timed."""
    params, classes = outer_caches.Params(), sets // 64
    each = max(1, int(params.high * classes * ways / params.stops))
    pages = each * np.arange(1, params.stops + 1)
    chosen = rng.integers(0, classes, (32, pages[-1]))
    missing = np.array(
        [[np.maximum(np.bincount(one[:n], minlength=classes) - ways, 0).sum() / n for n in pages] for one in chosen]
    )
    timed = rng.binomial(64, missing).mean(axis=0).reshape(params.bins, -1).mean(axis=1) / 64
    error = np.sqrt(np.maximum(timed * (1 - timed), 0.01) / (64 * 32 * params.stops / params.bins))
    return Curve(pages.astype(float), timed, error, early=0.0, together=0.0, young=0.0, longest=1.0)


def test_the_posterior_of_drawn_fillings_holds_the_truth() -> None:
    """Without any machine: of 20 experiments no one gives another size 95 %, and most give that to the true one."""
    sets, ways = 512, 12
    rng, decided = np.random.default_rng(3), 0
    for _ in range(20):
        posterior, left = size_posterior(drawn(sets, ways, rng), 32, Known([FIRST_LINES], 64), ModelParams())
        truth = sum(weight for each, weight in posterior.items() if each.lines == sets * ways)
        assert truth > 0.05
        assert left < outer_caches.Params().most_left
        decided += truth > 0.95
    assert decided >= 14


def test_lines_that_go_while_there_is_room_are_no_larger_cache_of_few_ways() -> None:
    """Of a cache of 16 ways lines go with age, before its sets are full: no candidate explains that."""
    whole = drawn(2048, 16, np.random.default_rng(5))
    kept = 1.0 - 0.4 * whole.mean_pages / whole.pages[-1]
    aged = replace(whole, missing=1.0 - (1.0 - whole.missing) * kept)
    for curve, explained in ((whole, True), (aged, False)):
        _, left = size_posterior(curve, 32, Known([FIRST_LINES], 64), ModelParams())
        assert (left < outer_caches.Params().most_left) is explained


def test_a_traversal_that_memory_has_no_room_for_is_none() -> None:
    asked = context()
    region = asked.machine.allocate(8 << 20, 4096)
    second = outer_caches.OuterCache("l2", 64, lines={65536: 1.0})
    assert not len(private_walk(asked, region, {"l2": second}))
    small = replace(second, lines={1024: 1.0})
    assert len(private_walk(asked, region, {"l2": small}))


def test_ways_by_filling_alone_are_a_bound() -> None:
    """An L2 of 8 ways in a guest filled as one of 2; lines of one set show how many there are."""
    filled = outer_caches.OuterCache("l2", 64, lines={16384: 1.0}, ways={8: 1.0}, both={(16384, 8): 1.0})
    for found, outcome in ((filled, Outcome.AT_LEAST), (filled.with_ways(8), Outcome.MEASURED)):
        ways = next(each for each in found.findings() if each.parameter == "cache.l2.ways")
        assert (ways.outcome, ways.value) == (outcome, 8)

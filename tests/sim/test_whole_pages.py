"""How many whole pages find room in second caches of known truth."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import PAGE, quiet

from setebench.calibration import Calibration, Levels
from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.whole_pages import WholePages, whole_pages, with_pages
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = (4.0, 14.0, 46.0, 300.0)
UNKNOWN = Geometry(None, None, "unknown", least_bytes=1 << 16)


def found(second: dict[str, Any], **changes: Any) -> Geometry:
    """What pages tell of such a second cache, of which a stream told four fifths."""
    machine = quiet(l1={"ways": 2}, l2=second, **changes)
    region = machine.allocate(16 << 20, PAGE)
    held = 0.8 * second["sets"] * second["ways"]
    return with_pages(UNKNOWN, whole_pages(Context(machine=machine), region, 128, CYCLES, held, ways=False), 64)


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize(("sets", "ways", "replacement"), [(512, 8, "lru"), (256, 8, "tree_plru"), (256, 8, "random")])
def test_a_full_cache_tells_its_size(sets: int, ways: int, replacement: str, hashed: bool) -> None:
    second = {"sets": sets, "ways": ways, "replacement": replacement, "hashed_index": hashed}
    assert found(second).size == sets * ways * 64


@pytest.mark.parametrize(
    ("second", "prefetchers"),
    [
        # the first cache holds some pages in addition
        ({"sets": 256, "ways": 4, "inclusion": "exclusive"}, ()),
        ({"sets": 256, "ways": 8, "inclusion": "exclusive", "replacement": "random"}, ()),
        # pages of an overfull set miss in turns
        ({"sets": 512, "ways": 5, "inclusion": "inclusive", "replacement": "tree_plru"}, ()),
        # prefetchers hide most of what is missing
        (
            {"sets": 256, "ways": 8, "replacement": "random"},
            (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1")),
        ),
    ],
)
def test_never_more_than_there_is(second: dict[str, Any], prefetchers: tuple[Any, ...]) -> None:
    own, truth = found(second, prefetchers=prefetchers), second["sets"] * second["ways"] * 64
    assert own.size in (None, truth)
    assert (own.least_bytes or 0) <= truth


def test_nothing_where_a_third_cache_may_be_hidden() -> None:
    machine = quiet(l2={"sets": 256, "ways": 8})
    context = Context(machine=machine)
    region = machine.allocate(16 << 20, PAGE)
    pages = whole_pages(context, region, 512, (4.0, 14.0, 300.0), 1600.0, ways=False)
    assert with_pages(UNKNOWN, pages, 64) is UNKNOWN


def told(first: dict[str, Any], second: dict[str, Any], **changes: Any) -> WholePages:
    """What pages tell of the ways of such a second cache, and of inclusion."""
    machine = quiet(l1=first, l2=second, **changes)
    region = machine.allocate(16 << 20, PAGE)
    held = 0.8 * second["sets"] * second["ways"]
    lines = 64 * first["ways"]
    cycles = dict(zip(("l1", "l2", "l3", "memory"), CYCLES, strict=True))
    known = Calibration(levels=Levels(walks={}, cycles=cycles))
    context = Context(machine=machine, fast=True, calibration=known)
    return whole_pages(context, region, lines, CYCLES, held, ways=True)


FOLLOWED = (spec.LinePair(level=2), spec.NextLine(level=1, fills="l1"))


@pytest.mark.parametrize(
    ("first", "second", "prefetchers"),
    [
        ("random", {"sets": 512, "ways": 4, "replacement": "tree_plru", "inclusion": "inclusive"}, ()),
        ("lru", {"sets": 512, "ways": 8, "replacement": "random", "hashed_index": True}, FOLLOWED),
        ("tree_plru", {"sets": 256, "ways": 16, "replacement": "tree_plru", "hashed_index": True}, ()),
        ("random", {"sets": 256, "ways": 20, "hashed_index": True}, FOLLOWED),
        ("tree_plru", {"sets": 512, "ways": 4, "inclusion": "inclusive", "hashed_index": True}, FOLLOWED),
        ("lru", {"sets": 512, "ways": 8, "replacement": "random", "inclusion": "inclusive"}, ()),
    ],
)
def test_pages_that_share_sets_tell_the_ways(first: str, second: dict[str, Any], prefetchers: tuple[Any, ...]) -> None:
    pages = told({"ways": 8, "replacement": first}, second, prefetchers=prefetchers)
    assert pages.ways == second["ways"]
    includes = second.get("inclusion") == "inclusive"
    assert pages.inclusive[0] in ((None, includes) if first == "random" else (includes,)), pages.inclusive


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # prefetchers hide most of the few lines that are missing
        ("lru", {"sets": 512, "ways": 4, "inclusion": "exclusive", "hashed_index": True}),
        # pages hold several lines of a set
        ("lru", {"sets": 32, "ways": 32}),
    ],
)
def test_never_other_ways_than_there_are(first: str, second: dict[str, Any]) -> None:
    pages = told({"ways": 8, "replacement": first}, second, prefetchers=FOLLOWED)
    assert pages.ways in (None, second["ways"])
    assert pages.inclusive[0] in (None, second.get("inclusion") == "inclusive")

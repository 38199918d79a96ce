"""Sizes of caches where something beside the program takes lines of them or answers sooner: what is called measured is
true, and a bound never says more."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import L1, L2, L3, LINE, MEMORY, levels, quiet
from setebench.scenarios.hierarchy import outer_caches

from setebench.calibration import Calibration, Levels
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.sim import spec

FIRST_LINES, SECOND_LINES, FOURTH = 512, 2048, 120.0
SHAPES: dict[str, Any] = {"l2": {"sets": 512, "ways": 4}, "l3": {"sets": 1024, "ways": 8}}
OPEN_ROWS = spec.Memory(latency_cycles=MEMORY, banks=16, row_bytes=1024, row_hit_saves_cycles=70)
BESIDE = spec.Noise(
    co_runner_interval_cycles=1.0,
    co_runner_cycles=1e13,
    co_runner_entries=0,
    co_runner_issue_share=0.0,
    co_runner_line_interval_cycles=400.0,
)


def lost(interval: float, share: float) -> dict[str, Any]:
    return {"noise": spec.Noise(loss_interval_cycles=interval, loss_share=share)}


def size(level: str, **changes: Any) -> tuple[Outcome, int]:
    """What is found of a level's size, in lines."""
    cycles: dict[str, float] = {"l1": L1, "l2": L2, "l3": L3, "l4": FOURTH, "memory": MEMORY}
    machine = quiet(**{**SHAPES, **changes})
    asked = Context(machine=machine, fast=True, calibration=Calibration(levels=Levels(walks={}, cycles=cycles)))
    before = [
        outer_caches.OuterCache(name, 64, lines={lines: 1.0}, index={"linear": 1.0})
        for name, lines in (("l1", FIRST_LINES), ("l2", SECOND_LINES))
    ]
    region = machine.allocate(64 << 20, 4096)
    found = outer_caches.outer_cache(asked, region, level, before[: int(level[1]) - 1], outer_caches.Params())
    first = next(iter(found.findings()))
    assert isinstance(first.value, int), first.reason
    return first.outcome, first.value // LINE


@pytest.mark.parametrize(
    ("level", "lines", "changes"),
    [
        ("l2", SECOND_LINES, lost(3e5, 0.03)),  # 15 % of the lines in half a millisecond, in bursts
        ("l2", SECOND_LINES, lost(5e4, 0.01)),
        ("l2", SECOND_LINES, lost(1e7, 0.4)),  # hardly ever, and then nearly half
        ("l3", 8192, {"memory": OPEN_ROWS}),
        ("l3", 8192, {"levels": (*levels(**SHAPES), spec.Level(sets=4096, ways=16, latency_cycles=FOURTH))}),
    ],
    ids=["lost lines", "often", "in large bursts", "open rows", "a cache of memory behind"],
)
def test_a_size_stays_what_it_is(level: str, lines: int, changes: dict[str, Any]) -> None:
    assert size(level, **changes) == (Outcome.MEASURED, lines)


def test_beside_a_co_runner_a_size_is_no_more_than_it_is() -> None:
    outcome, lines = size("l2", noise=BESIDE)
    assert outcome in (Outcome.MEASURED, Outcome.AT_LEAST) and lines <= SECOND_LINES
    assert outcome is Outcome.AT_LEAST or lines == SECOND_LINES

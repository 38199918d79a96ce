"""Lines that come after some accesses, with controls of the same program, on machines that bring known ones."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from quiet_machines import quiet
from setebench.scenarios.prefetcher_map.curves import shares_of

from setebench.experiments.presence import PARAMS, Access, Trial, Trials
from setebench.scenario import Context
from setebench.sim import spec

pytestmark = pytest.mark.long(10)

SHAPE: dict[str, Any] = {"l3": None, "l2": {"sets": 512}}
NEXT = spec.NextLine(level=1, fills="l1", trigger=1)
PAIR = spec.LinePair(level=2)
GUEST = spec.Noise(interrupt_interval_cycles=3e6, stall_interval_cycles=2e5, stall_cycles=400)


def present(machine: Any, trial: Trial, lines: range, count: int) -> dict[int, str]:
    """Lines that come in most repetitions, with their commonest level."""
    context = Context(machine=machine, seed=3)
    with context.memory(min(PARAMS.pool_bytes, machine.facts.memory_bytes // 4)) as region:
        samples = Trials(context, region).sample(trial, [(line, count) for line in lines], 16)
    names = list(samples.controls)
    return {line: names[share[-1]] for (line, _), share in shares_of(samples).items() if share[0] > 0.6}


@pytest.mark.parametrize("noise", [spec.Noise(), GUEST], ids=["quiet", "guest"])
@pytest.mark.parametrize(("prefetcher", "level"), [(NEXT, "l1"), (PAIR, "l2")], ids=["to l1", "to l2"])
def test_a_line_that_comes_is_seen_with_its_level(prefetcher: Any, level: str, noise: spec.Noise) -> None:
    with closing(quiet(prefetchers=(prefetcher,), noise=noise, **SHAPE)) as machine:
        assert present(machine, Trial((Access(20 * 64),)), range(24), 1) == {20: "l1", 21: level}


def test_accesses_left_out_leave_the_page_alone() -> None:
    trial = Trial(tuple(Access(line * 64) for line in (10, 20, 30)))
    with closing(quiet(prefetchers=(PAIR,), **SHAPE)) as machine:
        assert sorted(present(machine, trial, range(40), 2)) == [10, 11, 20, 21]


def test_held_lines_wait_in_level_2() -> None:
    trial = Trial((Access(10 * 64),), held=(10, 12, 30))
    with closing(quiet(**SHAPE)) as machine:
        assert present(machine, trial, range(40), 1) == {10: "l1", 12: "l2", 30: "l2"}


@pytest.mark.parametrize("order", ["fenced", "chained", "free"])
def test_every_order_makes_the_accesses(order: Any) -> None:
    trial = Trial(tuple(Access(line * 64) for line in (10, 20, 30)), order=order)
    with closing(quiet(**SHAPE)) as machine:
        assert sorted(present(machine, trial, range(40), 3)) == [10, 20, 30]

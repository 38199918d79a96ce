"""Reads of other cores' lines, beside prefetchers that learn which lines of a page are used together."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L3, OVERHEAD, PAGE, quiet
from setebench.scenarios.hierarchy.cores.findings import PARAMS
from setebench.scenarios.hierarchy.cores.transfers import Question, Transfers, enough

from setebench.experiments.lines.layout import by_windows, lay
from setebench.machine import Region
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.estimate import Interval

MEMORY = 64 << 20
COARSE = spec.Clock(step_ticks=36.0, brackets={"lfence": OVERHEAD, "mfence": OVERHEAD, "cpuid": OVERHEAD})
"""A clock on which a hit can't be told from an answer of the third cache, so that all reads count."""


def test_a_region_prefetcher_brings_no_line_of_another_core() -> None:
    """A load beside the line, to warm the page's translation, would begin a visit that it knows: it brought one line in
    eight to the first cache, and the mean was 28 cycles instead of 32."""
    region = spec.Region(level=1, fills="l1", region_size_bytes=4096, trigger=1, indexed_by="offset")
    machine = quiet(l3={"sets": 4096}, prefetchers=(region,), core=spec.Core(cores=2), clock=COARSE)
    context = Context(machine=machine)
    memory = machine.allocate(MEMORY, PAGE)
    half, rng = Region(memory.address, memory.size // 2, PAGE, memory.line_size), np.random.default_rng(1)
    walk = by_windows(lay(half, 2.5 * 64 * 8192, rng), rng)
    found = Transfers(context, memory, walk).cycles(Question(0, 1, "shared"))
    assert found.cycles.value == pytest.approx(L3, abs=3.0)  # six less where one line in eight is there


def test_rounds_go_on_until_an_answer_can_be_reported() -> None:
    """Twelve rounds behind a walk, on a clock whose step is nearly the answer, left it 5.2 % wide, and so untold."""
    wide, told, sharp = Interval(45.0, 42.0, 48.0), Interval(45.0, 43.0, 47.0), Interval(45.0, 44.5, 45.5)
    assert not enough(wide, PARAMS.lost_rounds, PARAMS.lost_rounds)
    assert enough(told, PARAMS.lost_rounds, PARAMS.lost_rounds)
    assert not enough(told, PARAMS.lost_rounds, PARAMS.most_rounds)
    assert enough(sharp, PARAMS.rounds, PARAMS.most_rounds)
    assert enough(wide, PARAMS.most_rounds, PARAMS.lost_rounds)

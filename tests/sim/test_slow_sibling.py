"""A busy sibling makes loads from level 1 as slow as level 2's for a while: that makes no level wrong."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from altered import Altered
from quiet_machines import L1, L2, quiet
from setebench.scenarios.prefetcher_map.lab import Lab
from swept_machines import swept

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import measure_references
from setebench.experiments.visits import Access, Visit
from setebench.scenario import Context
from setebench.sim import spec

LINE = 20
NEXT_LINE = spec.NextLine(level=1, fills="l1", trigger=1)
PAIR = spec.LinePair(level=2)


def laboratory(context: Context) -> Lab:
    region = working_memory(context)
    return Lab(context, region, measure_references(context, region))


class Slowed(Altered):
    """Every timed load takes longer by so many ticks."""

    more_ticks = 0

    def run(self, *what: Any, **how: Any) -> Any:
        return self._machine.run(*what, **how) + self.more_ticks


@pytest.mark.parametrize("when", ["never", "with the references alone", "after them"])
@pytest.mark.parametrize(("prefetcher", "level"), [(NEXT_LINE, "l1"), (PAIR, "l2")], ids=["to l1", "to l2"])
def test_a_sibling_that_slows_loads_makes_no_level_wrong(
    prefetcher: spec.NextLine | spec.LinePair, level: str, when: str
) -> None:
    visit = Visit((Access(LINE * 64),))
    with closing(quiet(prefetchers=(prefetcher,), l3=None, l2={"sets": 512})) as quiet_machine:
        machine = Slowed(quiet_machine)
        context = swept(machine, fast=True)
        machine.more_ticks = L2 - L1 if when == "with the references alone" else 0
        lab = laboratory(context)
        machine.more_ticks = L2 - L1 if when == "after them" else 0
        assert lab.brings(visit, LINE + 1) is True
        reported = lab.level(visit, LINE + 1), lab.in_l1(visit, LINE + 1)
    assert reported in ((level, level == "l1"), *([] if when == "never" else [(None, None)]))


def test_a_line_that_stayed_behind_level_1_is_reported_by_a_clock_of_long_steps_too() -> None:
    brackets = {"lfence": 20.0, "mfence": 20.0, "cpuid": 20.0}
    clock = spec.Clock(step_ticks=36.0, ticks_per_cycle=0.5, brackets=brackets)
    with closing(quiet(prefetchers=(PAIR,), l3=None, l2={"sets": 512}, clock=clock)) as machine:
        lab = laboratory(swept(machine, fast=True))
        reported = [lab.in_l1(Visit((Access(line * 64),)), line + 1) for line in range(8, 56, 2)]
    assert True not in reported and reported.count(False) >= 0.9 * len(reported)

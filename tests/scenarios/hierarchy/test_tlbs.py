"""TLBs found on simulated machines whose tables are known, and what follows from curves."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.tlbs import HUGE_PAGE, TlbRound, measure_tlbs, tlb_findings, tlb_pages

from setebench.calibration import Calibration
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

TABLE = spec.TlbTable
MEMORY = spec.Memory(bytes=256 << 20)
"""Of machines whose second TLB is small: fewer pages are asked for."""


def findings_of(machine: Any, rounds: int = 2, large: bool = False) -> dict[str, Finding]:
    context = Context(machine=machine, calibration=Calibration(line_bytes=machine.facts.line_size))
    pages = tlb_pages(context)
    small = [measure_tlbs(pages) for _ in range(rounds)]
    pages = tlb_pages(context, HUGE_PAGE) if large else None
    more = [measure_tlbs(pages) for _ in small] if large else []
    return {finding.parameter: finding for finding in tlb_findings(small, more)}


def entries(found: dict[str, Finding], pages: str = "4k") -> list[Any]:
    """Values that are said to be measured, of both TLBs."""
    both = [found[f"tlb.{level}.entries.{pages}"] for level in ("l1", "l2")]
    return [each.value if each.outcome is Outcome.MEASURED else each.outcome for each in both]


def penalties(found: dict[str, Finding], pages: str = "4k") -> list[Any]:
    return [found[f"tlb.{level}.miss_penalty.{pages}"].value for level in ("l1", "l2")]


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        (TABLE(entries=96, ways=6, miss_penalty_cycles=7), TABLE(entries=512, ways=8, miss_penalty_cycles=47), 64),
        (TABLE(entries=64, ways=0, miss_penalty_cycles=7), TABLE(entries=384, ways=12, miss_penalty_cycles=40), 128),
    ],
)
def test_entries_and_penalties(first: spec.TlbTable, second: spec.TlbTable, line: int) -> None:
    with closing(quiet(tlb=spec.Tlb(l1_4k=first, l2_4k=second), memory=MEMORY, line_size_bytes=line)) as machine:
        found = findings_of(machine)
    assert entries(found) == [first.entries, second.entries]
    assert penalties(found) == pytest.approx([first.miss_penalty_cycles, second.miss_penalty_cycles], abs=0.5)


def test_a_coarse_clock_that_wanders() -> None:
    clock = spec.Clock(step_ticks=26.0, ticks_per_cycle=0.7, drift=0.04, drift_period_cycles=2e7, jitter_cycles=2.0)
    noise = spec.Noise(interrupt_interval_cycles=3e5)
    first = TABLE(entries=96, ways=6, miss_penalty_cycles=7)
    tlb = spec.Tlb(l1_4k=first, l2_4k=TABLE(entries=512, ways=8, miss_penalty_cycles=47))
    with closing(quiet(tlb=tlb, memory=MEMORY, clock=clock, noise=noise)) as machine:
        found = findings_of(machine, 6)
    assert entries(found) == [96, pytest.approx(512, rel=0.1)]
    assert penalties(found) == [pytest.approx(7, abs=0.6), pytest.approx(47, rel=0.06)]


def test_large_pages_that_a_hypervisor_splinters() -> None:
    """Their parts take the entries of small pages."""
    counts = {"l1_4k": 64, "l2_4k": 512, "l1_2m": 32, "l2_2m": 128}
    tlb = spec.Tlb(
        **{
            name: spec.TlbTable(entries=count, miss_penalty_cycles=9.0 if "l1" in name else 40.0)
            for name, count in counts.items()
        }
    )
    memory = spec.Memory(bytes=1 << 31, huge_pages_splintered=True)
    with closing(quiet(tlb=tlb, memory=memory)) as machine:
        found = findings_of(machine, large=True)
    assert entries(found, "2m")[0] == 64
    assert penalties(found, "2m")[0] == pytest.approx(9.0, abs=0.5)


# -- what follows from curves -----------------------------------------------------------------------------------------

PAGES = np.unique(np.round(np.geomspace(12, 6000, 60)))


def seen(first: int | None, penalty: float, slower: float = 1.0, second: float = 2100.0) -> TlbRound:
    """A round as a guest on a server core shows it: 16 sets of 6 ways, then a blurred step."""
    walk = 60.0 / (1.0 + np.exp(-(np.log(PAGES) - np.log(second)) * 9.0))
    even = penalty * np.clip((PAGES - 92) / 18, 0.0, 1.0)
    return TlbRound(pages=PAGES, cycles=slower * (even + walk), counted=first)


def inferred(rounds: list[TlbRound]) -> dict[str, Finding]:
    return {finding.parameter: finding for finding in tlb_findings(rounds, [])}


def test_a_step_that_is_not_sharp_has_its_middle_as_value() -> None:
    found = inferred([seen(96, 7.0)] * 6)
    second = found["tlb.l2.entries.4k"]
    assert found["tlb.l1.entries.4k"].value == 96
    assert second.value == pytest.approx(2100, rel=0.05)
    assert second.low is not None and second.high is not None and second.low < 1950 < 2250 < second.high
    assert "not sharp" in second.method


def test_rounds_see_other_numbers_of_entries() -> None:
    """Of a guest beside a busy thread: it takes entries and adds time in some rounds, and gives none in any."""
    counts, halves = (69, 68, 69, 62, 97, 96), (1919.0, 1952.0, 1876.0, 2165.0, 2150.0, 1900.0)
    slower = (1.6, 1.4, 1.0, 1.0, 1.0, 1.0)
    found = inferred([seen(count, 7.0, *more) for count, *more in zip(counts, slower, halves, strict=True)])
    assert found["tlb.l1.miss_penalty.4k"].value == pytest.approx(7.0, abs=0.01)
    first, second = found["tlb.l1.entries.4k"], found["tlb.l2.entries.4k"]
    assert (first.value, first.outcome) == (96, Outcome.MEASURED)
    assert second.outcome is Outcome.MEASURED and second.low is not None and second.high is not None
    assert second.value == pytest.approx(2048, rel=0.1) and second.low <= 2048 <= second.high


def test_ways_that_others_always_take_make_no_table_of_the_rest() -> None:
    """Of 16 ways of 128 sets two were taken in all rounds: 1,792 entries, of which nobody makes tables."""
    cycles = 40.0 * np.clip((PAGES - 1792) / 128, 0.0, 1.0) + 7.0 * np.clip((PAGES - 92) / 18, 0.0, 1.0)
    second = inferred([TlbRound(pages=PAGES, cycles=cycles)] * 6)["tlb.l2.entries.4k"]
    assert second.outcome is Outcome.AT_LEAST and isinstance(second.value, int) and second.value <= 1792


def test_no_step_leaves_all_open_and_names_what_is_not_measured() -> None:
    found = inferred([TlbRound(pages=PAGES, cycles=np.zeros(len(PAGES)))] * 6)
    assert {found[f"tlb.l1.{name}.4k"].outcome for name in ("entries", "miss_penalty")} == {Outcome.UNRESOLVED}
    assert found["tlb.walk_cache.entries"].reason == "not measured since 0.2"


def test_a_first_step_beyond_all_first_tlbs_is_that_of_the_second() -> None:
    """Else its entries would be taken for the first one's, whose own step noise has hidden."""
    found = inferred([TlbRound(pages=PAGES, cycles=40.0 * np.clip((PAGES - 512) * 4 / 512, 0.0, 1.0))] * 6)
    assert found["tlb.l1.entries.4k"].outcome is Outcome.UNRESOLVED
    assert found["tlb.l2.entries.4k"].value == pytest.approx(512, rel=0.1)

"""TLBs of simulated machines, found from what translations that stay or go cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from altered import Altered
from setebench.scenarios.hierarchy.tlbs import SMALL_PAGE, Tlbs, look_at_large_pages

from setebench.experiments.translations import PageUnits, Survival, SurvivalParams
from setebench.machine import Ticks
from setebench.probe import Base, Kind, Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file

pytestmark = pytest.mark.long(35)

MEMORY = 160 << 20


def machine(memory: spec.Memory | None = None, **tables: Any) -> SimulatedMachine:
    """A quiet one with these tables of translations."""
    caches = (
        spec.Level(sets=64, ways=8, latency_cycles=4, mshr_entries=10),
        spec.Level(sets=1024, ways=8, latency_cycles=14, mshr_entries=32),
    )
    described = spec.Machine(name="tables", tlb=spec.Tlb(**tables), memory=memory or spec.Memory(), levels=caches)
    return open_machine_file(described, 1)


def findings_of(found: SimulatedMachine, large: bool = False) -> dict[str, Finding]:
    context = Context(machine=found)
    small = Tlbs(context, "4k", SMALL_PAGE)
    others = None
    for _ in range(2):
        region = found.allocate(MEMORY, SMALL_PAGE)
        small.look(region)
        found.release(region)
        others = look_at_large_pages(context, others, small) if large else None
    every = [*small.findings(), *(others.findings(small) if others else ())]
    return {finding.parameter: finding for finding in every}


def table(entries: int, penalty: float, ways: int = 0, **fields: Any) -> spec.TlbTable:
    return spec.TlbTable(entries=entries, ways=ways, miss_penalty_cycles=penalty, **fields)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (table(64, 7.0), table(1536, 40.0, 12)),
        (table(16, 7.0), table(512, 40.0, 4)),
        (table(128, 17.0, 4), table(2048, 40.0, 16)),
        (table(64, 20.0, 4, index="hashed"), table(2048, 40.0, 16, index="hashed")),
        (table(160, 10.0), table(4096, 40.0, 16, index="skewed")),
    ],
)
def test_entries_and_penalties(first: spec.TlbTable, second: spec.TlbTable) -> None:
    """Of one set or several, whichever way they are chosen; twice and fifty times as many entries behind it."""
    found = findings_of(machine(l1_4k=first, l2_4k=second))
    for level, true in (("l1", first), ("l2", second)):
        entries, penalty = (found[f"tlb.{level}.{name}.4k"] for name in ("entries", "miss_penalty"))
        assert (entries.outcome, entries.value) == (Outcome.MEASURED, true.entries)
        assert penalty.value == pytest.approx(true.miss_penalty_cycles, abs=0.6)
        assert penalty.low is not None
        assert penalty.high is not None
        assert penalty.low <= true.miss_penalty_cycles <= penalty.high


class TouchesOwnPage:
    """A machine that loads from a page of its own before each start, as code does that keeps ticks in memory."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine, self._own = machine, machine.allocate(SMALL_PAGE, SMALL_PAGE).address

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def run(self, probe: Probe, placements: Any, **how: Any) -> Ticks:
        touched = Probe().load(OWN)
        for row, operation in enumerate(probe.operations):
            one = Probe(probe.rows[row].tobytes(), probe.bases)
            touched += (Probe().load(OWN) if operation.kind is Kind.START else Probe()) + one
        counts = {len(each) for each in placements.values()} if isinstance(placements, dict) else {placements}
        own = {OWN: np.full(counts.pop(), self._own)}
        return self._machine.run(touched, own | (placements if isinstance(placements, dict) else {}), **how)


OWN = Base("own")


@pytest.mark.parametrize("entries", [16, 64])
def test_a_page_that_each_start_touches_takes_no_entry_from_a_ring(entries: int) -> None:
    """In a full table of one set it makes all pages miss for a round."""
    tables = {"l1_4k": table(entries, 9.0), "l2_4k": table(1024, 40.0, 8)}
    context: Any = Context(machine=TouchesOwnPage(machine(**tables)))
    units = PageUnits(region=context.machine.allocate(MEMORY // 4, SMALL_PAGE), page_bytes=SMALL_PAGE)
    survival = Survival(context, units, SurvivalParams())
    fits, too_many = (survival.ring(pages) for pages in (entries, entries + 1))
    assert fits < 0.015 * 9.0 and too_many == pytest.approx(9.0, abs=0.5)


def test_neighbours_that_share_an_entry_are_counted_and_entries_are_those_of_pages_that_do_not() -> None:
    tables: dict[str, Any] = {"l1_4k": table(64, 9.0), "l2_4k": table(1024, 40.0, 8, pages_per_entry=4)}
    found = findings_of(machine(spec.Memory(frame_run_pages=16), **tables))
    assert tuple(found[f"tlb.{level}.pages_per_entry.4k"].value for level in ("l1", "l2")) == (1, 4)
    assert [found[f"tlb.{level}.entries.4k"].value for level in ("l1", "l2")] == [64, 1024]


def test_upper_levels_of_page_tables_add_nothing_to_a_walk() -> None:
    tables = {"l1_4k": table(64, 9.0), "l2_4k": table(1536, 40.0, 12)}
    found = findings_of(machine(**tables, walk_cache_entries=16, walk_cache_miss_cycles=40.0))
    assert found["tlb.l2.miss_penalty.4k"].value == pytest.approx(40.0, abs=0.6)
    assert found["tlb.walk_cache.entries"].value == 16
    assert found["tlb.walk_cache.miss_penalty"].value == pytest.approx(40.0, abs=1.0)


@pytest.mark.parametrize("splintered", [False, True])
def test_large_pages(splintered: bool) -> None:
    """Where a hypervisor splinters them, their parts take the entries of small pages."""
    tables = {
        "l1_4k": table(64, 9.0),
        "l2_4k": table(1024, 40.0, 8),
        "l1_2m": table(32, 9.0),
        "l2_2m": table(1536, 35.0, 12),
    }
    memory = spec.Memory(bytes=8 << 30, huge_pages_splintered=splintered)
    found = findings_of(machine(memory, **tables), large=True)
    entries = [found[f"tlb.{level}.entries.2m"].value for level in ("l1", "l2")]
    assert entries == ([64, 1024] if splintered else [32, 1536])
    walk = found["tlb.l2.miss_penalty.2m"].value
    assert walk == pytest.approx(40.0 if splintered else 35.0, abs=0.6)


def test_few_entries_for_large_pages_are_not_missed() -> None:
    """The second TLB is not taken for the first one."""
    tables = {
        "l1_4k": table(16, 9.0),
        "l2_4k": table(512, 40.0, 4),
        "l1_2m": table(8, 9.0),
        "l2_2m": table(512, 35.0, 4),
    }
    found = findings_of(machine(spec.Memory(bytes=8 << 30), **tables), large=True)
    names = [f"tlb.{level}.entries.{pages}" for pages in ("4k", "2m") for level in ("l1", "l2")]
    assert [found[name].value for name in names] == [16, 512, 8, 512]


def test_no_second_tlb_for_large_pages() -> None:
    tables = {"l1_4k": table(64, 9.0), "l2_4k": table(512, 40.0, 4), "l1_2m": table(32, 40.0), "l2_2m": table(0, 0.0)}
    found = findings_of(machine(spec.Memory(bytes=2 << 30), **tables), large=True)
    assert found["tlb.l2.entries.2m"].outcome is Outcome.ABSENT
    assert found["tlb.l1.entries.2m"].value == 32


def test_without_any_second_tlb_its_entries_are_left_open() -> None:
    found = findings_of(machine(l1_4k=table(64, 30.0), l2_4k=table(0, 0.0)))
    assert found["tlb.l1.entries.4k"].value == 64
    assert found["tlb.l2.entries.4k"].outcome is Outcome.UNRESOLVED
    assert found["tlb.l1.store_entries.4k"].outcome is Outcome.ABSENT


def test_a_second_tlb_beyond_all_memory_is_bounded() -> None:
    small = {"l1_4k": table(64, 9.0), "l2_4k": table(512, 40.0, 4)}
    large = {"l1_2m": table(32, 9.0), "l2_2m": table(4096, 35.0, 16)}
    found = findings_of(machine(spec.Memory(bytes=3 << 30), **small, **large), large=True)
    entries = found["tlb.l2.entries.2m"]
    assert entries.outcome is Outcome.AT_LEAST
    assert isinstance(entries.value, int)
    assert 500 < entries.value <= 4096


def test_stores_that_have_a_tlb_of_their_own() -> None:
    first = table(64, 12.0)
    apart = {"l1_4k_store": table(16, 12.0), "l1_2m_store": table(8, 12.0)}
    found = findings_of(machine(l1_4k=first, l2_4k=table(512, 40.0, 4), **apart))
    assert found["tlb.l1.store_entries.4k"].value == 16
    assert found["tlb.l1.entries.4k"].value == 64


def test_a_first_tlb_that_memory_does_not_outgrow_twice() -> None:
    """Stores are asked behind twice as many pages as make loads lose theirs, which lie beyond memory's end here."""
    found = machine(l1_4k=table(2048, 30.0, 4), l2_4k=table(0, 0.0))
    small = Tlbs(Context(machine=found), "4k", SMALL_PAGE)
    small.look(found.allocate(24 << 20, SMALL_PAGE))
    every = {finding.parameter: finding for finding in small.findings()}
    assert every["tlb.l1.store_entries.4k"].outcome is Outcome.UNRESOLVED


class Disturbed(Altered):
    """In some samples in a row translations are lost whatever else is used, as by a program that comes and goes."""

    def __init__(self, machine: SimulatedMachine, disturbed: tuple[range, ...]) -> None:
        super().__init__(machine)
        self._disturbed, self._samples = disturbed, 0

    def run(self, probe: Probe, placements: Any, **how: Any) -> Ticks:
        ticks = self._machine.run(probe, placements, **how)
        kinds = set(probe.rows[:, 0].tolist())
        if {int(Kind.FLUSH), int(Kind.CHASE)} <= kinds:
            self._samples += 1
            # samples and their controls in turn
            if self._samples % 2 and any(self._samples // 2 in samples for samples in self._disturbed):
                ticks[:, 1] += 8 * 25
        return ticks


@pytest.mark.parametrize("first", [83, 89])
def test_disturbed_samples_in_a_row_are_no_step(first: int) -> None:
    found = machine(l1_4k=table(64, 7.0), l2_4k=table(2048, 40.0, 16))
    small = Tlbs(
        Context(machine=Disturbed(found, (range(first, first + 4), range(first + 12, first + 16)))), "4k", SMALL_PAGE
    )
    for _ in range(2):
        region = found.allocate(MEMORY, SMALL_PAGE)
        small.look(region)
        found.release(region)
    every = {finding.parameter: finding for finding in small.findings()}
    assert every["tlb.l1.entries.4k"].value == 64
    assert every["tlb.l2.entries.4k"].value == 2048
    assert every["tlb.l2.miss_penalty.4k"].value == pytest.approx(40.0, abs=1.0)

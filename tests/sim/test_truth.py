"""The truth of simulated machines: the paper's tables value by value, and names as scenarios use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from setebench import store
from setebench.cli.main import setebench
from setebench.results import Finding, Outcome
from setebench.sim import spec
from setebench.sim.files import loader
from setebench.sim.random.machine import random_machine
from setebench.sim.truth.parameters import truth

PAGE = Path(__file__).resolve().parents[2] / "docs/parameters.md"


def documented() -> Iterator[tuple[str, set[str]]]:
    """Names and their units from docs/parameters.md, the names as patterns: from tables, and where its text says
    "`name` (unit: ...". In a table a name that begins with a dot takes the place of the last part of each whole one of
    its row; of as many units as names each has its own."""
    yield from ((re.escape(name), {unit}) for name, unit in re.findall(r"`([\w.]+)` \((\w+):", PAGE.read_text()))
    for table in re.findall(r"^\| parameter \| unit .*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE):
        for _, first, second, *_ in (line.split("|") for line in table.splitlines()):
            names, units = re.findall(r"`([^`]+)`", first), [unit.strip() for unit in second.split(",")]
            starts = [name.rpartition(".")[0] for name in names if not name.startswith(".")]
            for place, name in enumerate(names):
                own = {units[place]} if len(units) == len(names) else set(units)
                for whole in (start + name for start in starts) if name.startswith(".") else (name,):
                    known = re.sub(r"\bID\b", r"l[12]\\.\\w+", re.escape(whole))
                    yield re.sub(r"[A-Z]+|…", r"\\w+", known), own


PATTERNS = tuple(documented())
KINDS = {"bool": bool, "string": str, "list": list}


def values(machine: spec.Machine) -> dict[str, Any]:
    return {finding.parameter: finding.value for finding in truth(machine)}


def units_of(parameter: str) -> set[str]:
    return set().union(*(units for pattern, units in PATTERNS if re.fullmatch(pattern, parameter)))


@pytest.fixture(scope="module")
def knc() -> dict[str, Any]:
    return values(loader.load("knc"))


@pytest.fixture(scope="module")
def sandybridge() -> dict[str, Any]:
    return values(loader.load("sandybridge"))


# -- the paper ---------------------------------------------------------------------------------------------------------


def test_knc_is_tables_1_and_2(knc: dict[str, Any]) -> None:
    machine, found = loader.load("knc"), knc
    assert (machine.core.cores, machine.core.threads_per_core, machine.core.out_of_order) == (60, 4, False)
    assert machine.clock.ticks_per_second / machine.clock.ticks_per_cycle == 1e9
    assert found["cache.l1.size"] == 32 << 10
    assert found["cache.l2.size"] == 512 << 10
    assert found["cache.l1.inclusive_in_l2"] is True
    assert (found["cache.l1.line_size"], found["cache.l1.ways"], found["cache.l2.ways"]) == (64, 8, 8)
    assert {table.ways for table in (machine.tlb.l1_4k, machine.tlb.l2_4k, machine.tlb.l1_2m, machine.tlb.l2_2m)} == {4}
    assert found["tlb.l1.entries.4k"] * 4096 == 256 << 10
    assert found["tlb.l2.entries.4k"] * 4096 == 128 << 20
    assert found["tlb.l1.entries.2m"] * (2 << 20) == 16 << 20
    assert found["tlb.l2.entries.2m"] * (2 << 20) == 128 << 20
    assert machine.memory.bytes == 4 << 30
    assert (knc["tlb.l1.miss_penalty.4k"], knc["tlb.l2.miss_penalty.4k"], knc["page_fault.minor.4k"]) == (29, 91, 2261)
    assert (knc["tlb.l1.miss_penalty.2m"], knc["tlb.l2.miss_penalty.2m"]) == (10, 86)
    assert knc["page_fault.minor.2m"] == 2_898_353


def test_sandybridge_is_table_6(sandybridge: dict[str, Any]) -> None:
    machine = loader.load("sandybridge")
    assert (machine.core.cores, machine.core.threads_per_core, machine.core.out_of_order) == (8, 2, True)
    assert (sandybridge["latency.l1"], sandybridge["latency.l2"], sandybridge["latency.memory"]) == (4, 12, 200)
    assert 26 <= sandybridge["latency.l3"] <= 31
    assert sandybridge["latency.core_to_core.0-1.exclusive"] == sandybridge["latency.core_to_core.7-3.modified"] == 60
    assert sandybridge["loaded_latency.peak_bandwidth"] == pytest.approx(38, rel=1e-3)
    for name in ("l1.demand", "l1.prefetch", "l2.demand", "l2.prefetch"):
        assert sandybridge[f"mshr.{name}"] == 10
    assert sandybridge["mshr.l1.shared_by_smt"] is machine.levels[1].mshr_shared_by_smt is True
    assert "software_prefetch.fills.w" not in sandybridge
    assert "l3" not in {value for name, value in sandybridge.items() if name.startswith("software_prefetch.fills")}
    assert sandybridge["software_prefetch.on_page_fault"] is False
    assert sandybridge["clock.overhead.cpuid"] == 56


# -- names, units, outcomes --------------------------------------------------------------------------------------------

MACHINES = [*(name for name, _ in loader.shipped()), *(f"random:{seed}" for seed in range(12))]


@pytest.mark.parametrize("name", MACHINES)
def test_names_units_and_kinds_are_those_of_findings(name: str) -> None:
    findings = truth(loader.load(name))
    names = [finding.parameter for finding in findings]
    usual = ("l1.next_line", "l1.stream", "l1.stride", "l1.region", "l2.pair", "l2.next_line", "l2.stream", "l2.stride")
    assert {f"prefetcher.{each}.present" for each in (*usual, "l1.other", "l2.other")} <= set(names)
    assert len(names) == len(set(names))
    for finding in findings:
        assert finding.unit in units_of(finding.parameter), finding.parameter
        assert isinstance(finding.value, KINDS.get(finding.unit, (int, float))), finding
        assert isinstance(finding.value, bool) == (finding.unit == "bool"), finding
        if finding.outcome is Outcome.AT_LEAST:
            assert (finding.reason or "").startswith("hidden by") and finding.value, finding
        else:
            assert finding.outcome is (Outcome.ABSENT if _is_none(finding) else Outcome.MEASURED), finding


def _is_none(finding: Finding) -> bool:
    return not finding.value and (finding.parameter.endswith(".present") or finding.unit == "entries")


# -- what follows from several fields ----------------------------------------------------------------------------------


def changed(**tables: Any) -> dict[str, Any]:
    plain = loader.load("plain")
    fields = {name: msgspec.structs.replace(getattr(plain, name), **value) for name, value in tables.items()}
    return values(msgspec.structs.replace(plain, **fields))


def test_misses_in_flight_follow_from_the_narrowest_queue() -> None:
    plain = loader.load("plain")
    assert changed()["mshr.l1.demand"] == 10
    assert changed()["mshr.l2.demand"] == 10  # level 1 lets no more through than it has entries
    assert changed()["mshr.l2.prefetch"] == 16  # t1 fills level 2 past level 1
    assert changed(software_prefetch={"lower_hint_takes_l1_entry": True})["mshr.l2.prefetch"] == 10
    assert changed(core={"load_queue": 7})["mshr.l1.demand"] == 7
    blocking = changed(core={"out_of_order": False, "blocking_load": True})
    assert (blocking["mshr.l1.demand"], blocking["mshr.l2.demand"], blocking["mshr.l1.prefetch"]) == (1, 1, 10)
    assert changed(core={"out_of_order": False, "blocking_prefetch": True})["mshr.l2.prefetch"] == 1
    assert not [name for name in changed(software_prefetch={"hints": {}}) if name.endswith(".prefetch")]
    first = msgspec.structs.replace(plain.levels[0], mshr_demand_limit=4, mshr_prefetch_limit=6)
    limited = values(msgspec.structs.replace(plain, levels=(first, *plain.levels[1:])))
    assert (limited["mshr.l1.demand"], limited["mshr.l1.prefetch"]) == (4, 6)
    first = msgspec.structs.replace(plain.levels[0], mshr_entries=0)
    unlimited = values(msgspec.structs.replace(plain, levels=(first, *plain.levels[1:])))
    assert [unlimited[f"mshr.{name}"] for name in ("l1.prefetch", "l1.demand", "l2.demand")] == [0, 72, 16]


def test_the_command_prints_a_document_that_reads_back(tmp_path: Path) -> None:
    result = CliRunner().invoke(setebench, ["sim", "truth", "random:1", "--format", "json"])
    assert result.exit_code == 0
    path = tmp_path / "truth.json"
    path.write_text(result.stdout)
    document = store.load(path)
    assert document.machine.kind == "sim"
    assert document.machine.name == "sim:random:1"
    assert document.findings == truth(random_machine(1))

"""Twins: machine files made of results, which keep what was found and say where each field is from."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked import findings
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from quiet_machines import quiet

from setebench import store
from setebench.cli.main import setebench
from setebench.errors import SetebenchError
from setebench.results import Document, Outcome, Value
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.files.loader import load, origins, parse
from setebench.sim.files.origins import field_name
from setebench.sim.truth.document import truth_document
from setebench.sim.truth.parameters import left_open, truth
from setebench.text import visible
from setebench.truth.twin import as_toml, fields_of, make_twin

NAMES = ("plain", "knc", "sandybridge", "zen-like", *(f"random:{seed}" for seed in range(1, 13)))
FOLLOWS = (
    *("bandwidth.", "counter.", "prefetcher.l1.other.", "prefetcher.l2.other."),
    *("latency.core_to_core.", "latency.memory.row_hit"),
    *("tlb.l1.store_entries.", "tlb.l1.pages_per_entry.", "tlb.l2.pages_per_entry.", "tlb.walk_cache."),
)
"""Parameters that follow from fields which no finding names (ports, fills, the faults of a PMU, prefetchers that are
only described), that a twin has for all pairs of cores alike, or that no scenario reports."""


@cache
def truth_of(name: str) -> Document:
    return truth_document(load(name), name, datetime(2026, 1, 1, tzinfo=UTC))


def changed(document: Document, parameter: str, **fields: object) -> Document:
    """The result with one finding changed."""
    every = [
        msgspec.structs.replace(each, **fields) if each.parameter == parameter else each for each in document.findings
    ]
    return msgspec.structs.replace(document, findings=every)


def unresolved(document: Document, *parameters: str) -> Document:
    for parameter in parameters:
        open_one = {"value": None, "outcome": Outcome.UNRESOLVED, "reason": "noise", "low": None, "high": None}
        document = changed(document, parameter, **open_one)
    return document


def same(one: Value, other: Value) -> bool:
    return one == (pytest.approx(other, rel=1e-9) if isinstance(other, float) else other)


# -- twins of the truth -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_twin_of_the_truth_has_the_same_truth(name: str) -> None:
    machine = load(name)
    twin = make_twin(truth_of(name))
    assert twin.set_aside == {}
    found = {finding.parameter: finding.value for finding in truth(twin.machine)}
    first = any(each.level == 1 for each in twin.machine.prefetchers)
    for finding in truth_of(name).findings:
        # where prefetchers of level 1 are only described the twin has none there, and none to be trained by
        alone = finding.parameter.endswith("trained_by_l1_prefetcher") and not first
        if not finding.parameter.startswith(FOLLOWS) and not alone:
            assert same(found.get(finding.parameter), finding.value), finding.parameter
    unnamed = {name for name in found if name.startswith("prefetcher.") and not name.startswith(FOLLOWS)}
    assert unnamed <= {finding.parameter for finding in truth_of(name).findings} | left_open(machine)
    if 2097152 in machine.memory.page_sizes and machine.memory.huge_pages_splintered:
        assert twin.machine.memory.huge_pages_splintered


@pytest.mark.parametrize("name", NAMES[:3])
def test_the_file_reads_back_as_the_machine_with_an_origin_for_every_field(name: str) -> None:
    twin = make_twin(truth_of(name))
    text = as_toml(twin)
    assert parse(text, "twin.toml") == twin.machine
    read = origins(text, "twin.toml")
    assert read == {field_name(path): origin for path, origin in twin.origins.items()}
    assert {path for path, _ in fields_of(twin.machine)} <= set(twin.origins)
    assert {origin.origin for origin in read.values()} >= {"measured", "assumed"}
    assert all(origin.parameters for origin in read.values() if origin.origin == "measured")
    assert all(origin.why for origin in read.values() if origin.origin == "assumed")


@pytest.mark.parametrize("own", [{}, {"port_bytes": 32, "store_cycles": 1.0}], ids=["shared ports", "ports of stores"])
def test_streams_show_the_ports_of_loads_and_of_stores_and_the_pace_of_fills(own: dict[str, Any]) -> None:
    first = {"sets": 32, "fill_interval_cycles": 4.0}
    machine = quiet(core=spec.Core(**own), l1=first, l2={"sets": 256}, l3={"sets": 2048})
    options = {"kernel": ["load", "store", "copy"], "threads": "1", "width": ["64"]}
    found = findings("bandwidth", Context(machine=machine, fast=True, options=options))
    document = msgspec.structs.replace(truth_of("plain"), findings=[*truth_of("plain").findings, *found.values()])
    twin = make_twin(document).machine
    assert twin.core.port_bytes == own.get("port_bytes", 64)
    assert twin.core.store_cycles == pytest.approx(own.get("store_cycles", 0.0), rel=0.1)
    assert twin.levels[0].fill_interval_cycles == pytest.approx(4.0, rel=0.1)


# -- what is open or bounded --------------------------------------------------------------------------------------


def test_a_bound_is_bounded_and_held() -> None:
    document = changed(truth_of("plain"), "cache.l2.size", value=538071, outcome=Outcome.AT_LEAST)
    twin = make_twin(unresolved(document, "cache.l2.ways"))
    level = twin.machine.levels[1]
    assert level.sets * level.ways * 64 >= 538071 // 64 * 64
    assert level.sets * level.ways * 64 < 1.2 * 538071
    assert twin.origins["levels", 1, "sets"].origin == "bounded"
    assert twin.origins["levels", 1, "ways"].origin == "assumed"


def test_a_result_that_says_nothing_of_the_memory_system_makes_no_twin() -> None:
    """A machine of nothing but assumptions is made on request only: to compare a twin with."""
    document = msgspec.structs.replace(truth_of("plain"), findings=[])
    with pytest.raises(SetebenchError, match="characterize"):
        make_twin(document)
    twin = make_twin(document, of_nothing=True)
    assert {origin.origin for origin in twin.origins.values()} == {"assumed"}
    assert parse(as_toml(twin), "x") == twin.machine


@settings(max_examples=20)
@given(st.sets(st.integers(0, 120), max_size=60), st.integers(1, 4))
def test_whatever_is_open_there_is_a_twin(chosen: set[int], seed: int) -> None:
    """Any findings of a machine may be open: what is left makes a machine that keeps them."""
    document = truth_of(f"random:{seed}")
    names = [each.parameter for each in document.findings if not each.parameter.startswith(FOLLOWS)]
    opened = {names[index] for index in chosen if index < len(names)}
    twin = make_twin(unresolved(document, *opened))
    assert twin.set_aside == {}
    for number, level in enumerate(twin.machine.levels, 1):
        name = f"latency.l{number}"
        if name not in opened and name in names:
            assert same(level.latency_cycles, document[name].value)


def test_findings_that_contradict_each_other_are_set_aside_and_named() -> None:
    document = changed(truth_of("plain"), "latency.l3", value=9000.0)
    twin = make_twin(document)
    assert set(twin.set_aside) & {"latency.l3", "latency.memory"}
    assert "set aside" in as_toml(twin)


# -- files and the command ----------------------------------------------------------------------------------------


def test_the_command_writes_a_machine_file(tmp_path: Path) -> None:
    result, target = tmp_path / "result.json", tmp_path / "twin.toml"
    result.write_bytes(store.dumps(truth_of("zen-like")))
    assert CliRunner().invoke(setebench, ["twin", str(result), "-o", str(target)]).exit_code == 0
    assert load(str(target)) == make_twin(truth_of("zen-like")).machine
    assert CliRunner().invoke(setebench, ["twin", str(result), "-o", str(tmp_path / "twin.txt")]).exit_code == 2
    shown = CliRunner().invoke(setebench, ["sim", "truth", str(target)])
    assert shown.exit_code == 0 and "mshr.l1.demand" in shown.output


# -- texts of other people ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["x\n[core]\ncores = 3\n#", '"""', "\\", "\x00\x1b[2J\x7f", "\x85\u2028x", "\U0001f600 é'\"]}"]
)
def test_texts_of_a_result_stay_texts_in_a_machine_file(text: str) -> None:
    """Names, methods and reasons reach comments and strings of TOML, and nothing else."""

    def of(said: str) -> Document:
        document = unresolved(truth_of("plain"), "cache.l2.ways")
        own = [msgspec.structs.replace(each, method=said, reason=each.reason and said) for each in document.findings]
        record = msgspec.structs.replace(document.machine, name=said, facts={**document.machine.facts, "name": said})
        return msgspec.structs.replace(document, findings=own, machine=record, started=said)

    written, plain = as_toml(make_twin(of(text))), as_toml(make_twin(of("plain")))
    mine, other = parse(written, "a.toml"), parse(plain, "b.toml")
    assert msgspec.structs.replace(mine, name=other.name, description=other.description) == other
    assert visible(text) in mine.name and origins(written, "a.toml").keys() == origins(plain, "b.toml").keys()
    assert all(each.isprintable() for each in written.split("\n") if each.startswith("#"))


@pytest.mark.parametrize(
    ("machine", "parameter", "value"),
    [("plain", "clock.cycles_per_tick", 0.0), ("sandybridge", "prefetcher.l2.stream.lead", ["0", "1"])],
    ids=["no rate", "texts where numbers belong"],
)
def test_a_result_with_impossible_values_is_refused_in_one_line(machine: str, parameter: str, value: Any) -> None:
    ends = {"low": value, "high": value} if isinstance(value, float) else {}
    damaged = changed(truth_of(machine), parameter, value=value, **ends)
    with pytest.raises(SetebenchError, match=re.escape(parameter)):
        make_twin(damaged)


# -- behaviour without a name ------------------------------------------------------------------------------------------


def test_curves_of_prefetchers_without_a_name_are_replayed_and_odd_ones_are_left_out() -> None:
    """After three accesses the next line comes to level 1, and one more to level 2."""
    ahead = {1: "33333333", 2: "33333333", 3: "33333013"}
    curve = {
        "touched": [2, 3, 4],
        "counts": [1, 2, 3],
        "present": [[None if at in range(2, 2 + n) else float(level < "3") for at, level in enumerate(row)]
                    for n, row in ahead.items()],
        "nearest": [[*map(int, row)] for row in ahead.values()],
    }  # fmt: skip
    document = changed(truth_of("plain"), "prefetcher.l2.other.present", value=True, outcome=Outcome.MEASURED)
    assert "prefetcher.l2.other.present" in document
    for odd in (3, {**curve, "counts": [1, 2, 9]}, {**curve, "nearest": [[1]]}, {**curve, "present": "no"}):
        assert not make_twin(
            msgspec.structs.replace(document, evidence={"prefetchers": {"base": odd}})
        ).machine.prefetchers
    made = make_twin(msgspec.structs.replace(document, evidence={"prefetchers": {"base": curve}})).machine
    found = [(each.fills, each.trained_by, each.leads) for each in made.prefetchers if isinstance(each, spec.Lead)]
    assert found == [("l1", ("load",), (0, 0, 1)), ("l2", ("load",), (0, 0, 2))]
    text = as_toml(make_twin(msgspec.structs.replace(document, evidence={"prefetchers": {"base": curve}})))
    assert parse(text, "x") == made

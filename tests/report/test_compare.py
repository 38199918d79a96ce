"""Comparing documents: findings by their intervals, settings by their values; and the references that ship.

`golden/` holds one comparison in each form; set SETEBENCH_GOLDEN=write to renew the files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from documents import make_document

from setebench import references, store
from setebench.cli.documents import chosen_references
from setebench.cli.main import setebench
from setebench.compare import Agreement, agreement, compare
from setebench.report.comparison import FORMS
from setebench.results import Document, Finding, MachineRecord, Outcome
from setebench.text import in_bytes

GOLDEN = Path(__file__).parent / "golden"
SAME, DIFFERS, OPEN = Agreement.SAME, Agreement.DIFFERS, Agreement.OPEN


def number(value: float, low: float | None = None, high: float | None = None, **more: Any) -> Finding:
    return Finding(parameter="p", value=value, low=low, high=high, **{"unit": "cycles", **more})


def at_least(value: float) -> Finding:
    return number(value, outcome=Outcome.AT_LEAST)


ABSENT = Finding(parameter="p", value=False, unit="bool", outcome=Outcome.ABSENT)
NOTHING = Finding(parameter="p", value=0, unit="lines", outcome=Outcome.ABSENT)
UNRESOLVED = Finding(parameter="p", outcome=Outcome.UNRESOLVED, reason="noise")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (number(4.0, 3.9, 4.1), number(4.15, 4.05, 4.3), SAME),
        (number(4.0, 3.9, 4.1), number(4.2, 4.11, 4.3), DIFFERS),
        (number(14.0, 14.0, 14.0), number(14.000000000000002), SAME),
        (number(12), number(13), DIFFERS),
        (at_least(64), number(70), SAME),
        (at_least(64), number(60), DIFFERS),
        (ABSENT, Finding(parameter="p", value=True, unit="bool"), DIFFERS),
        (ABSENT, NOTHING, SAME),
        (UNRESOLVED, number(3), OPEN),
        (Finding(parameter="p", value=["load", "store"]), Finding(parameter="p", value=["store", "load"]), SAME),
        (Finding(parameter="p", value=True), Finding(parameter="p", value=1), DIFFERS),
    ],
)
def test_one_finding_against_another(one: Finding | None, other: Finding | None, expected: Agreement) -> None:
    assert agreement(one, other) is expected
    assert agreement(other, one) is expected


# -- whole documents ------------------------------------------------------------------------------------------------


def make(findings: list[Finding], name: str = "box", **settings: Any) -> Document:
    facts = {"cpus": [0, 1], "line_size": 64, "ticks_per_second": 2e9 + settings.get("seed", 0)}
    environment = {"activity": {"load": settings.pop("load", 0.5)}, "kernel": {"version": "6.1"}}
    machine = {"kind": "native", "name": name, "facts": facts, "environment": environment}
    settings = {"scenario": "characterize", "seed": 1, **settings}
    return make_document(findings, {}, machine, settings=settings, elapsed_seconds=12.5)


def named(parameter: str, finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, parameter=parameter)


HOSTILE = "<script>alert(1)</script> | \x1b[31m $x$ \u202e"
FIRST = make(
    [
        named("latency.l1", number(4.0, 3.9, 4.1)),
        named("latency.l2", number(14.0, 13.9, 14.1, method_version=1)),
        named("mshr.l1.demand", number(12, unit="entries")),
        named("mshr.l2.demand", UNRESOLVED),
        named("prefetcher.l2.stream.present", ABSENT),
        named(HOSTILE, Finding(parameter="p", value=HOSTILE)),
    ]
)
SECOND = make(
    [
        named("latency.l1", number(4.05, 4.0, 4.2)),
        named("latency.l2", number(15.0, 14.9, 15.1, method_version=2)),
        named("mshr.l1.demand", at_least(64.0)),
        named("mshr.l2.demand", number(48, unit="entries")),
        named("prefetcher.l2.stream.present", Finding(parameter="p", value=True, unit="bool")),
        named("cache.l1.size", number(49152, unit="bytes")),
    ],
    name=HOSTILE,
    seed=2,
    load=3.0,
)


@pytest.mark.parametrize("form", FORMS)
def test_golden(form: str) -> None:
    golden = GOLDEN / f"comparison.{ {'table': 'txt', 'markdown': 'md'}.get(form, form) }".replace(" ", "")
    text = FORMS[form](compare([FIRST, SECOND], ["a.json", f"b {HOSTILE}"]))
    if os.environ.get("SETEBENCH_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8", newline="")
    assert text == golden.read_bytes().decode()


# -- the command ----------------------------------------------------------------------------------------------------


def test_the_exit_status_is_for_scripts(tmp_path: Path) -> None:
    paths = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    for document, path in zip((FIRST, SECOND), paths, strict=True):
        store.save(document, path)
    first, second = paths
    for arguments, status in (
        ((first, second), 0),
        ((first, second, "--exit-code"), 3),
        ((first, first, "--exit-code"), 0),
        ((first,), 2),
        ((first, "missing.json"), 2),
        ((first, "reference:nothing"), 2),
    ):
        assert CliRunner().invoke(setebench, ["compare", *arguments]).exit_code == status, arguments


# -- references -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", references.names())
def test_every_published_value_has_a_source(name: str) -> None:
    reference = references.read(name)
    assert len({entry.parameter for entry in reference.values}) == len(reference.values)
    for entry in reference.values:
        assert entry.source in reference.sources and entry.says
        assert reference.sources[entry.source]["kind"] in ("vendor", "measured")
        assert (entry.low is None) == (entry.high is None)
        if isinstance(entry.value, int) and not isinstance(entry.value, bool) and entry.low is None and not entry.about:
            shown = in_bytes(entry.value).split()[0] if entry.unit == "bytes" else str(entry.value)
            derived = ("streams_per_page", "miss_penalty.4k", "trigger")  # sums, differences, and numbers in words
            assert shown in entry.says.replace(",", "") or entry.parameter.endswith(derived), entry
    document = references.document(name)
    assert store.dumps(document) and document.machine.kind == "reference"


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        ({"vendor": "AuthenticAMD", "family": 26, "model": 2}, "zen5"),
        ({"vendor": "GenuineIntel", "family": 6, "model": 45}, "sandybridge"),
        ({"vendor": "GenuineIntel", "family": 6, "model": 1}, None),
        ("damaged", None),
    ],
)
def test_the_reference_for_a_processor(cpu: Any, name: str | None) -> None:
    assert references.matching({"cpu": cpu}) == name


def test_what_the_system_says_of_caches_stands_beside_what_was_measured() -> None:
    caches = [
        {"level": 1, "type": "Data", "size_bytes": 32768, "ways": 8, "line_bytes": 64},
        {"level": 1, "type": "Instruction", "size_bytes": 1, "ways": 1},
        {"level": 3, "type": "Unified", "size_bytes": 0, "ways": None},
        {"level": "x", "type": "Data", "size_bytes": 3},
        "damaged",
    ]
    environment = {"topology": {"caches": caches}}
    system = references.of_the_system(environment)
    assert system is not None
    assert {finding.parameter: finding.value for finding in system.findings} == {
        "cache.l1.size": 32768,
        "cache.l1.ways": 8,
        "cache.l1.line_size": 64,
    }
    machine = MachineRecord(kind="native", name="n", facts={}, environment=environment)
    found = chosen_references(msgspec.structs.replace(SECOND, machine=machine))
    assert list(found) == ["said by the operating system"]

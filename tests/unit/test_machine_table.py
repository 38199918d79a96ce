"""The table of a whole machine in every form, beside a reference. SETEBENCH_GOLDEN=write renews the files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from test_table import EXTENSIONS, FINDINGS, make_document

from setebench import references
from setebench.report.sections import Reference
from setebench.report.table import FORMS, render
from setebench.results import Document, Finding

GOLDEN = Path(__file__).parent / "golden"
MATRIX = [
    Finding(parameter=f"latency.core_to_core.{a}-{b}.modified", value=180.0 + 7 * a + b, unit="cycles")
    for a in range(4)
    for b in range(4)
    if a != b
]
STEPS = [
    {"scenario": "latency", "state": "done", "told": ["latency.l1"]},
    {"scenario": "mshr", "state": "failed", "parameters": ["mshr."], "reason": "the probe was stopped by SIGILL\x1b"},
    {"scenario": "bandwidth", "state": "pending"},
]
SANDYBRIDGE = Reference(name="sandybridge", document=references.document("sandybridge"))


def machine() -> Document:
    """One of everything, found in an order that is not the table's, with a matrix of thirteen pairs."""
    extra = Finding(parameter="latency.core_to_core.0-9.modified", value=300.0, unit="cycles")
    document = make_document([*FINDINGS, *MATRIX, extra])
    return msgspec.structs.replace(document, evidence={**document.evidence, "steps": STEPS})


@pytest.mark.parametrize("form", FORMS)
def test_golden(form: str) -> None:
    golden = GOLDEN / f"machine.{EXTENSIONS[form]}"
    text = render(machine(), form, references=[SANDYBRIDGE])
    if os.environ.get("SETEBENCH_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8", newline="")
    assert text == golden.read_bytes().decode()


def test_what_failed_and_what_is_missing_follows_the_table() -> None:
    lines = render(machine(), "table").splitlines()
    assert lines[-2:] == [
        "mshr failed, so mshr.* may be missing: the probe was stopped by SIGILL\\x1b",
        "bandwidth was not run yet",
    ]


def test_the_long_matrix_is_one_line_in_tables_and_whole_in_csv() -> None:
    assert render(machine(), "table").count("latency.core_to_core") == 1
    assert render(machine(), "csv").count("latency.core_to_core") == 13


def test_a_narrow_terminal_gets_the_notes_below() -> None:
    text = render(machine(), "table", width=60, references=[SANDYBRIDGE])
    assert "latency.l1: one dithered load" in text and "= 4 cycles" in text

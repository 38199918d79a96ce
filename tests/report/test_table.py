"""Tables in every form. `golden/` holds three documents in each; set SETEBENCH_GOLDEN=write to renew the files."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from pathlib import Path
from typing import Any

import documents
import msgspec
import numpy as np
import pytest

from setebench import references
from setebench.compare import compare
from setebench.report import comparison
from setebench.report import text as numbers
from setebench.report.table import FORMS, render
from setebench.results import Document, Finding, Outcome

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = '50% & a|b_c <b> $x$ {y} #1 ~ ^ \\ `z` *w* [l](u) \x1b[31mred\x1b[0m \u202eback, "quoted"\nnext line'


def found(parameter: str, value: Any = None, unit: str = "", *ends: float, **more: Any) -> Finding:
    low, high = (*ends, None, None)[:2]
    return Finding(parameter=parameter, value=value, unit=unit, low=low, high=high, **more)


AT_LEAST, ABSENT, UNRESOLVED, UNAVAILABLE = Outcome.AT_LEAST, Outcome.ABSENT, Outcome.UNRESOLVED, Outcome.UNAVAILABLE
FINDINGS = [
    found("latency.l1", 4.0012, "cycles", 3.97, 4.03, method="one dithered load"),
    found("mshr.l1.demand", 64, "entries", 60.0, outcome=AT_LEAST, method="parallel misses"),
    found("latency.memory", 451.3, "cycles", 430.0, 470.0, method="one dithered load"),
    found("cache.l1.size", 49152, "bytes", 49152.0, 49152.0, method="working-set sweep"),
    found("mshr.l2.demand", unit="entries", outcome=UNRESOLVED, reason="no knee was seen; try --cpu 1"),
    found("tlb.l2.entries.2m", unit="entries", outcome=UNAVAILABLE, reason="no 2 MiB pages"),
    found("prefetcher.l1.region.present", False, "bool", outcome=ABSENT, method="trained pages"),
    found("prefetcher.l2.stream.trained_by", ["load", "store"], "list", method="one kind at a time"),
    found("prefetcher.l2.stream.present", True, "bool", method="a run of lines"),
]


def make_document(findings: list[Finding] | None = None, name: str = "sim small", cycles_per_ns: Any = 4.0) -> Document:
    return documents.make_document(
        FINDINGS if findings is None else findings,
        {"cycles": {"cycles_per_ns": cycles_per_ns}},
        {"name": name, "facts": {}},
        settings={"scenario": "everything", "seed": 1},
        elapsed_seconds=12.5,
    )


EXTENSIONS = {"table": "txt", "json": "json", "csv": "csv", "markdown": "md", "latex": "tex"}
EXTENSIONS["overview"] = "overview.txt"


def golden_document(kind: str) -> Document:
    hostile = [
        found("odd|name_x_", outcome=UNRESOLVED, reason=HOSTILE),
        found("s", HOSTILE, "string"),
    ]
    if kind == "machine":
        return machine()
    return make_document() if kind == "plain" else make_document(hostile, name="a\x1b[2Jb\nc | $d$")


@pytest.mark.parametrize("kind", ["plain", "hostile", "machine"])
@pytest.mark.parametrize("form", FORMS)
def test_golden(form: str, kind: str) -> None:
    """The whole machine beside a reference."""
    golden = GOLDEN / f"{kind}.{EXTENSIONS[form]}"
    text = render(golden_document(kind), form, references=SANDYBRIDGE if kind == "machine" else {})
    if os.environ.get("SETEBENCH_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8", newline="")
    assert text == golden.read_bytes().decode()


@pytest.mark.parametrize("width", [1, 90, 160])
def test_no_width_cuts_anything_off(width: int) -> None:
    text = render(make_document(), "table", width=width)
    joined = re.sub(r"\s+", "", text)
    for finding in FINDINGS:
        assert finding.parameter in text
        assert numbers.value_text(finding) in text
        assert numbers.interval_text(finding) in text
        for word in (finding.reason or finding.method).split():
            assert word in joined


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", " =", "\uff1d"])
def test_no_cell_of_a_csv_is_a_formula_and_numbers_stay_numbers(begin: str) -> None:
    text = f"{begin}cmd|' /C calc'!A0"
    findings = [
        Finding(parameter=text, value=-1.5, low=-2.0, high=-1.0, unit=text, method=text),
        Finding(parameter="a", value=text, unit="string"),
    ]
    document = make_document(findings)
    both = comparison.FORMS["csv"](compare([document, document], [text, text]))
    for form in (render(document, "csv"), both):
        cells = [cell for row in csv.reader(io.StringIO(form, newline="")) for cell in row]
        assert "-1.5" in cells and any("calc" in cell for cell in cells)
        assert all(cell.startswith("'") for cell in cells if cell.endswith("A0"))


@pytest.mark.parametrize(
    ("value", "low", "high", "text", "interval"),
    [
        (4.0012, 3.97, 4.03, "4.00 cycles", "[3.97, 4.03]"),
        (451.34, 430.0, 470.0, "451 cycles", "[430, 470]"),
        (4.0, 4.0, 4.0, "4 cycles", "[4, 4]"),
        (0.0001234, None, None, "0.0001234 cycles", ""),
    ],
)
def test_digits_follow_the_interval(value: Any, low: Any, high: Any, text: str, interval: str) -> None:
    finding = Finding(parameter="x", value=value, unit="cycles", low=low, high=high)
    assert (numbers.value_text(finding), numbers.interval_text(finding)) == (text, interval)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (32768, "bytes", "32 KiB"),
        (28945.704514406658, "bytes", "28.3 KiB"),
        (np.bool_(False), "bool", "no"),
        ([], "list", "(none)"),
        ([[1, 2], None], "list", "[1, 2], null"),
    ],
)
def test_values_read_well(value: Any, unit: str, text: str) -> None:
    assert numbers.value_text(Finding(parameter="x", value=value, unit=unit)) == text


MATRIX = [
    found(f"latency.core_to_core.{a}-{b}.modified", 180.0 + 7 * a + b, "cycles")
    for a, b in itertools.permutations(range(4), 2)
]
STEPS = [
    {"scenario": "latency", "state": "done", "told": ["latency.l1"]},
    {"scenario": "mshr", "state": "failed", "parameters": ["mshr."], "reason": "the probe was stopped by SIGILL\x1b"},
    {"scenario": "bandwidth", "state": "pending"},
]
SANDYBRIDGE = {"published for sandybridge": references.document("sandybridge")}


def machine() -> Document:
    """One of everything, found in an order that is not the table's, with a matrix of thirteen pairs."""
    extra = found("latency.core_to_core.0-9.modified", 300.0, "cycles")
    document = make_document([*FINDINGS, *MATRIX, extra])
    return msgspec.structs.replace(document, evidence={**document.evidence, "steps": STEPS})

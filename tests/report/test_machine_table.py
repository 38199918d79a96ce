"""The table of a whole machine in every form, beside a reference. SETEBENCH_GOLDEN=write renews the files."""

from __future__ import annotations

import os
import shutil
import subprocess
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


def test_markdown_and_latex_have_the_headings_and_what_is_missing_too() -> None:
    markdown = render(machine(), "markdown").splitlines()
    assert [line for line in markdown if line.startswith("## ")][:2] == [
        "## Latency",
        "## Latency of lines in other cores' caches",
    ]
    latex = render(machine(), "latex")
    assert latex.index(r"\textbf{Latency}") < latex.index("latency.l1 ") < latex.index(r"\textbf{Caches}")
    for text in ("\n".join(markdown), latex):
        assert "bandwidth was not run yet" in text and "the probe was stopped by SIGILL" in text


LATEX = shutil.which("pdflatex")


@pytest.mark.skipif(LATEX is None, reason="no pdflatex on the PATH")
@pytest.mark.parametrize("document", [machine(), make_document(), make_document([])])
def test_latex_can_be_set(tmp_path: Path, document: Document) -> None:
    assert LATEX is not None
    body = render(document, "latex", references=[SANDYBRIDGE])
    (tmp_path / "a.tex").write_text(
        rf"\documentclass{{article}}\usepackage{{booktabs,longtable}}\begin{{document}}{chr(10)}{body}\end{{document}}"
    )
    command = [LATEX, "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)

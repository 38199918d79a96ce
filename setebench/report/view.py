"""What is shown of a document, whatever the form: its title, columns, rows and sections."""

from __future__ import annotations

import math
from dataclasses import dataclass

from setebench.report import numbers
from setebench.report.sections import condensed, sections
from setebench.results import Document, Finding
from setebench.text import visible

RIGHT_ALIGNED = ("value", "95 % interval", "ns")


def cycles_per_ns(document: Document) -> float | None:
    """Core cycles per nanosecond while the document was measured, None where it doesn't say."""
    cycles = document.evidence.get("cycles")
    ratio = cycles.get("cycles_per_ns") if isinstance(cycles, dict) else None
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)):
        return None
    return float(ratio) if math.isfinite(ratio) and ratio > 0 else None


def title(document: Document) -> str:
    """One line that says what was measured where and when."""
    cpu, kind = (document.settings.get(key) for key in ("cpu", "kind_of_core"))
    core = "" if cpu is None else f", CPU {cpu}" + (f" ({kind})" if kind else "")
    where = f"{document.settings.get('scenario', 'findings')} on {document.machine.name}{core}"
    return visible(f"{where}, {document.started}, {document.elapsed_seconds:.1f} s")


@dataclass(frozen=True)
class View:
    """What is printed of a document: with headings where it is of several scenarios."""

    document: Document

    @property
    def ratio(self) -> float | None:
        """Cycles per ns where some finding is in cycles: the ns column is there then."""
        ratio = cycles_per_ns(self.document)
        if ratio is None or all(numbers.nanoseconds(finding, ratio) is None for finding in self.document.findings):
            return None
        return ratio

    def sections(self) -> dict[str, list[Finding]]:
        """The findings as they are listed, by heading; of a single scenario without headings."""
        found = sections(condensed(self.document.findings))
        return found if "steps" in self.document.evidence else {"": [each for own in found.values() for each in own]}

    def columns(self) -> list[str]:
        """The headings of the columns."""
        return ["parameter", "value", "95 % interval", *(["ns"] if self.ratio else []), "outcome", "note"]

    def cells(self, finding: Finding) -> list[str]:
        """One row."""
        nanoseconds = [numbers.nanoseconds_text(finding, self.ratio)] if self.ratio else []
        cells = [
            finding.parameter,
            numbers.value_text(finding),
            numbers.interval_text(finding),
            *nanoseconds,
            finding.outcome.replace("_", " "),
            finding.reason or finding.method,
        ]
        return [visible(cell) for cell in cells]

    def notes(self) -> list[str]:
        """The notes alone, each behind its parameter."""
        notes = ((each.parameter, each.reason or each.method) for each in self.document.findings)
        return [visible(f"{parameter}: {note}") for parameter, note in notes if note]


def verified(document: Document) -> list[str]:
    """What the table is worth on its machine, where it was held against it; nothing else."""
    checked = document.evidence.get("verify")
    line = checked.get("headline") if isinstance(checked, dict) else None
    return [visible(line)] if isinstance(line, str) else []


def shortcomings(document: Document) -> list[str]:
    """One line for each scenario that failed, or that was not reached before the run was interrupted."""
    steps = document.evidence.get("steps")
    lines = []
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict) and step.get("state") == "failed":
            prefixes = step.get("parameters")
            named = [f"{prefix}*" for prefix in prefixes] if isinstance(prefixes, list) else []
            missing = f", so {', '.join(named)} may be missing" if named else ""
            lines.append(visible(f"{step.get('scenario')} failed{missing}: {step.get('reason')}"))
        elif isinstance(step, dict) and step.get("state") == "pending":
            lines.append(visible(f"{step.get('scenario')} was not run yet"))
    return lines

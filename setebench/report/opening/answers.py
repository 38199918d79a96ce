"""A document's findings as the opening page reads them: by name, as text, or as open with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from setebench.report.numbers import interval_text, nanoseconds_text, number, value_text
from setebench.report.view import cycles_per_ns
from setebench.results import Document, Finding, Outcome

LEVELS = ("l1", "l2", "l3", "l4")
MEMORY = "memory"
OPEN = "open"


@dataclass(frozen=True)
class Answers:
    """What a document says of a machine."""

    document: Document

    @cached_property
    def findings(self) -> dict[str, Finding]:
        """By parameter."""
        return {finding.parameter: finding for finding in self.document.findings}

    @cached_property
    def ratio(self) -> float | None:
        """Core cycles per ns."""
        return cycles_per_ns(self.document)

    @cached_property
    def levels(self) -> list[str]:
        """Cache levels of which anything was asked, nearest first."""
        return [level for level in LEVELS if {f"latency.{level}", f"cache.{level}.size"} & self.findings.keys()]

    def get(self, parameter: str) -> Finding | None:
        """The finding where it has a value."""
        finding = self.findings.get(parameter)
        return finding if finding is not None and finding.value is not None else None

    def value(self, parameter: str) -> Any:
        """The bare value, None where there is none."""
        finding = self.get(parameter)
        return None if finding is None else finding.value

    def text(self, parameter: str) -> str:
        """The value with its unit, `open` where it was asked without an answer, empty where nobody asked."""
        finding = self.get(parameter)
        if finding is None:
            return OPEN if parameter in self.findings else ""
        nothing = finding.outcome is Outcome.ABSENT and not isinstance(finding.value, bool) and finding.value == 0
        return "none" if nothing else value_text(finding)

    def exact(self, parameter: str) -> str:
        """The value with its interval, and in ns where it is a time."""
        finding, text = self.get(parameter), self.timed(parameter)
        if finding is None or finding.low == finding.high or finding.outcome is not Outcome.MEASURED:
            return text
        value, comma, nanoseconds = text.partition(",") if finding.unit == "cycles" else (text, "", "")
        return f"{value} {interval_text(finding)}{comma}{nanoseconds}"

    def timed(self, parameter: str) -> str:
        """The value with its unit, and in ns where it is in cycles and the clock is known."""
        finding, text = self.get(parameter), self.text(parameter)
        nanoseconds = nanoseconds_text(finding, self.ratio) if finding is not None and self.ratio else ""
        return f"{text}, {nanoseconds} ns" if nanoseconds else text

    def bare(self, parameter: str) -> str:
        """The number without its unit, `≥` before a bound."""
        finding = self.get(parameter)
        if finding is None:
            return self.text(parameter)
        if isinstance(finding.value, bool) or not isinstance(finding.value, (int, float)):
            return value_text(finding)
        return f"{'≥ ' if finding.outcome is Outcome.AT_LEAST else ''}{number(finding.value, None)}"

    def bandwidths(self, level: str) -> tuple[Finding | None, Finding | None]:
        """A level's load bandwidth of one thread by its widest loads, and the largest by any kernel and threads."""
        known = [
            each
            for name, each in self.findings.items()
            if name.startswith(f"bandwidth.{level}.")
            and not name.endswith((".traffic", ".per_cycle"))
            and isinstance(each.value, (int, float))
        ]
        loads = [each for each in known if ".load." in each.parameter and each.parameter.endswith(".threads_1")]
        return max(loads, key=_width, default=None), max(known, key=lambda each: each.value, default=None)  # type: ignore[arg-type, return-value]


def rounded(finding: Finding) -> str:
    """The value with a few digits, whatever its interval would support: what a picture has room for."""
    return value_text(msgspec.structs.replace(finding, low=None, high=None))


def _width(finding: Finding) -> int:
    width = finding.parameter.split(".")[3]
    return int(width) if width.isdigit() else 0

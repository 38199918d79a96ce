"""A document's findings as the opening page reads them: by name, as text, or as open with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from setebench.report.numbers import interval_text, nanoseconds, nanoseconds_text, number, value_text
from setebench.report.view import cycles_per_ns
from setebench.results import Document, Finding, Outcome

LEVELS = ("l1", "l2", "l3", "l4")
MEMORY = "memory"
LONG_NS = 1e4
"""Times from here on read better in microseconds."""


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
        if parameter not in self.findings:
            return ""
        finding = self.get(parameter)
        if finding is None:
            return "open"
        return (
            "none"
            if finding.value == 0 and finding.outcome is Outcome.ABSENT and finding.unit != "bool"
            else value_text(finding)
        )

    def exact(self, parameter: str) -> str:
        """The value with its interval, and in ns where it is a time."""
        finding = self.get(parameter)
        if finding is None:
            return self.text(parameter)
        shown = [_text(finding)]
        if finding.low != finding.high and finding.outcome is Outcome.MEASURED:
            shown.append(interval_text(finding))
        nanoseconds = self.nanoseconds(parameter)
        return " ".join(filter(None, shown)) + (f", {nanoseconds}" if nanoseconds else "")

    def nanoseconds(self, parameter: str) -> str:
        """A number of cycles in ns; empty where it is none, or the clock isn't known."""
        finding = self.get(parameter)
        if finding is None or not self.ratio:
            return ""
        value = nanoseconds(finding, self.ratio)
        if value is not None and value >= LONG_NS:
            return f"{number(value / 1000, None)} µs"
        return f"{nanoseconds_text(finding, self.ratio)} ns" if value is not None else ""

    def bare(self, parameter: str) -> str:
        """The number without its unit, `≥` before a bound."""
        finding = self.get(parameter)
        if finding is None:
            return self.text(parameter)
        value = finding.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value_text(finding)
        return f"{'≥ ' if finding.outcome is Outcome.AT_LEAST else ''}{number(value, None)}"

    def bandwidth(self, level: str) -> Finding | None:
        """The load bandwidth of one thread of a level, by the widest loads that were answered."""
        start, end = f"bandwidth.{level}.load.", ".threads_1"
        found = [each for name, each in self.findings.items() if name.startswith(start) and name.endswith(end)]
        known = [each for each in found if each.value is not None]
        return max(known or found, key=_width, default=None)

    def largest(self, level: str) -> Finding | None:
        """The largest bandwidth of a level that was answered, by any kernel and any number of threads."""
        found = [
            (each.value, each)
            for name, each in self.findings.items()
            if name.startswith(f"bandwidth.{level}.") and isinstance(each.value, (int, float)) and _asked(name)
        ]
        return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def _text(finding: Finding) -> str:
    """The value; a number of nothing as `none`."""
    nothing = finding.outcome is Outcome.ABSENT and not isinstance(finding.value, bool)
    return "none" if nothing and finding.value == 0 else value_text(finding)


def rounded(finding: Finding) -> str:
    """The value with a few digits, whatever its interval would support: what a picture has room for."""
    return value_text(msgspec.structs.replace(finding, low=None, high=None))


def _asked(parameter: str) -> bool:
    """Bytes that a program asks for in a second, not those that the caches move besides."""
    return not parameter.endswith((".traffic", ".per_cycle"))


def _width(finding: Finding) -> int:
    width = finding.parameter.split(".")[3]
    return int(width) if width.isdigit() else 0

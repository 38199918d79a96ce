"""A document's findings as the opening page reads them: by name, as text, or as open with the reason."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.text import interval_text, nanoseconds_text, value_text
from setebench.report.view import cycles_per_ns
from setebench.results import Document, Finding, Outcome

MEMORY = "memory"
OPEN = "open"
PAGES = {"4k": "4 KiB", "2m": "2 MiB"}
"""Sizes of pages, as findings and as people call them."""


class Answers:
    """What a document says of a machine."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings = {finding.parameter: finding for finding in document.findings}
        self.ratio = cycles_per_ns(document)
        levels = ("l1", "l2", "l3", "l4")
        self.levels = [each for each in levels if {f"latency.{each}", f"cache.{each}.size"} & self.findings.keys()]

    def get(self, parameter: str) -> Finding | None:
        """The finding where it has a value."""
        finding = self.findings.get(parameter)
        return finding if finding is not None and finding.value is not None else None

    def value(self, parameter: str) -> Any:
        """The bare value, None where there is none."""
        return getattr(self.findings.get(parameter), "value", None)

    def text(self, parameter: str) -> str:
        """The value with its unit, `open` where it was measured without an answer, empty where it was not measured."""
        finding = self.get(parameter)
        if finding is None:
            return OPEN if parameter in self.findings else ""
        nothing = finding.outcome is Outcome.ABSENT and not isinstance(finding.value, bool) and finding.value == 0
        return "none" if nothing else value_text(finding)

    def timed(self, parameter: str, interval: bool = False) -> str:
        """The value with its unit, in ns too where it is in cycles and the clock is known, and with its interval where
        that is wanted and says more."""
        finding, text = self.get(parameter), self.text(parameter)
        if finding is None:
            return text
        if interval and finding.low != finding.high and finding.outcome is Outcome.MEASURED:
            text = f"{text} {interval_text(finding)}"
        nanoseconds = nanoseconds_text(finding, self.ratio) if self.ratio else ""
        return f"{text}, {nanoseconds} ns" if nanoseconds else text

    def transfers(self) -> str:
        """Reads of other cores' changed lines: their range."""
        pairs = [each for name, each in self.findings.items() if name.startswith("latency.core_to_core.")]
        known = [each.number for each in pairs if each.parameter.endswith(".modified") and each.number is not None]
        if not known:
            return OPEN if pairs else ""
        low, high = f"{min(known):.0f}", f"{max(known):.0f}"
        return f"{low} cycles" if low == high else f"{low} to {high} cycles"

    def in_flight(self, level: str) -> str:
        """Misses of a level in flight: how many by whom, and whether threads of a core share them."""
        by = {"loads": f"mshr.{level}.demand", "prefetches": f"mshr.{level}.prefetch"}
        counts = {who: text.removesuffix(" entries") for who, name in by.items() if (text := self.text(name))}
        each = ", ".join(f"{count} by {who}" for who, count in counts.items())
        text = next(iter(counts.values()), "") if len(set(counts.values())) < 2 else each
        shared = text and self.value(f"mshr.{level}.shared_by_smt") is True
        return text + (", shared by a core's threads" if shared else "")

    def bandwidths(self, level: str) -> tuple[Finding | None, Finding | None]:
        """A level's load bandwidth of one thread by its widest loads, and the largest by any kernel and threads."""
        names = [each for each in self.findings if each.startswith(f"bandwidth.{level}.")]
        rates = [self.findings[each] for each in names if not each.endswith((".traffic", ".per_cycle"))]
        known = {each.parameter: each for each in rates if each.number is not None}
        loads = [each for name, each in known.items() if ".load." in name and name.endswith(".threads_1")]
        most = max(known.values(), key=lambda each: each.number or 0.0, default=None)
        return max(loads, key=_width, default=None), most


def rounded(finding: Finding | None) -> str:
    """The value with a few digits, whatever its interval would support: what a picture has room for."""
    return value_text(msgspec.structs.replace(finding, low=None, high=None)) if finding else ""


def kernel(finding: Finding) -> str:
    """`load of 64 bytes, 2 threads`."""
    _, _, name, width, threads, *_ = [*finding.parameter.split("."), "", "", ""]
    count = threads.removeprefix("threads_")
    return f"{name} of {width} bytes, {'1 thread' if count == '1' else f'{count} threads'}"


def _width(finding: Finding) -> int:
    width = finding.parameter.split(".")[3]
    return int(width) if width.isdigit() else 0

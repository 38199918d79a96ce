"""The measured table as the model reads it: numbers with ranges, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from setebench.loops.params import AdviceParams
from setebench.results import Finding, Outcome

LEVELS = ("l1", "l2", "l3")
PAGE_BYTES = {"2m": 1 << 21, "4k": 4096}


@dataclass(frozen=True)
class Quantity:
    """A number with its range; `known` is false where nobody measured it and the range is what CPUs have."""

    value: float
    low: float
    high: float
    known: bool = True


@dataclass
class Table:
    """Findings by parameter, read in the model's terms. `missing` collects what was asked for and isn't there."""

    findings: dict[str, Finding]
    params: AdviceParams = field(default_factory=AdviceParams)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, findings: Iterable[Finding], params: AdviceParams | None = None) -> Table:
        """A table of these findings."""
        return cls({finding.parameter: finding for finding in findings}, params or AdviceParams())

    def said(self, parameter: str) -> Any:
        """The value of a parameter, None where nothing was said of it."""
        finding = self.findings.get(parameter)
        return None if finding is None else finding.value

    def quantity(self, parameter: str) -> Quantity:
        """A number that the advice needs; where it wasn't measured, the plausible range, and it is noted as missing."""
        finding = self.findings.get(parameter)
        low, middle, high = self.params.plausible.get(parameter, (0.0, 0.0, 0.0))
        if finding is not None and isinstance(finding.value, int | float) and finding.value:
            value = float(finding.value)
            if finding.outcome is Outcome.AT_LEAST:
                self.missing[parameter] = f"known to be at least {value:g} {finding.unit}"
                return Quantity(value, value, max(high, value), known=False)
            return Quantity(value, _bound(finding.low, value), _bound(finding.high, value))
        reason = finding.reason if finding is not None and finding.reason else "not in the result"
        self.missing[parameter] = reason
        return Quantity(middle, low, high, known=False)

    # -- what several findings say together ---------------------------------------------------------------------------

    def sizes(self) -> Iterator[tuple[str, float]]:
        """Levels with their sizes in bytes, nearest first; the first two always."""
        for level in LEVELS:
            if level != "l3" or self.said("cache.l3.size"):
                yield level, self.quantity(f"cache.{level}.size").value

    def hint(self, level: str) -> str:
        """The hint whose lines land in that level, the plainest first; "" where none does."""
        hints = ("t0", "nta") if level == "l1" else ("t1", "t2", "nta")
        known = [hint for hint in hints if self.said(f"software_prefetch.fills.{hint}") == level]
        if known:
            return known[0]
        if all(self.said(f"software_prefetch.fills.{hint}") is None for hint in hints):
            self.missing[f"software_prefetch.fills.{hints[0]}"] = "not in the result"
            return hints[0]  # what the hint is meant to do (x86 manuals)
        return ""

    def entries(self, level: str) -> Quantity:
        """Misses of a level that software prefetches can have in flight; without a limit where none was found."""
        finding = self.findings.get(f"mshr.{level}.prefetch")
        if finding is not None and finding.outcome is Outcome.ABSENT:
            return Quantity(1e9, 1e9, 1e9)
        return self.quantity(f"mshr.{level}.prefetch")

    def blocking(self) -> bool:
        """Whether a load that misses lets nothing else begin."""
        return bool(self.said("blocking.load") == "blocking")

    def translated(self, extent: float) -> tuple[float, bool]:
        """(cycles that a random access within so many bytes takes longer in the TLBs, whether prefetches survive it)."""
        pages = "2m" if self.said("tlb.l1.entries.2m") else "4k"
        penalty, survives = 0.0, True
        for level in ("l1", "l2"):
            entries = self.said(f"tlb.{level}.entries.{pages}")
            if isinstance(entries, int | float) and extent > entries * PAGE_BYTES[pages]:
                more = self.said(f"tlb.{level}.miss_penalty.{pages}")
                penalty = float(more) if isinstance(more, int | float) else penalty
                survives &= self.said(f"software_prefetch.on_tlb_miss.{level}") is not False
        return penalty, survives

    def prefetchers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Hardware prefetchers that are there, by identity, with what was found of each."""
        for parameter, finding in self.findings.items():
            if parameter.startswith("prefetcher.") and parameter.endswith(".present") and finding.value is True:
                name = parameter.removesuffix(".present")
                own = {
                    key.removeprefix(f"{name}."): each.value
                    for key, each in self.findings.items()
                    if key.startswith(f"{name}.") and each.value is not None
                }
                yield name.removeprefix("prefetcher."), own


def _bound(bound: float | None, value: float) -> float:
    return value if bound is None else float(bound)

"""The measured table as the model reads it: numbers with ranges, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from setebench.loops.params import AdviceParams
from setebench.results import Finding, Outcome

LEVELS = ("l1", "l2", "l3")
HINT_ORDER = ("t0", "t1", "t2", "nta")
MEANT_HINTS = {"l1": "t0", "l2": "t1"}
UNLIMITED_ENTRIES = 1e9
"""Of misses in flight where no limit was found."""

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

    def number(self, parameter: str) -> float:
        """The value of a parameter that is a number; 0 where none was said."""
        said = self.said(parameter)
        return float(said) if isinstance(said, int | float) else 0.0

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

    def _open(self, parameter: str) -> str:
        """Why nothing is known of a parameter; "" where something is, be it that there is none."""
        finding = self.findings.get(parameter)
        if finding is None:
            return "not in the result"
        return finding.reason or "unresolved" if finding.outcome is Outcome.UNRESOLVED else ""

    # -- what several findings say together ---------------------------------------------------------------------------

    def sizes(self) -> Iterator[tuple[str, float]]:
        """Levels with their sizes in bytes, nearest first; the first two always."""
        for level in LEVELS:
            if level != "l3" or self.said("cache.l3.size"):
                yield level, self.quantity(f"cache.{level}.size").value

    def entries(self, level: str) -> Quantity:
        """Misses of a level that software prefetches can have in flight; without a limit where none was found."""
        finding = self.findings.get(f"mshr.{level}.prefetch")
        if finding is not None and finding.outcome is Outcome.ABSENT:
            return Quantity(UNLIMITED_ENTRIES, UNLIMITED_ENTRIES, UNLIMITED_ENTRIES)
        return self.quantity(f"mshr.{level}.prefetch")

    def demand(self, level: str) -> Quantity:
        """Misses of a level that loads can have in flight; what is known of level 1 goes for both."""
        return self.quantity(f"mshr.{level if self.said(f'mshr.{level}.demand') else 'l1'}.demand")

    def blocking(self) -> bool:
        """Whether a load that misses lets nothing else begin."""
        return bool(self.said("blocking.load") == "blocking")

    def hints(self) -> dict[str, str]:
        """For every level that software prefetches can fill, the plainest hint that does. What is open of the plainest
        hint of a level is taken for what it is meant to do (x86 manuals) and noted as missing: trials show the rest."""
        found: dict[str, str] = {}
        for hint in HINT_ORDER:
            level = self.said(f"software_prefetch.fills.{hint}")
            if level in LEVELS:
                found.setdefault(str(level), hint)
        for level, hint in MEANT_HINTS.items():
            if level not in found and (reason := self._open(f"software_prefetch.fills.{hint}")):
                self.missing[f"software_prefetch.fills.{hint}"] = reason
                found[level] = hint
        return found

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

"""The order of a machine's table: what belongs together, under which heading (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from setebench.compare import Agreement, agreement
from setebench.report.alike import merged
from setebench.report.numbers import number, value_text
from setebench.results import Document, Finding, Outcome

_HEADINGS = (
    ("clock", "Clock"),
    ("latency", "Latency"),
    ("latency.core_to_core", "Latency of lines in other cores' caches"),
    ("cache", "Caches"),
    ("tlb", "TLBs"),
    ("page_fault", "Page faults"),
    ("blocking", "What waits behind a miss"),
    ("mshr", "Misses in flight"),
    ("software_prefetch", "Software prefetch"),
    ("prefetcher", "Hardware prefetchers"),
    ("thread_start", "Threads"),
    ("bandwidth", "Bandwidth"),
    ("loaded_latency", "Latency under load"),
    ("diagnose", "What limits the program"),
)
_RANK = {prefix: (rank, heading) for rank, (prefix, heading) in enumerate(_HEADINGS)}
_LEVELS = ("l1", "l2", "l3", "memory")
_MOST_PAIRS = 12
"""Pairs of CPUs that are listed one by one; a longer matrix is summed up, as the paper does."""


UNDOCUMENTED = "undocumented"
"""The remark on a finding of which a reference has no value."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Findings under one heading."""

    heading: str
    findings: list[Finding]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A document to hold findings against, and what its column is called. `complete` says that what it does not mention
    is worth a mark: a published table is, what the operating system says of caches is not."""

    name: str
    document: Document
    complete: bool = True

    def remark(self, finding: Finding) -> str:
        """`= 14 cycles`, `≠ 12 cycles`, `undocumented`; empty where there is nothing to say."""
        published = {each.parameter: each for each in self.document.findings}.get(finding.parameter)
        if published is None:
            return UNDOCUMENTED if self.complete and _publishable(finding) else ""
        mark = {Agreement.SAME: "= ", Agreement.DIFFERS: "≠ ", Agreement.OPEN: ""}[agreement(finding, published)]
        if finding.outcome is Outcome.AT_LEAST and mark == "= ":  # a bound is not the value
            mark = ""
        return f"{mark}{published_text(published)}"


def _publishable(finding: Finding) -> bool:
    """Whether it says something that a data sheet could: not of this run's clock, a twin, or by one of two methods."""
    ways = finding.parameter.startswith(("clock.", "verify.")) or finding.parameter.endswith((".sete", ".chase"))
    return finding.value is not None and not ways


def published_text(finding: Finding) -> str:
    """A published value as it was published: as a range, or without the digits that its rounding would suggest."""
    low, high = finding.low, finding.high
    if low is not None and high is not None and high - low > 1 and finding.unit != "bytes":
        return f"{number(low, None)} to {number(high, None)} {finding.unit}"
    return value_text(msgspec.structs.replace(finding, low=None, high=None))


def sections(findings: Iterable[Finding]) -> list[Section]:
    """All findings under headings; what has no heading of its own comes last, under the first part of its name. There
    is one section for each hardware prefetcher."""
    found: dict[tuple[int, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault(_place(finding.parameter), []).append(finding)
    ordered = sorted(found, key=lambda place: place[0])  # within a rank in order of appearance: a sort is stable
    return [Section(heading=place[1], findings=sorted(found[place], key=_level)) for place in ordered]


def _level(finding: Finding) -> str:
    """Nearer levels first: l1, l2, l3, memory. Everything else stays in order of appearance."""
    parts = finding.parameter.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in _LEVELS else ""


def _place(parameter: str) -> tuple[int, str]:
    parts = parameter.split(".")
    rank, heading = _RANK.get(".".join(parts[:2]), _RANK.get(parts[0], (len(_RANK), parts[0] or "Other")))
    if parts[0] == "prefetcher" and len(parts) > 2:
        return rank, f"Hardware prefetcher {'.'.join(parts[1:3])}"
    return rank, heading


def condensed(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with those that stayed open for one reason as one, and with a long matrix of core-to-core latencies
    summed up: one line per state of the line."""
    pairs = [each for each in findings if each.parameter.startswith("latency.core_to_core.")]
    if len(pairs) <= _MOST_PAIRS:
        return merged(findings)
    states: dict[str, list[Finding]] = {}
    for finding in pairs:
        states.setdefault(finding.parameter.rpartition(".")[2], []).append(finding)
    rest = [each for each in findings if not each.parameter.startswith("latency.core_to_core.")]
    return merged(rest) + [_summed_up(state, members) for state, members in states.items()]


def _summed_up(state: str, members: list[Finding]) -> Finding:
    values = [float(each.value) for each in members if type(each.value) in (int, float)]  # type: ignore[arg-type]
    name = f"latency.core_to_core.*.{state}"
    if not values:
        return Finding(parameter=name, unit="cycles", outcome=Outcome.UNRESOLVED, reason="no pair was resolved")
    mean, deviation = (number(of(values), 0) for of in (statistics.fmean, statistics.pstdev))
    return Finding(
        parameter=name,
        value=f"{number(min(values), 0)} to {number(max(values), 0)} cycles",
        unit="string",
        method=f"average {mean}, standard deviation {deviation}, over {len(values)} of {len(members)} pairs; "
        "all of them in CSV and JSON",
    )

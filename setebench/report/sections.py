"""The order of a machine's table: what belongs together, under which heading (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

import msgspec

from setebench.report.numbers import number, value_text
from setebench.results import Finding, Outcome
from setebench.text import visible

_HEADINGS = {
    "clock": "Clock",
    "latency": "Latency",
    "latency.core_to_core": "Latency of lines in other cores' caches",
    "cache": "Caches",
    "tlb": "TLBs",
    "page_fault": "Page faults",
    "blocking": "What waits behind a miss",
    "mshr": "Misses in flight",
    "software_prefetch": "Software prefetch",
    "prefetcher": "Hardware prefetchers",
    "thread_start": "Threads",
    "bandwidth": "Bandwidth",
    "loaded_latency": "Latency under load",
    "diagnose": "What limits the program",
}
_RANK = {prefix: rank for rank, prefix in enumerate(_HEADINGS)}
_LEVELS = ("l1", "l2", "l3", "memory")
_PAIRS = "latency.core_to_core."
_MOST_PAIRS = 12
"""Pairs of CPUs that are listed one by one; a longer matrix is summed up, as the paper does."""

_MOST_NAMES = 6
"""Names that a row of several findings spells out."""


def published_text(finding: Finding) -> str:
    """A published value as it was published: as a range, or without the digits that its rounding would suggest."""
    low, high = finding.low, finding.high
    if low is not None and high is not None and high - low > 1 and finding.unit != "bytes":
        return f"{number(low, None)} to {number(high, None)} {finding.unit}"
    return value_text(msgspec.structs.replace(finding, low=None, high=None))


def sections(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """All findings by heading; what has no heading of its own comes last, under the first part of its name. There is
    one heading for each hardware prefetcher. Nearer levels come first, all else in order of appearance."""
    found, ranks = dict[str, list[Finding]](), dict[str, int]()
    for finding in findings:
        first, *rest = parts = finding.parameter.split(".")
        prefix = next((each for each in (".".join(parts[:2]), first) if each in _RANK), "")
        heading = _HEADINGS.get(prefix, visible(first) or "Other")
        if first == "prefetcher" and len(rest) > 1:
            heading = visible(f"Hardware prefetcher {'.'.join(rest[:2])}")
        ranks.setdefault(heading, _RANK.get(prefix, len(_RANK)))
        found.setdefault(heading, []).append(finding)

    def level(finding: Finding) -> str:
        return next((each for each in _LEVELS if finding.parameter.split(".")[1:2] == [each]), "")

    return {heading: sorted(found[heading], key=level) for heading in sorted(found, key=ranks.__getitem__)}


# -- several findings as one ------------------------------------------------------------------------------------------


def condensed(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with those that stayed open for one reason as one, and with a long matrix of core-to-core latencies
    summed up: one line per state of the line."""
    states: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.parameter.startswith(_PAIRS):
            states.setdefault(finding.parameter.rpartition(".")[2], []).append(finding)
    if sum(map(len, states.values())) <= _MOST_PAIRS:
        return merged(findings)
    found = merged(each for each in findings if not each.parameter.startswith(_PAIRS))
    for state, members in states.items():
        values = [float(each.value) for each in members if isinstance(each.value, (int, float))]
        none = Finding(parameter=f"{_PAIRS}*.{state}", outcome=Outcome.UNRESOLVED, reason="no pair was resolved")
        if values:
            low, high, mean, deviation = (f"{of(values):.0f}" for of in (min, max, fmean, pstdev))
            method = f"average {mean}, standard deviation {deviation}, over {len(values)} of {len(members)} pairs"
            shown = {"outcome": Outcome.MEASURED, "reason": None, "method": f"{method}; all of them in CSV and JSON"}
            none = msgspec.structs.replace(none, value=f"{low} to {high} cycles", unit="string", **shown)
        found.append(none)
    return found


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with those of one thing that lack a value for the same reason as one, where the first of them
    stands: `latency.l1.{vector16,vector32}`."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        parent, _, name = finding.parameter.rpartition(".")
        key = (finding.outcome, finding.reason, parent) if finding.value is None else (parent, name)
        groups.setdefault(key, []).append(finding)
    found = []
    for first, *others in groups.values():
        parent = first.parameter.rpartition(".")[0]
        names = [each.parameter.removeprefix(f"{parent}.") for each in (first, *others)]
        whole = f"{parent}.{{{listed(names, ',')}}}" if others else first.parameter
        found.append(msgspec.structs.replace(first, parameter=whole))
    return found


def listed(names: list[str], between: str = ", ") -> str:
    """The first names, and how many more there are."""
    more = [f"... {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return between.join([*names[:_MOST_NAMES], *more])

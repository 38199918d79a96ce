"""What is shown of a document, whatever the form: its title, columns and rows, and what belongs together under which
heading (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import msgspec

from setebench.report.text import interval_text, nanoseconds, nanoseconds_text, number, value_text
from setebench.results import Document, Finding
from setebench.store import part
from setebench.text import MOST_LISTED, shortened, visible

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
RIGHT_ALIGNED = ("value", "95 % interval", "ns")


def cycles_per_ns(document: Document) -> float | None:
    """Core cycles per nanosecond while the document was measured, None where it doesn't say."""
    ratio: Any = part(document.evidence, "cycles").get("cycles_per_ns")
    return float(ratio) if type(ratio) in (int, float) and 0 < ratio < math.inf else None


def title(document: Document) -> str:
    """One line that says what was measured where and when."""
    cpu, kind = (document.settings.get(key) for key in ("cpu", "kind_of_core"))
    core = "" if cpu is None else f", CPU {cpu}" + (f" ({kind})" if kind else "")
    if pages := part(document.evidence, "pages"):
        core += f", {pages.get('size')} pages{' as /proc/self/smaps shows them' if pages.get('shown_bytes') else ''}"
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
        if ratio is None or all(nanoseconds(finding, ratio) is None for finding in self.document.findings):
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
        in_ns = [nanoseconds_text(finding, self.ratio)] if self.ratio else []
        cells = [
            finding.parameter,
            value_text(finding),
            interval_text(finding),
            *in_ns,
            finding.outcome.replace("_", " "),
            finding.reason or finding.method,
        ]
        return [visible(cell) for cell in cells]


def verified(document: Document) -> list[str]:
    """What the table is worth on its machine, where it was held against it; nothing else."""
    line = part(document.evidence, "verify").get("headline")
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


# -- what belongs together --------------------------------------------------------------------------------------------


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
    pairs: dict[str, dict[str, float]] = {}
    for each in findings:
        if each.parameter.startswith(_PAIRS) and each.number is not None:
            pairs.setdefault(each.parameter.rpartition(".")[2], {})[each.parameter] = each.number
    if sum(map(len, pairs.values())) <= MOST_LISTED:
        return merged(findings)
    found = merged(each for each in findings if not any(each.parameter in own for own in pairs.values()))
    for state, own in pairs.items():
        low, high, mean, deviation = (f"{of(own.values()):.0f}" for of in (min, max, fmean, pstdev))
        method = f"average {mean}, standard deviation {deviation}, over {len(own)} pairs; all of them in CSV and JSON"
        value = f"{low} to {high} cycles"
        found.append(Finding(parameter=f"{_PAIRS}*.{state}", value=value, unit="string", method=method))
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
        whole = f"{parent}.{{{','.join(shortened(names))}}}" if others else first.parameter
        found.append(msgspec.structs.replace(first, parameter=whole))
    return found

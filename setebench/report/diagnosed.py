"""A diagnosed program in words, for a terminal: what limits it as far as is known, where its time goes, what to try,
and what can't be known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from setebench.report.numbers import interval_text, value_text
from setebench.results import Document, Finding, Outcome

MOST_FUNCTIONS = 8
MOST_THREADS = 16
BAR = 40
"""Characters of a full bar."""

SYSTEM = {"page_fault": "page faults", "context_switch": "context switches", "cpu_migration": "migrations"}
"""What the kernel counts of a region."""

_PARTS = (
    ("productive", "productive"),
    ("other_stalls", "other stalls"),
    ("memory_latency", "waiting for memory, latency"),
    ("memory_bandwidth", "waiting for memory, bandwidth"),
)


def report(document: Document) -> str:
    """Some lines of plain text, which end with a newline."""
    found: Mapping[str, Any] = document.evidence.get("diagnose") or {}
    parts = (_functions, _suffering, _threads, _regions, _advice)
    sections = [_head(document, found), _cycles(document), _figures(document), *(part(found) for part in parts)]
    blocks = ["\n".join(section) for section in (*sections, _unknown(document, found))]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _head(document: Document, found: Mapping[str, Any]) -> Iterator[str]:
    words = " ".join(found.get("program") or [])
    simulated = " (simulated counts)" if found.get("source") == "simulated" else ""
    ending = f", {found['ending']}" if found.get("ending") else ""
    yield f"{words}{simulated}: {document.elapsed_seconds:.3g} s{ending}"


def _cycles(document: Document) -> Iterator[str]:
    values = [(label, _value(document, name)) for name, label in _PARTS]
    if all(value is None for _, value in values):
        return
    yield "Cycles"
    for label, value in values:
        bar = "#" * round(BAR * (value or 0.0) / 100)
        yield f"  {label:30} {value:5.1f} %  {bar}" if value is not None else f"  {label:30} unknown"
    buffer = _value(document, "store_buffer")
    if buffer is not None:
        yield f"  store buffer full, within these {buffer:5.1f} %"


def _value(document: Document, name: str) -> float | None:
    parameter = f"diagnose.{name}"
    value = document[parameter].value if parameter in document else None
    return float(value) if isinstance(value, (int, float)) else None


def _figures(document: Document) -> Iterator[str]:
    shown = {f"diagnose.{name}" for name, _ in _PARTS} | {"diagnose.store_buffer"}
    known = [each for each in document.findings if each.value is not None and each.parameter not in shown]
    if known:
        yield "Figures"
    for finding in known:
        name = finding.parameter.removeprefix("diagnose.")
        yield f"  {name:22} {value_text(finding)}  {interval_text(finding)}".rstrip()


def _functions(found: Mapping[str, Any]) -> Iterator[str]:
    if found.get("functions"):
        yield "Time by function (samples of time on a CPU)"
        yield from _spots(found["functions"])


def _suffering(found: Mapping[str, Any]) -> Iterator[str]:
    if not found.get("suffering"):
        return
    flags = zip(found["start_seconds"], found["end_seconds"], found["saturated"], strict=True)
    yield f"While memory was saturated ({sum(end - start for start, end, flag in flags if flag):.3g} s)"
    yield from _spots(found["suffering"])


def _spots(spots: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for spot in spots[:MOST_FUNCTIONS]:
        line = f"  {spot['line']}" if spot["line"] else ""
        file = spot["object"].rpartition("/")[2]
        yield f"  {100 * spot['fraction']:5.1f} %  {spot['function']}  [{file}]{line}"


def _threads(found: Mapping[str, Any]) -> Iterator[str]:
    threads: Sequence[Mapping[str, Any]] = found.get("threads") or []
    if len(threads) < 2:
        return
    yield "Threads (CPU time by samples)"
    busiest = sorted(threads, key=lambda thread: -thread["cpu_seconds"])
    for thread in busiest[:MOST_THREADS]:
        yield f"  {thread['number']:>8}  {thread['name']:16} {thread['cpu_seconds']:.3g} s"
    if len(busiest) > MOST_THREADS:
        yield f"  and {len(busiest) - MOST_THREADS} more"


def _regions(found: Mapping[str, Any]) -> Iterator[str]:
    regions: Sequence[Mapping[str, Any]] = found.get("regions") or []
    if regions:
        yield "Regions"
    for region in regions:
        counts = [
            f"{region['counts'][role]['value']:,} {words}"
            for role, words in SYSTEM.items()
            if region["counts"].get(role, {}).get("value") is not None
        ]
        yield f"  {region['name']}: {region['calls']:,} calls, {region['seconds']:.3g} s, {', '.join(counts)}"


def _advice(found: Mapping[str, Any]) -> Iterator[str]:
    entries: Sequence[Mapping[str, Any]] = found.get("advice") or []
    if entries:
        yield "What to try"
    for entry in entries:
        yield f"  - {entry['text']}"
        yield f"    rests on {', '.join(entry['rests_on'])}"


def _unknown(document: Document, found: Mapping[str, Any]) -> Iterator[str]:
    """Findings that there are not, by reason: each reason once, with what it keeps from being known."""
    reasons: dict[str, list[str]] = {}
    for finding in document.findings:
        if finding.outcome in (Outcome.UNAVAILABLE, Outcome.UNRESOLVED):
            reasons.setdefault(_cause(finding), []).append(finding.parameter.removeprefix("diagnose."))
    if found.get("unsampled"):
        reasons.setdefault(found["unsampled"], []).append("time by function")
    if reasons:
        yield "Not known"
    for reason, names in reasons.items():
        yield f"  {', '.join(names)}:"
        yield f"    {reason}"


def _cause(finding: Finding) -> str:
    """The reason without the role that it is reported of, so that equal causes are listed once."""
    reason = finding.reason or ""
    role, colon, cause = reason.partition(": ")
    return cause if colon and " " not in role else reason

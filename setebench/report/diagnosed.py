"""A diagnosed program in words, for a terminal: what limits it as far as is known, where its time goes, what to try,
and what can't be known here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from setebench.report.text import interval_text, value_text
from setebench.results import Document
from setebench.text import MOST_LISTED, shortened

BAR = 40
"""Characters of a full bar."""

PARTS = {
    "diagnose.productive": "productive",
    "diagnose.other_stalls": "other stalls",
    "diagnose.memory_latency": "waiting for memory, latency",
    "diagnose.memory_bandwidth": "waiting for memory, bandwidth",
}
BUFFER = "diagnose.store_buffer"

Found = Mapping[str, Any]


def report(document: Document) -> str:
    """Some lines of plain text, which end with a newline: sections with a heading, those without lines left out."""
    found: Found = document.evidence.get("diagnose") or {}
    words = " ".join(found.get("program") or []) + " (simulated counts)" * (found.get("source") == "simulated")
    ending = f", {found['ending']}" if found.get("ending") else ""
    flags = zip(*(found.get(key) or () for key in ("start_seconds", "end_seconds", "saturated")), strict=False)
    saturated = sum(end - start for start, end, flag in flags if flag)
    advice = found.get("advice") or ()
    sections: dict[str, Iterable[str]] = {
        "Cycles": _cycles(document),
        "Figures": _figures(document),
        "Time by function (samples of time on a CPU)": _spots(found.get("functions") or ()),
        f"While memory was saturated ({saturated:.3g} s)": _spots(found.get("suffering") or ()),
        "Threads (CPU time by samples)": _threads(found.get("threads") or ()),
        "What to try": (f"- {each['text']}\n    rests on {', '.join(each['rests_on'])}" for each in advice),
        "Not known": _unknown(document, found),
    }
    blocks = [f"{words}: {document.elapsed_seconds:.3g} s{ending}"]
    for heading, lines in sections.items():
        if shown := [f"  {line}".rstrip() for line in lines]:
            blocks.append("\n".join([heading, *shown]))
    return "\n\n".join(blocks) + "\n"


def _cycles(document: Document) -> Iterator[str]:
    values = {finding.parameter: finding.value for finding in document.findings}
    if all(values.get(name) is None for name in PARTS):
        return
    for name, label in PARTS.items():
        value = values.get(name)
        known = f"{value:5.1f} %  {'#' * round(BAR * value / 100)}" if isinstance(value, (int, float)) else "unknown"
        yield f"{label:30} {known}"
    if values.get(BUFFER) is not None:
        yield f"store buffer full, within these {values[BUFFER]:5.1f} %"


def _figures(document: Document) -> Iterator[str]:
    for each in document.findings:
        if each.value is not None and each.parameter not in (*PARTS, BUFFER):
            yield f"{each.parameter.removeprefix('diagnose.'):22} {value_text(each)}  {interval_text(each)}"


def _spots(spots: Sequence[Found]) -> Iterator[str]:
    for spot in spots[:MOST_LISTED]:
        line, file = f"  {spot['line']}" if spot["line"] else "", spot["object"].rpartition("/")[2]
        yield f"{100 * spot['fraction']:5.1f} %  {spot['function']}  [{file}]{line}"


def _threads(threads: Sequence[Found]) -> Iterator[str]:
    busiest = sorted(threads, key=lambda thread: -thread["cpu_seconds"]) if len(threads) > 1 else []
    yield from shortened([f"{each['number']:>8}  {each['name']:16} {each['cpu_seconds']:.3g} s" for each in busiest])


def _unknown(document: Document, found: Found) -> Iterator[str]:
    """Findings that there are not, by reason without the role that it is reported of: each reason once, with what it
    keeps from being known."""
    reasons: dict[str, list[str]] = {}
    for finding in document.findings:
        if finding.value is None:
            role, colon, cause = (finding.reason or "").partition(": ")
            reason = cause if colon and " " not in role else finding.reason or ""
            reasons.setdefault(reason, []).append(finding.parameter.removeprefix("diagnose."))
    if found.get("unsampled"):
        reasons.setdefault(found["unsampled"], []).append("time by function")
    yield from (f"{', '.join(names)}:\n    {reason}" for reason, names in reasons.items())

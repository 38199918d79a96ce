"""What a score document says, as rows and sentences for a terminal and for the accuracy page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

SHARES = {
    "right": "right",
    "bounded": "bounded within 20 % of the truth",
    "open": "open (also bounds further off)",
    "wrong": "wrong",
}
"""Shares of rows, and what they are called."""

HEADS = ("rows", *SHARES, "coverage", "width")
MOST_NAMES = 12
"""Parameters that a sentence names; the JSON has all."""

Document = Mapping[str, Any]


def by_scenario(accuracy: Document) -> Iterator[tuple[str, list[list[str]]]]:
    """For each scenario the rows of its parameters: how many there are and how they stand, which part of the measured
    intervals holds the truth, and how wide they are relative to it."""
    for scenario, tables in accuracy.items():
        rows = []
        for name, row in tables["parameters"].items():
            width = "" if row["median_width"] is None else f"{row['median_width']:.1%}"
            coverage = "{} of {}".format(*row["coverage"]) if row["coverage"] else ""
            rows.append([name, *(str(row[key]) for key in ("rows", *SHARES)), coverage, width])
        yield scenario, rows


def proportion(part: Document) -> str:
    """`3 of 4 (75.0 % [30.1, 95.4])`."""
    return f"{part['hits']} of {part['trials']} ({fraction(part)})" if part["trials"] else "none"


def fraction(part: Document) -> str:
    """In per cent, with its interval."""
    if not part["trials"]:
        return "none"
    limits = "" if part["low"] is None else f" [{100 * part['low']:.1f}, {100 * part['high']:.1f}]"
    return f"{100 * part['fraction']:.1f} %{limits}"


def remarks(score: Document) -> Iterator[str]:
    """What qualifies the shares."""
    if (held := score["calibration"]["continuous"])["trials"]:
        yield f"measured 95 % intervals of latencies, penalties and rates that hold the truth: {proportion(held)}"
    if names := [entry["parameter"] for entry in score["constant"]]:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        what = "nearly the same on all machines, so that right answers count nowhere"
        yield f"{len(names)} parameters {what}: {', '.join(names[:MOST_NAMES])}{more}"
    reasons = Counter(f"{each['scenario']}: {each['reason']}" for each in score["failures"])
    for reason, number in reasons.most_common():
        yield f"not run on {number} machines: {reason}"
    yield from (f"lost: {item['machine']}: {item['reason']}" for item in score["lost"])

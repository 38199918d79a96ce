"""Findings of a truth: measured without doubt, or absent."""

from __future__ import annotations

import msgspec

from setebench.results import Finding, Outcome, Value

METHOD = "machine file"
UNITS: dict[type, str] = {bool: "bool", str: "string", list: "list"}


def exact(
    parameter: str, value: Value, unit: str = "", ends: tuple[float, float] = (0.0, 0.0), hidden_by: str = ""
) -> Finding:
    """A value that the machine file defines, and lets drift between `ends` where these differ; no entries at all are
    absent ones. What is no number needs no unit. Of a count that something else lets nobody reach no more than a bound
    can be measured (`hidden_by`)."""
    low, high = ends if ends[0] < ends[1] else (None, None)
    found = Finding(
        parameter=parameter, value=value, unit=unit or UNITS[type(value)], low=low, high=high, method=METHOD
    )
    if hidden_by and value:
        return msgspec.structs.replace(found, outcome=Outcome.AT_LEAST, reason=f"hidden by {hidden_by}")
    return msgspec.structs.replace(found, outcome=Outcome.ABSENT) if unit == "entries" and not value else found


def absent(parameter: str) -> Finding:
    """Something that the machine does not have."""
    return Finding(parameter=parameter, value=False, unit="bool", outcome=Outcome.ABSENT, method=METHOD)

"""Findings of a truth: measured without doubt, or absent."""

from __future__ import annotations

from setebench.results import Finding, Outcome, Value

METHOD = "machine file"


def exact(parameter: str, value: Value, unit: str, ends: tuple[float, float] = (0.0, 0.0)) -> Finding:
    """A value that the machine file defines, and lets drift between `ends` where these differ; no entries at all are
    absent ones."""
    outcome = Outcome.ABSENT if unit == "entries" and not value else Outcome.MEASURED
    low, high = ends if ends[0] < ends[1] else (None, None)
    return Finding(parameter=parameter, value=value, unit=unit, low=low, high=high, outcome=outcome, method=METHOD)


def hidden(parameter: str, reached: int, unit: str, by: str) -> Finding:
    """A count of which something else lets no more be reached: no more than a bound can be measured."""
    bound, reason = Outcome.AT_LEAST, f"hidden by {by}"
    return Finding(parameter=parameter, value=reached, unit=unit, outcome=bound, reason=reason, method=METHOD)


def absent(parameter: str) -> Finding:
    """Something that the machine does not have."""
    return Finding(parameter=parameter, value=False, unit="bool", outcome=Outcome.ABSENT, method=METHOD)

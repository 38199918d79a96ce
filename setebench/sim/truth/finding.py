"""Findings of a truth: measured without doubt, or absent."""

from __future__ import annotations

from setebench.errors import UnsupportedError
from setebench.results import Finding, Outcome, Value

METHOD = "machine file"


def exact(parameter: str, value: Value, unit: str) -> Finding:
    """A value that the machine file defines."""
    return Finding(parameter=parameter, value=value, unit=unit, method=METHOD)


def between(parameter: str, value: Value, low: float, high: float, unit: str) -> Finding:
    """A value that the machine file defines and lets drift from `low` to `high`."""
    if low == high:
        return exact(parameter, value, unit)
    return Finding(parameter=parameter, value=value, low=low, high=high, unit=unit, method=METHOD)


def count(parameter: str, value: int, unit: str) -> Finding:
    """A count; zero says that there is none."""
    outcome = Outcome.MEASURED if value else Outcome.ABSENT
    return Finding(parameter=parameter, value=value, unit=unit, outcome=outcome, method=METHOD)


def hidden(parameter: str, reached: int, unit: str, by: str) -> Finding:
    """A count of which something else lets no more be reached: no more than a bound can be measured."""
    reason = f"hidden by {by}"
    return Finding(
        parameter=parameter, value=reached, unit=unit, outcome=Outcome.AT_LEAST, reason=reason, method=METHOD
    )


def unknown(parameter: str, unit: str, error: UnsupportedError) -> Finding:
    """What only a run of the machine tells, where none can be run."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=str(error), method=METHOD)


def absent(parameter: str) -> Finding:
    """Something that the machine does not have."""
    return Finding(parameter=parameter, value=False, unit="bool", outcome=Outcome.ABSENT, method=METHOD)

"""From an estimate to a finding: the one place that says what may be called measured.

A number is measured with its interval; what could not be decided carries a reason and no value.
"""

from __future__ import annotations

import math
from typing import Any

from setebench.results import Finding, Outcome
from setebench.stats.estimate import Estimate


def measured(parameter: str, estimate: Estimate, unit: str, method: str = "", evidence: str = "") -> Finding:
    """A number with its interval; unresolved where the interval is infinite."""
    if not (math.isfinite(estimate.value) and math.isfinite(estimate.half_width)):
        return unresolved(parameter, unit, "too few epochs for an interval", method)
    return Finding(
        parameter=parameter,
        value=estimate.value,
        unit=unit,
        low=estimate.low,
        high=estimate.high,
        outcome=Outcome.MEASURED,
        method=method,
        evidence=evidence,
    )


def chosen(parameter: str, value: Any, unit: str, method: str = "", evidence: str = "") -> Finding:
    """One value of a closed set, a list of such, or a truth value, that the data chose."""
    return Finding(
        parameter=parameter, value=value, unit=unit, outcome=Outcome.MEASURED, method=method, evidence=evidence
    )


def unresolved(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What the data left open, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=reason, method=method)


def unavailable(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What this machine or its rights don't allow to be asked, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason, method=method)

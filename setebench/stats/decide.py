"""From an estimate to a finding: the one place that says what may be called measured.

A number is measured with its interval; what could not be decided carries a reason and no value.
"""

from __future__ import annotations

import math
from typing import Any

from setebench.results import Finding, Outcome
from setebench.stats.estimate import CONFIDENCE, Estimate
from setebench.stats.threshold import Posterior


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


def counted(parameter: str, posterior: Posterior, unit: str, method: str = "", evidence: str = "") -> Finding:
    """The largest number that fits: measured where one has the confidence, a bound where only "so many at least" has,
    else open between the ends of its interval."""
    if posterior.certainty >= CONFIDENCE and posterior.value < int(posterior.numbers[-1]):
        low, high = posterior.interval(CONFIDENCE)
        return Finding(
            parameter=parameter,
            value=posterior.value,
            unit=unit,
            low=min(low, posterior.value),
            high=max(high, posterior.value),
            outcome=Outcome.MEASURED,
            method=method,
            evidence=evidence,
        )
    if posterior.beyond >= CONFIDENCE:
        why = f"no limit up to {int(posterior.numbers[-1])}, the most that was asked"
        return at_least(parameter, int(posterior.numbers[-1]), unit, why, method, evidence)
    low, high = posterior.interval(CONFIDENCE)
    return unresolved(parameter, unit, f"between {low} and {high}; run again at a quieter time", method)


def at_least(parameter: str, value: float, unit: str, reason: str, method: str = "", evidence: str = "") -> Finding:
    """A bound from below, and why it is no more than that."""
    return Finding(
        parameter=parameter,
        value=value,
        unit=unit,
        outcome=Outcome.AT_LEAST,
        reason=reason,
        method=method,
        evidence=evidence,
    )


def unresolved(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What the data left open, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=reason, method=method)


def unavailable(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What this machine or its rights don't allow to be asked, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason, method=method)

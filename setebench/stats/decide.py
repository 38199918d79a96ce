"""From an estimate to a finding: the one place that says what may be called measured.

A number is measured with its interval; what could not be decided carries a reason and no value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from setebench.results import Finding, Outcome
from setebench.stats.estimate import CONFIDENCE, Estimate, Interval


def measured(parameter: str, estimate: Estimate | Interval, unit: str, method: str = "", evidence: str = "") -> Finding:
    """A number with its interval; unresolved where the interval is infinite."""
    if not all(math.isfinite(each) for each in (estimate.value, estimate.low, estimate.high)):
        return unresolved(parameter, unit, "too few epochs for an interval", method)
    return within(chosen(parameter, estimate.value, unit, method, evidence), estimate.low, estimate.high)


def within(finding: Finding, low: float, high: float) -> Finding:
    """The finding of a number with an interval, which always holds the number: ends that don't are moved to it."""
    value: Any = finding.value
    return msgspec.structs.replace(finding, low=min(low, value), high=max(high, value))


def as_precise(finding: Finding, half_width: float) -> Finding:
    """A measured number, if half its interval is no wider than that; else the lower end as a bound, as the middle is
    hardly more likely than the ends."""
    if finding.low is None or finding.high is None or (finding.high - finding.low) / 2 <= half_width:
        return finding
    reason = f"only known to lie between {finding.low:.4g} and {finding.high:.4g} {finding.unit}"
    return msgspec.structs.replace(finding, value=finding.low, outcome=Outcome.AT_LEAST, reason=reason)


def chosen(parameter: str, value: Any, unit: str, method: str = "", evidence: str = "") -> Finding:
    """One value of a closed set, a list of such, or a truth value, that the data chose."""
    return Finding(
        parameter=parameter, value=value, unit=unit, outcome=Outcome.MEASURED, method=method, evidence=evidence
    )


def at_least(parameter: str, value: float, unit: str, reason: str, method: str = "") -> Finding:
    """A bound from below, and why it is no more than that."""
    return Finding(parameter=parameter, value=value, unit=unit, outcome=Outcome.AT_LEAST, reason=reason, method=method)


def backed(finding: Finding, evidence: str) -> Finding:
    """The finding, with the name of the evidence behind it."""
    return msgspec.structs.replace(finding, evidence=evidence)


def unresolved(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What the data left open, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=reason, method=method)


def unavailable(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """What this machine or its rights don't allow to be measured, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason, method=method)


def absent(parameter: str, value: Any, unit: str, method: str = "") -> Finding:
    """What was looked for properly, and is not there: 0, or False."""
    return Finding(parameter=parameter, value=value, unit=unit, outcome=Outcome.ABSENT, method=method)


def number_of(parameter: str, posterior: Mapping[int, float], unit: str, method: str = "") -> Finding:
    """The number that the posterior probability gives `CONFIDENCE` to, else the largest one as a bound that it is at
    least with that. Needs one number."""
    likely = sorted(posterior, key=lambda value: -posterior[value])[:3]
    if posterior[likely[0]] >= CONFIDENCE:
        return chosen(parameter, likely[0], unit, method)
    several = " or ".join(f"{value} ({posterior[value]:.0%})" for value in likely)
    least = max(value for value in posterior if sum(p for each, p in posterior.items() if each >= value) >= CONFIDENCE)
    return at_least(parameter, least, unit, f"{several} explain what was measured", method)

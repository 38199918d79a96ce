"""Build findings (records of one parameter: value, unit, interval, outcome, reason), one function for each outcome.
`parameter` is a name such as "cache.l1.size", `method` says in words how it was measured, and `evidence` is the name of
the entry in the result file that shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from setebench.results import Finding, Outcome
from setebench.stats.estimate import CONFIDENCE, Estimate, Interval


def measured(parameter: str, estimate: Estimate | Interval, unit: str, method: str = "", evidence: str = "") -> Finding:
    """Return the finding of a measured number with its interval, or an unresolved one if the interval is infinite."""
    if not all(math.isfinite(each) for each in (estimate.value, estimate.low, estimate.high)):
        return unresolved(parameter, unit, "too few epochs for an interval", method)
    return within(chosen(parameter, estimate.value, unit, method, evidence), estimate.low, estimate.high)


def within(finding: Finding, low: float, high: float) -> Finding:
    """Return the finding with the interval from `low` to `high`, extended if necessary to hold the finding's value."""
    value: Any = finding.value
    return msgspec.structs.replace(finding, low=min(low, value), high=max(high, value))


def as_precise(finding: Finding, half_width: float) -> Finding:
    """Return the finding unchanged if half its interval is at most `half_width`; else the interval's lower end with the
    outcome `at_least`, as in a wide interval the middle is hardly more likely than the ends."""
    if finding.low is None or finding.high is None or (finding.high - finding.low) / 2 <= half_width:
        return finding
    reason = f"only known to lie between {finding.low:.4g} and {finding.high:.4g} {finding.unit}"
    return msgspec.structs.replace(finding, value=finding.low, outcome=Outcome.AT_LEAST, reason=reason)


def chosen(parameter: str, value: Any, unit: str, method: str = "", evidence: str = "") -> Finding:
    """Return a measured finding without an interval: a name, a truth value, a count, or a list of such values."""
    return Finding(
        parameter=parameter, value=value, unit=unit, outcome=Outcome.MEASURED, method=method, evidence=evidence
    )


def at_least(parameter: str, value: float, unit: str, reason: str, method: str = "") -> Finding:
    """Return the finding of a lower bound, with the reason why the value itself is not known."""
    return Finding(parameter=parameter, value=value, unit=unit, outcome=Outcome.AT_LEAST, reason=reason, method=method)


def backed(finding: Finding, evidence: str) -> Finding:
    """Return the finding with the name of its `evidence`, an entry in the result file."""
    return msgspec.structs.replace(finding, evidence=evidence)


def unresolved(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """Return the finding of a parameter that the samples don't decide, with the reason."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=reason, method=method)


def unavailable(parameter: str, unit: str, reason: str, method: str = "") -> Finding:
    """Return the finding of a parameter that can't be measured on this machine or without more rights, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason, method=method)


def absent(parameter: str, value: Any, unit: str, method: str = "") -> Finding:
    """Return the finding of a feature that a valid search did not find; its value is 0 or False."""
    return Finding(parameter=parameter, value=value, unit=unit, outcome=Outcome.ABSENT, method=method)


def number_of(parameter: str, posterior: Mapping[int, float], unit: str, method: str = "") -> Finding:
    """Return a finding of the most probable number if its probability is at least `CONFIDENCE`; else the largest lower
    bound that holds with `CONFIDENCE`. `posterior` maps each candidate (at least one) to its probability."""
    likely = sorted(posterior, key=lambda value: -posterior[value])[:3]
    if posterior[likely[0]] >= CONFIDENCE:
        return chosen(parameter, likely[0], unit, method)
    several = " or ".join(f"{value} ({posterior[value]:.0%})" for value in likely)
    least = max(value for value in posterior if sum(p for each, p in posterior.items() if each >= value) >= CONFIDENCE)
    return at_least(parameter, least, unit, f"{several} explain what was measured", method)

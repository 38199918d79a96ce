"""Findings in cycles: measured where the interval is an answer, unresolved with the reason otherwise."""

from __future__ import annotations

from setebench.infer.ticks import Estimate
from setebench.results import Finding, Outcome

AGREE_RELATIVE, AGREE_CYCLES = 0.05, 1.0
"""Two ways of measuring the same thing agree within a cycle or 5 %."""

WIDEST_RELATIVE, WIDEST_CYCLES = 0.3, 2.5
"""An interval that reaches further to either side is no answer."""


def narrow(estimate: Estimate, relative: float, cycles: float) -> bool:
    """Whether an interval reaches no further than a share of its value, or so many cycles."""
    return (estimate.high - estimate.low) / 2 <= max(relative * estimate.value, cycles)


def measured(parameter: str, estimate: Estimate, method: str) -> Finding:
    """The estimate as it is, unless it is too wide to say anything."""
    if estimate.value <= 0 or not narrow(estimate, WIDEST_RELATIVE, WIDEST_CYCLES):
        why = f"between {estimate.low:.1f} and {estimate.high:.1f} cycles: too noisy; run again at a quieter time"
        return unresolved(parameter, why, method)
    return Finding(
        parameter=parameter,
        value=estimate.value,
        unit="cycles",
        low=estimate.low,
        high=estimate.high,
        method=method,
        evidence="single_load_ticks",
    )


def unresolved(parameter: str, reason: str, method: str) -> Finding:
    """No value; `reason` says why, and what to try."""
    return Finding(parameter=parameter, unit="cycles", outcome=Outcome.UNRESOLVED, reason=reason, method=method)

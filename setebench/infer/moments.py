"""What something costs while nobody else uses its core, sampled in several epochs. Knows no machine.

A sibling thread takes execution units and caches for seconds, and everything takes up to half as long again. Nothing
makes it cheaper, so moments that agree on the lowest cost were calm. One moment alone is no proof of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from setebench.infer.ticks import Estimate

ALIKE_RATIO = 1.1
"""Calm moments differ by less: by frequency, and by what memory the system has at hand."""

MOMENT_SHARE = 0.04
"""What moments differ by was seen in few of them: so much more of the value belongs to the interval, to either side."""

LEAST_CALM = 2
"""Moments that must agree."""


def calm(costs: Sequence[float]) -> list[float]:
    """The costs, one per moment, of those moments that agree on the lowest."""
    return [cost for cost in costs if cost <= ALIKE_RATIO * min(costs)]


def agreed(costs: Sequence[float]) -> bool:
    """Whether there are calm moments."""
    return len(calm(costs)) >= LEAST_CALM


def over_moments(costs: Sequence[float]) -> Estimate:
    """The mean over calm moments, with an interval that holds each of them. Where none agree the lowest cost, with an
    interval that holds all."""
    kept = calm(costs)
    value, most = sum(kept) / len(kept), max(kept if agreed(costs) else costs)
    return Estimate(value, min(kept), most).widened(MOMENT_SHARE * value, MOMENT_SHARE * value)

"""How often something happened, with the error that so few trials leave."""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec

CONFIDENCE = 0.95
"""Of the interval of a fraction."""


class Proportion(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `trials`, their fraction, and its interval at `CONFIDENCE`; both None without a trial."""

    hits: int
    trials: int
    fraction: float | None = None
    low: float | None = None
    high: float | None = None


def proportion(hits: int, trials: int) -> Proportion:
    """The fraction with Wilson's score interval (1927), which holds near 0 and 1 too (Brown, Cai and DasGupta 2001).

    Trials count as independent; those of one machine are not quite, so that the true error is somewhat larger."""
    if trials == 0:
        return Proportion(hits=hits, trials=trials)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    fraction = hits / trials
    middle = fraction + z * z / (2 * trials)
    half = z * math.sqrt(fraction * (1 - fraction) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # at the ends the formula gives 0 and 1 but for rounding
    low = 0.0 if hits == 0 else (middle - half) / scale
    high = 1.0 if hits == trials else (middle + half) / scale
    return Proportion(hits=hits, trials=trials, fraction=fraction, low=low, high=high)

"""Estimate which share of a set of loads each cache level (or memory) served, from the loads' ticks.

A prefetcher may bring a line in time in one repetition and not in the next, and on a coarse clock loads from two
neighbouring levels often read alike, so a threshold on ticks would misclassify. Instead the histogram of the loads is
fitted as a mixture of reference histograms, each from control loads that are known to be served by one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Fractions = NDArray[np.float64]

BINS = 32
"""Number of histogram bins; edges are chosen so that all bins hold equally many of all references' loads together."""

SMOOTHING = 0.5
"""Count added to each bin of a reference's histogram, so that a reading that it lacks is rare but not impossible."""

BEYOND = 3.0
"""Loads above the slowest reference's 95 % quantile by more than so many of its widths (5 % to 95 %) are ignored."""

ITERATIONS = 60
"""Iterations of expectation maximisation; shares of levels that ticks can distinguish have converged by then."""

UNSEEN = 3.0
"""Half an interval is this divided by the number of loads: an event unseen in n loads has a rate below 3 / n (95 %)."""


class Shares(NamedTuple):
    """For several sets of loads, the share (0 to 1) that each of the `levels` served: `value`, and its 95 % interval
    from `low` to `high`, each of shape (sets, levels). If a stall hit all loads of a set, its values are NaN."""

    levels: tuple[str, ...]
    value: Fractions
    low: Fractions
    high: Fractions


def unmix(references: Mapping[str, NDArray[np.int64]], sets: Sequence[NDArray[np.int64]]) -> Shares:
    """Return the share of each of the `sets` of loads (each of shape (n,), ticks) that every level served. `references`
    has, by level and fastest first, the ticks of at least 50 control loads that this level alone served."""
    sampled = list(references.values())
    fast, slow = np.quantile(sampled[-1], (0.05, 0.95))
    most = slow + BEYOND * max(slow - fast, 0.1 * slow)
    ticks = np.concatenate(sampled)
    values, cuts = np.unique(ticks), np.quantile(ticks, np.arange(1, BINS) / BINS, method="inverted_cdf")
    below = np.searchsorted(values, np.unique(cuts))
    # An edge lies midway to the next reading that occurs: loads a little slower than level 2 must not count as memory.
    edges = (values[below] + values[np.minimum(below + 1, len(values) - 1)]) / 2

    def histograms(several: Sequence[NDArray[np.int64]]) -> Fractions:
        rows = [np.searchsorted(edges, each[each <= most]) for each in several]
        return np.array([np.bincount(row, minlength=BINS) for row in rows], dtype=np.float64).reshape(-1, BINS)

    densities = histograms(sampled) + SMOOTHING * (np.arange(BINS) <= len(edges))
    densities /= densities.sum(axis=1, keepdims=True)
    counts = histograms(sets)
    samples = counts.sum(axis=1, keepdims=True)
    room = UNSEEN / np.maximum(samples, 1)
    value = expectation(counts / np.maximum(samples, 1), densities)
    low, high = np.clip(value - room, 0, 1), np.clip(value + room, 0, 1)
    value[samples[:, 0] == 0] = np.nan
    return Shares(tuple(references), value, low, high)


def expectation(seen: Fractions, densities: Fractions) -> Fractions:
    """Return the most likely shares, shape (sets, levels), of levels whose histograms are `densities` (levels, bins),
    for `seen`, the fraction of each set's loads in each bin (sets, bins). The likelihood has only one maximum."""
    shares, by_bin = np.full((len(seen), len(densities)), 1.0 / len(densities)), np.ascontiguousarray(densities.T)
    for _ in range(ITERATIONS):
        expected = shares @ densities
        np.divide(seen, np.maximum(expected, 1e-300, out=expected), out=expected)
        shares *= expected @ by_bin
    return shares

"""Which levels served some loads: raw ticks unmixed into shares of reference distributions. Knows no machine.

A prefetcher brings a line in time in one repetition and not in the next, and a coarse clock reads neighbouring levels
alike half of the time. So no threshold decides and no mean of two levels is taken: the histogram of the loads is
explained as a mixture of histograms that were taken, in the same way, from loads known to be served by each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Fractions = NDArray[np.float64]

BINS = 32
"""Of ticks, each with as many loads of all references together: its probability is known to a few tenths."""

SMOOTHING = 0.5
"""Counts added to each bin of a reference: what it never showed is rare, not impossible."""

BEYOND = 3.0
"""Widths of the slowest reference; a load so much further above it was hit by a stall, and is left out."""

ITERATIONS = 60
"""Of expectation maximisation: shares of levels that ticks distinguish no longer move by then."""

UNSEEN = 3.0
"""What never happened in n tries has a rate below 3 / n, with 95 % confidence."""


class Shares(NamedTuple):
    """What part of some loads each level served: shapes (sets, levels), with 95 % intervals. A set of which a stall hit
    all loads has shares of nan and intervals from 0 to 1."""

    levels: tuple[str, ...]
    value: Fractions
    low: Fractions
    high: Fractions


def unmix(references: Mapping[str, NDArray[np.int64]], sets: Sequence[NDArray[np.int64]]) -> Shares:
    """Estimate which share of each set of loads (shape (n,), ticks) every level served, in the order of `references`:
    ticks of loads from each level alone, fastest first, at least 50. Shares have 95 % intervals for so few loads."""
    sampled = list(references.values())
    fast, slow = np.quantile(sampled[-1], (0.05, 0.95))
    most = slow + BEYOND * max(slow - fast, 0.1 * slow)
    ticks = np.concatenate(sampled)
    values, cuts = np.unique(ticks), np.quantile(ticks, np.arange(1, BINS) / BINS, method="inverted_cdf")
    below = np.searchsorted(values, np.unique(cuts))
    # midway to the next value that occurs: loads a little slower than the second level's are no loads of memory
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
    """Most likely shares (sets, levels) behind parts by bin (sets, bins) of known densities (levels, bins): the
    likelihood has one maximum only."""
    shares, by_bin = np.full((len(seen), len(densities)), 1.0 / len(densities)), np.ascontiguousarray(densities.T)
    for _ in range(ITERATIONS):
        expected = shares @ densities
        np.divide(seen, np.maximum(expected, 1e-300, out=expected), out=expected)
        shares *= expected @ by_bin
    return shares

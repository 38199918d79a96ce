"""Which levels served some loads: raw ticks unmixed into shares of reference distributions. Knows no machine.

A prefetcher brings a line in time in one repetition and not in the next, and a coarse clock reads neighbouring levels
alike half of the time. So no threshold decides and no mean of two levels is taken: the histogram of the loads is
explained as a mixture of histograms that were taken, in the same way, from loads known to be served by each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Fractions = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Params:
    """How loads are unmixed.

    A bin holds at least `least_share` of some reference, so that its probability there is known to a few tenths;
    `smoothing` counts are added to each, as what a reference never showed is rare, not impossible. Samples further
    above the slowest reference than `beyond_spans` times its width were hit by a stall. Shares are found that one more
    iteration moves by less than `still`, looked at every `every` iterations, `iterations` at most. What never happened
    in n tries has a rate below `unseen` / n, with 95 % confidence."""

    least_share: float = 0.03
    smoothing: float = 0.5
    beyond_spans: float = 3.0
    iterations: int = 200
    every: int = 10
    still: float = 1e-8
    unseen: float = 3.0


PARAMS = Params()


@dataclass(frozen=True)
class Bins:
    """Where ticks are cut into bins, and how often each reference falls into each, shape (levels, bins)."""

    edges: Fractions
    counts: Counts
    most_ticks: float

    def histogram(self, ticks: NDArray[np.int64]) -> Counts:
        """Samples per bin of one set of loads, shape (n,) -> (bins,); samples that a stall hit are left out."""
        kept = ticks[ticks <= self.most_ticks]
        return np.bincount(np.searchsorted(self.edges, kept, side="right"), minlength=len(self.edges) + 1)


@dataclass(frozen=True)
class Shares:
    """What part of some loads each level served: shapes (sets, levels), with 95 % intervals. `samples` per set counts
    the loads that no stall hit; a set without any has shares of nan and intervals from 0 to 1."""

    levels: tuple[str, ...]
    value: Fractions
    low: Fractions
    high: Fractions
    samples: Counts


def cut(references: Sequence[NDArray[np.int64]]) -> Bins:
    """Bins that part the references as well as their samples allow: between values that occur, none so narrow that it
    holds less than `PARAMS.least_share` of every reference.

    `references` are the ticks of loads of each level, shapes (n,), at least 50 each for useful bins."""
    values = np.unique(np.concatenate(references))
    shares = np.array([_shares_at(values, reference) for reference in references])
    edges: list[float] = []
    held = np.zeros(len(references))
    for number in range(len(values) - 1):
        held += shares[:, number]
        if held.max() >= PARAMS.least_share:
            edges.append((values[number] + values[number + 1]) / 2)
            held[:] = 0
    slowest = references[-1]
    low, high = np.quantile(slowest, (0.05, 0.95))
    most = float(high + PARAMS.beyond_spans * max(high - low, 0.1 * high))
    empty = Bins(np.array(edges), np.zeros((0, 0), dtype=np.int64), most)
    return Bins(empty.edges, np.array([empty.histogram(reference) for reference in references]), most)


def _shares_at(values: NDArray[np.int64], reference: NDArray[np.int64]) -> Fractions:
    counts = np.bincount(np.searchsorted(values, reference), minlength=len(values))
    shares: Fractions = counts / len(reference)
    return shares


def unmix(references: Mapping[str, NDArray[np.int64]], sets: Sequence[NDArray[np.int64]]) -> Shares:
    """Shares of the levels (in the order of `references`, fastest first) in each set of loads (shapes (n,), ticks), by
    intervals as wide as that of what never happened in so few loads."""
    bins = cut(list(references.values()))
    counts = np.array([bins.histogram(each) for each in sets]).reshape(len(sets), len(bins.edges) + 1)
    samples = counts.sum(axis=1)
    value = expectation(counts, _densities(bins.counts))
    room = PARAMS.unseen / np.maximum(samples, 1)[:, None]
    low, high = np.clip(value - room, 0, 1), np.clip(value + room, 0, 1)
    value[samples == 0] = np.nan
    low[samples == 0], high[samples == 0] = 0.0, 1.0
    return Shares(tuple(references), value, low, high, samples)


def expectation(counts: Counts, densities: Fractions) -> Fractions:
    """Most likely shares (sets, levels) behind histograms (sets, bins) of known densities (levels, bins), by
    expectation maximisation; the likelihood of shares has one maximum only."""
    shares = np.full((*counts.shape[:-1], densities.shape[-2]), 1.0 / densities.shape[-2])
    total = np.maximum(counts.sum(axis=-1), 1)[..., None]
    by_bin = np.ascontiguousarray(densities.swapaxes(-1, -2))
    seen = counts / total
    for number in range(1, PARAMS.iterations + 1):
        expected = shares @ densities
        np.maximum(expected, 1e-300, out=expected)
        np.divide(seen, expected, out=expected)
        factors = expected @ by_bin
        before = shares
        shares = before * factors
        if number % PARAMS.every == 0 and np.abs(shares - before).max(initial=0.0) < PARAMS.still:
            break
    return shares


def _densities(counts: Counts) -> Fractions:
    smoothed = counts + PARAMS.smoothing
    densities: Fractions = smoothed / smoothed.sum(axis=1, keepdims=True)
    return densities

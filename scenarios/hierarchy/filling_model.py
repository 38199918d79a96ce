"""Which cache lacks such fractions of the lines of its fillings: candidates, what each predicts, and their posterior.

Sets get their lines by chance, so of each set what it got beyond its ways is binomial, and what stops of one filling
have in common is known. The candidates differ in sets, ways, whether the levels before hold lines in addition, and in
what others take.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.stats.entries import oddness

Numbers = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ModelParams:
    """Candidates, and errors of what they predict.

    Up to `most_ways`; sets of a private cache are a power of two, of a shared one in slices one times a number up to
    `most_slices`, each slice of 2 to the `slice_power` sets or more; lines within the ratio `about` of those that were
    left. How common other numbers of ways are beside powers of two, by their largest odd divisor: `odd_ways`, of shared
    caches `shared_ways` (those of parts that are sold), else `other`: where 7 ways are a seventh as common as 8, one
    machine in six loses its answer. And of slices, each: `odd_slices`.
    Others use up to `taken` of the room (in `taken_steps`), mostly less than `usual_taken`. Who takes lines all the
    while, or a policy that gives up lines that nobody used again while there is room, is none of the candidates: with
    losses that grow with age as one, a cache of 16 ways looked like a larger one of few ways.

    `error` of every mean fraction; `offset` and `scale` of all of them, since what hits and misses cost is known about.
    A filling's stops are predicted at `parts` places of each of its bins."""

    most_ways: int = 32
    most_slices: int = 63
    slice_power: int = 11
    odd_ways: tuple[tuple[int, float], ...] = ((1, 1.0), (3, 0.3), (5, 0.3))
    shared_ways: tuple[tuple[int, float], ...] = ((1, 1.0), (3, 0.3), (5, 0.3), (7, 0.1), (11, 0.1), (15, 0.1))
    other: float = 0.01
    odd_slices: float = 0.2
    about: float = 1.6
    taken: float = 0.09
    taken_steps: int = 4
    usual_taken: float = 0.015
    error: float = 0.003
    offset: float = 0.01
    scale: float = 0.04
    parts: int = 3


class Known(NamedTuple):
    """Lines that each level before holds with those before it, and lines of a page. The first of several levels behind
    the first is private, all others are shared."""

    held: list[int]
    page_lines: int

    @property
    def shared(self) -> bool:
        """Whether the cache may be in slices, and other cores' as well."""
        return len(self.held) > 1


@dataclass(frozen=True)
class Curve:
    """Of a filling, by how many pages were used, shape (stops,): the fraction of lines that a cache and those before it
    lack and its error, of parts of it, shape (bins,); the fraction of those loaded first (a third of all) in the end;
    how often both of two lines of a page are gone, beyond that of lines of two pages as old; what young lines seem to
    lack, which are all there; and how many times as long as a typical part of it the longest one took."""

    pages: Numbers
    missing: Numbers
    error: Numbers
    early: float
    together: float
    young: float
    longest: float

    @property
    def mean_pages(self) -> Numbers:
        """How many pages there are in each part."""
        found: Numbers = self.pages.reshape(len(self.missing), -1).mean(axis=1)
        return found

    @property
    def fitting(self) -> float:
        """About how many pages fit: the most that are there in some parts one after the other."""
        return float(np.convolve(self.mean_pages * (1.0 - self.missing), np.full(3, 1 / 3), "valid").max())

    def some(self, parts: int) -> Numbers:
        """How many pages there are at so many stops of each part, which stand for all."""
        count = len(self.missing) * parts
        found: Numbers = self.pages[-1] * (np.arange(count) + 0.5) / count + self.pages[0] / 2
        return found


@dataclass(frozen=True)
class Candidate:
    """A cache of so many sets and ways; `before` lines are held by the levels before in addition."""

    sets: int
    ways: int
    before: int

    @property
    def lines(self) -> int:
        """How many it holds."""
        return self.sets * self.ways


def size_posterior(
    curve: Curve, fillings: int, known: Known, params: ModelParams
) -> tuple[dict[Candidate, float], float]:
    """The posterior of all candidates by the mean curve of so many fillings, and the squared errors that the best
    leaves of each part of it."""
    likely: dict[Candidate, list[float]] = defaultdict(list)
    best = (-np.inf, np.inf)
    for sets, ways, before in _caches(curve, known, params):
        usual = dict(params.shared_ways if known.shared else params.odd_ways)
        common = np.log([usual.get(each, params.other) for each in oddness(ways).tolist()])
        common += np.log(params.odd_slices if oddness(np.array(sets)) > 1 else 1.0)
        for gone, covariance, disturbed in _predicted(curve, known, (sets, ways, before), params):
            spread = covariance / fillings + np.diag(curve.error**2 + params.error**2) + params.offset**2
            spread += params.scale**2 * gone[:, :, None] * gone[:, None, :]
            left = curve.missing - gone
            squared = (left * np.linalg.solve(spread, left[:, :, None])[:, :, 0]).sum(axis=1)
            values = -0.5 * (squared + np.linalg.slogdet(spread)[1]) + common + disturbed
            for each, value, square in zip(ways.tolist(), values.tolist(), squared.tolist(), strict=True):
                likely[Candidate(sets, each, before)].append(value)
                best = max(best, (value, square / len(curve.missing)))
    # where even the best doesn't quite explain what was measured, errors are larger than thought
    scale = max(1.0, best[1])
    weights = {each: float(np.exp((np.array(some) - best[0]) / scale).sum()) for each, some in likely.items()}
    total = sum(weights.values())
    return {each: weight / total for each, weight in weights.items()}, best[1]


def _caches(curve: Curve, known: Known, params: ModelParams) -> Iterator[tuple[int, Ints, int]]:
    """Sets, all numbers of ways by which they hold about what was left, and lines that are held before."""
    about, ways = curve.fitting * known.page_lines, np.arange(2, params.most_ways + 1)
    inner_lines = {0, known.held[-1], sum(known.held)}
    for slices in range(1, params.most_slices + 1 if known.shared else 2, 2):
        least = params.slice_power if slices > 1 else known.page_lines.bit_length() - 1
        for power, before in itertools.product(range(least, 24), inner_lines):
            sets = slices << power
            tried = ways[np.abs(np.log((ways * sets + before) / about)) < np.log(params.about)]
            if len(tried):
                yield sets, tried, before


def _predicted(
    curve: Curve, known: Known, cache: tuple[int, Ints, int], params: ModelParams
) -> Iterator[tuple[Numbers, Numbers, float]]:
    """What caches of so many sets, each number of ways and lines before it lack, shape (ways, bins), its covariance of
    a single filling, and how likely beforehand others take as much as that assumes (logarithm)."""
    (sets, ways, before), bins, pages = cache, len(curve.missing), curve.some(params.parts)
    nearer = known.held[-1] / known.page_lines
    for taken in np.linspace(0.0, params.taken, params.taken_steps).tolist():
        # what the levels before hold, and what others take, is as if fewer or more pages were used
        put = pages * (1.0 + taken)
        own = np.maximum(put - before / known.page_lines, 1.0)
        lost, covariance = overflow(np.append(own, nearer), sets / known.page_lines, ways)
        covariance = binned(covariance[:, :-1, :-1] / (put[:, None] * put[None, :]), bins)
        # the levels before may have what this one lost of the last lines
        disturbed = float(np.log1p((taken / params.usual_taken) ** 2))
        for overlap in (0.0,) if before else (0.0, 1.0):
            beyond = np.maximum(lost[:, :-1] - overlap * lost[:, -1:], 0.0)
            yield (beyond / put).reshape(len(ways), bins, -1).mean(axis=2), covariance, -disturbed


def overflow(pages: Numbers, classes: float, ways: Ints) -> tuple[Numbers, Numbers]:
    """How many pages' lines are beyond the ways of their sets, where each page has a line in one class of sets, and the
    covariance of these numbers among stops of a filling; shapes (ways, stops) and (ways, stops, stops)."""
    mean = pages / classes
    count = np.arange(int(mean.max() + 8 * mean.max() ** 0.5 + ways.max() + 8))
    beyond = np.maximum(count[None, :] - ways[:, None], 0)
    factorial, rest = special.gammaln(count + 1)[:, None], np.round(pages)[None, :] - count[:, None]
    binomial = special.gammaln(np.round(pages) + 1) - factorial - special.gammaln(np.maximum(rest, 0) + 1)
    binomial += special.xlogy(count, 1.0 / classes)[:, None] + special.xlogy(rest, 1.0 - 1.0 / classes)
    lost = classes * (beyond @ np.where(rest >= 0, np.exp(binomial), 0.0))
    chance = np.exp(special.xlogy(count[:, None], mean) - mean - factorial)
    first, second, full = beyond @ chance, beyond**2 @ chance, (count[None, :] >= ways[:, None]) @ chance
    number = np.arange(len(pages))
    low, high = np.minimum(number[:, None], number[None, :]), np.maximum(number[:, None], number[None, :])
    # what a class got until one stop and until a later one differs by Poisson increments; all classes together got
    # what was put in, so what follows from each class's number alone is taken off
    both = second[:, low] + (mean[high] - mean[low]) * first[:, low] - first[:, low] * first[:, high]
    return lost, classes * (both - mean[low] * full[:, low] * full[:, high])


def binned(covariance: Numbers, bins: int) -> Numbers:
    """The covariance of the means of so many equal parts, of that of all stops, shape (..., stops, stops)."""
    shape = (*covariance.shape[:-2], bins, -1, bins, covariance.shape[-1] // bins)
    found: Numbers = covariance.reshape(shape).mean(axis=(-3, -1))
    return found

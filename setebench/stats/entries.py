"""How many entries a table has, from how often an entry is gone after a number of others.

A table of E entries into which one new entry comes at a time gives up one each time, so entries stay for E new ones on
average, whatever is replaced and however sets are chosen (Little 1961, Operations Research 9:383). How much that varies
gives the ways: of a set of W that replaces its oldest entry one is gone with the W-th of W in E that fall into its set,
a binomial count. A fully associative table's entries are gone at the E-th; other replacements and indices lie in
between, as if the number of ways were another one (the shape).

Candidates are products of a number of ways and a power of two (sets), and, of shapes that are all but a step, any
number. Each has the likelihood of all samples, the height of its step and what lies below fitted to them (profile
likelihood), so that they are compared by how well they predict alone.

Measured on synthetic tables (`tests/stats/test_entries.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from setebench.stats.threshold import Posterior

Numbers = NDArray[np.float64]


class TableParams(msgspec.Struct, frozen=True, kw_only=True):
    """What tables there may be, and how samples err.

    Of sets with at most `most_ways` (24 is the most known, Zen 4's second TLB) and a power of two of them, the fewest
    `least_sets`. Numbers with small odd factors are likelier beforehand (`oddness`). `shape_ratios` are shapes in
    numbers of ways, with `shape_weights`, as other replacements, skewed indices and few pages to choose from have them.
    `sharp_shapes` are all but steps, each with `sharp_weight`; of tables of about `most_compared` entries or fewer (160
    is the most known of one set, all of which are compared at once) they may have any number, with half of all weight.
    Candidates lie within a ratio of `reach` of the first guess.

    A curve's steps are first looked for with `coarse_shapes`, and with errors of at least `model_error` of the cost,
    for coarse steps don't fit. No error is less than `least_error` (cycles; of eight loads on a clock of one tick). A
    count's own scatter is pooled with `pooled_degrees` of the `pooled_counts` to either side of it: it grows with what
    passes meanwhile."""

    most_ways: int = 32
    least_sets: int = 4
    shape_ratios: tuple[float, ...] = (0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
    shape_weights: tuple[float, ...] = (0.04, 0.1, 0.7, 0.1, 0.04, 0.02)
    sharp_shapes: tuple[float, ...] = (96.0, 384.0, np.inf)
    sharp_weight: float = 0.1
    most_compared: int = 512
    reach: float = 1.6
    coarse_shapes: tuple[float, ...] = (2.5, 4.0, 7.0, 16.0, np.inf)
    model_error: float = 0.04
    least_error: float = 0.05
    pooled_degrees: float = 4.0
    pooled_counts: int = 3


PARAMS = TableParams()


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Mean costs after so many others, shape (n,) each, with their standard errors. The others are such `fractions` of
    those among which they were chosen at random. Up to `lag` of them may not count where what is used again is found,
    unless the oldest entry is replaced."""

    counts: Numbers
    means: Numbers
    errors: Numbers
    fractions: Numbers
    lag: float = 0.0

    def within(self, low: float, high: float) -> Samples:
        """Those of counts from `low` to `high`."""
        kept = (self.counts >= low) & (self.counts <= high)
        parts = (each[kept] for each in (self.counts, self.means, self.errors, self.fractions))
        return Samples(**dict(zip(("counts", "means", "errors", "fractions"), parts, strict=True)), lag=self.lag)

    def grounded(self) -> Samples:
        """The same, and that one page alone costs nothing: so a table shows that is smaller than every count asked."""
        first = {"counts": 1.0, "means": 0.0, "errors": PARAMS.least_error, "fractions": 0.0}
        return msgspec.structs.replace(
            self, **{name: np.concatenate([[value], getattr(self, name)]) for name, value in first.items()}
        )

    def without(self, steps: Iterable[Step]) -> Samples:
        """The same less what other steps make of it."""
        others = sum((self.gone(each.entries, each.shape)[0] * each.height for each in steps), np.zeros(1))
        return msgspec.structs.replace(self, means=self.means - others)

    def gone(self, entries: ArrayLike, shapes: ArrayLike) -> Numbers:
        """See `gone`."""
        return gone(self.counts, entries, shapes, self.fractions)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a curve: at about so many entries, of that shape, with its height."""

    entries: float
    shape: float
    height: float

    def quantile(self, fraction: float) -> float:
        """The count at which so many of the entries are gone."""
        if not np.isfinite(self.shape):
            return self.entries
        counts = np.linspace(0.01, 4.0, 400) * self.entries
        return float(np.interp(fraction, gone(counts, self.entries, self.shape)[0], counts))


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """What samples say of one table: how probable each number of entries is (`posterior`), that it has all but a sharp
    step (`sharp`), and the most probable `step`. `spread`: how much candidates disagree at counts that might be asked
    next (standard deviation of what they predict, in units of the cost)."""

    posterior: Posterior
    sharp: float
    step: Step
    spread: Numbers


def samples(found: Mapping[int, Sequence[float]], targets: int, fraction: Callable[[int], float]) -> Samples:
    """Of costs after so many others (draws of `targets` entries each, which are others to each other), by their number:
    at least two for one of them. `fraction`: of those among which so many are chosen."""
    counts = sorted(found)
    draws = [np.array(found[count]) for count in counts]
    squares = np.array([((each - each.mean()) ** 2).sum() for each in draws])
    degrees = np.array([len(each) - 1.0 for each in draws])
    near = np.abs(np.arange(len(counts))[:, None] - np.arange(len(counts))) <= PARAMS.pooled_counts
    pooled = near @ squares / np.maximum(near @ degrees, 1.0)
    variance = (squares + PARAMS.pooled_degrees * pooled) / (degrees + PARAMS.pooled_degrees)
    return Samples(
        counts=np.array(counts, dtype=np.float64) + targets,
        means=np.array([each.mean() for each in draws]),
        errors=np.hypot(np.sqrt(variance / (degrees + 1.0)), PARAMS.least_error),
        fractions=np.array([fraction(count) for count in counts]),
        lag=targets / 2,
    )


def gone(counts: ArrayLike, entries: ArrayLike, shapes: ArrayLike, fractions: ArrayLike = 0.0) -> Numbers:
    """The chance that an entry is gone after so many others (for all candidates, or a row for each), shape (candidates,
    counts).

    The number that falls into its set is hypergeometric, for the others are such `fractions` of those that there are:
    the binomial count with its mean and variance."""
    n, e, a = np.atleast_2d(counts), np.atleast_1d(entries)[:, None], np.atleast_1d(shapes)[:, None]
    sets = a < e  # else it is one set, whatever the number of ways
    finite = np.where(sets, a, 1.0)
    rate = np.minimum(finite / e, 1.0)
    chance = 1.0 - (1.0 - rate) * (1.0 - np.minimum(fractions, 1.0))
    trials = n * rate / chance
    smooth = special.betainc(finite, np.maximum(trials - finite, 0.0) + 1.0, chance)
    found: Numbers = np.where(sets, np.where(trials >= finite, smooth, 0.0), n >= e)
    return found


def find_steps(found: Samples, least: Sequence[float]) -> list[Step]:
    """The steps of a curve, the first, second, ... at least so high: as many as the Bayesian information criterion
    takes."""
    entries, shapes = (each.ravel() for each in np.meshgrid(_halved(found.counts), PARAMS.coarse_shapes, indexing="ij"))
    errors = np.hypot(found.errors, PARAMS.model_error * (found.means - found.means.min()))
    columns = np.concatenate([np.ones((1, len(errors))), found.gone(entries, shapes)]) / errors
    target, penalty = found.means / errors, np.log(len(errors))
    products, hits = columns @ columns.T + 1e-9 * np.eye(len(columns)), columns @ target
    best, steps = np.inf, list[Step]()
    for number in range(len(least) + 1):
        picked = np.array(list(combinations(range(1, len(columns)), number)), dtype=np.int64)
        picked = np.concatenate(
            [np.zeros((len(picked), 1), dtype=np.int64), picked.reshape(len(picked), number)], axis=1
        )
        solved = np.linalg.solve(products[picked[:, :, None], picked[:, None, :]], hits[picked][:, :, None])[:, :, 0]
        squares = float(target @ target) - (solved * hits[picked]).sum(axis=1) + (1 + 3 * number) * penalty
        squares[(solved[:, 1:] < np.array(least[:number])).any(axis=1)] = np.inf
        top = int(np.argmin(squares))
        if squares[top] < best:
            best = float(squares[top])
            rows = zip(entries[picked[top, 1:] - 1], shapes[picked[top, 1:] - 1], solved[top, 1:], strict=True)
            steps = [Step(entries=float(e), shape=float(shape), height=float(height)) for e, shape, height in rows]
    return steps


def _halved(counts: Numbers) -> Numbers:
    """Between each two counts, three numbers."""
    parts = np.arange(1, 4) / 4
    between: Numbers = counts[:-1, None] ** (1 - parts) * counts[1:, None] ** parts
    return between.ravel()


def oddness(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest odd divisor of each: numbers of entries, ways or slices are the less common the larger it is, 1 /
    oddness beside a power of two."""
    found: NDArray[np.int64] = numbers // (numbers & -numbers)
    return found


class _Candidates(NamedTuple):
    """All candidates about a first guess, shape (n,) each: entries, shapes, weights beforehand, and whether what is
    used again may not count."""

    entries: NDArray[np.int64]
    shapes: Numbers
    weights: Numbers
    lagging: Numbers


def _candidates(guess: float) -> _Candidates:
    low, high = guess / PARAMS.reach, guess * PARAMS.reach
    ways, sets = np.arange(2, PARAMS.most_ways + 1), 2 ** np.arange(int(np.log2(PARAMS.least_sets)), 17)
    totals = np.outer(ways, sets)
    kept = (totals >= low) & (totals <= high)
    entries, own = totals[kept], np.broadcast_to(ways[:, None], totals.shape)[kept]
    odd = oddness(entries)
    parts: list[tuple[Any, ...]] = []
    for ratio, weight in zip(PARAMS.shape_ratios, PARAMS.shape_weights, strict=True):
        for lag in (0.0,) if ratio == 1.0 else (0.0, 1.0):
            # where nearly all are gone at once it is the oldest that is replaced, so that everything counts
            counts = 1.0 - lag * (2.0 * ratio * own > entries)
            parts.append((entries, ratio * own, weight / (1.0 + (ratio != 1.0)) / odd * counts, lag))
    parts += [(entries, shape, PARAMS.sharp_weight / odd, 0.0) for shape in PARAMS.sharp_shapes]
    total = sum(float(part[2].sum()) for part in parts) or 1.0
    whole = np.arange(max(2, int(low)), int(high) + 1)
    for shape in PARAMS.sharp_shapes if guess <= PARAMS.most_compared else ():
        parts.append((whole, shape, total / len(whole) / len(PARAMS.sharp_shapes), 0.0))
    columns = zip(*(np.broadcast_arrays(*part) for part in parts), strict=True)
    return _Candidates(*(np.concatenate(each) for each in columns))


def table(found: Samples, guess: float, asked: ArrayLike) -> Table:
    """What samples say of a table of about `guess` entries; `asked` are counts that might be sampled next."""
    entries, shapes, prior, lagging = _candidates(guess)
    weights = 1.0 / found.errors**2
    curves = gone(found.counts - lagging[:, None] * found.lag, entries, shapes, found.fractions)
    total = weights.sum() or 1.0  # without a sample the prior stands
    mean_curve, mean = curves @ weights / total, float(found.means @ weights / total)
    centred, deviation = curves - mean_curve[:, None], found.means - mean
    power = np.maximum(centred**2 @ weights, 1e-12)
    height = np.maximum(centred @ (weights * deviation) / power, 0.0)
    squares = (deviation - height[:, None] * centred) ** 2 @ weights
    best = int(np.argmin(squares))
    misfit = float(squares[best] / max(len(found.counts) - 4, 1))
    chance = prior * np.exp((squares[best] - squares) / 2 / max(misfit, 1.0))
    chance /= chance.sum()
    numbers, where = np.unique(entries, return_inverse=True)
    predicted = gone(asked, entries, shapes)
    top = int(np.argmax(chance))
    return Table(
        posterior=Posterior(numbers=numbers, probability=np.asarray(np.bincount(where, chance), dtype=np.float64)),
        sharp=float(chance[np.isin(shapes, PARAMS.sharp_shapes)].sum()),
        step=Step(entries=float(entries[top]), shape=float(shapes[top]), height=float(height[top])),
        spread=np.sqrt(chance @ (predicted - chance @ predicted) ** 2) * float(height[top]),
    )


def heights(found: Samples, steps: Sequence[Step]) -> Numbers:
    """The heights of steps that are known, by weighted least squares over samples with a base of their own."""
    columns = np.stack([np.ones(len(found.counts)), *(found.gone(s.entries, s.shape)[0] for s in steps)])
    weights = 1.0 / found.errors
    fitted = np.linalg.lstsq((columns * weights).T, found.means * weights, rcond=None)[0]
    found_heights: Numbers = np.asarray(fitted[1:], dtype=np.float64)
    return found_heights

"""Find nodes of a fleet whose results differ from the others': robust centres, variance components, categories.

Robust estimates of centre and spread, which a minority of outliers hardly changes, are tau estimators (Maronna and
Zamar 2002, Technometrics 44:307): they start from the median and the median absolute deviation, weight values less the
further out they lie, and limit the squared deviations of outliers.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

Numbers = NDArray[np.float64]

FAR = 4.5
"""Distance from the median, in median absolute deviations, from which on a value has no weight (the paper's c1)."""

CUT = 3.0
"""Distance from the centre, in median absolute deviations, to which outliers are limited (the paper's c2)."""

_OF_NORMAL = 0.9616
"""The uncorrected spread of standard normal values, by which spreads are divided so as to estimate the standard
deviation: the root of the mean of min(x², k²), with k = CUT times their median absolute deviation of 0.6745."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Robust centre and spread of `count` values; for normal values the spread estimates their standard deviation."""

    centre: float
    spread: float
    count: int

    @property
    def degrees(self) -> int:
        """Degrees of freedom of Student's t for a value's distance from the centre, in spreads: half the number of
        values, as up to half may be outliers. `tests/stats/test_robust.py` shows that this isn't too many."""
        return self.count // 2


def spread(values: Numbers) -> Spread:
    """Return a robust mean and standard deviation of `values`, finite, shape (n,), n >= 1: values far from the median
    weigh little. The deviation is 0 if more than half of the values are equal."""
    middle = float(np.median(values))
    deviations = np.abs(values - middle)
    unit = float(np.median(deviations))
    if unit == 0:
        return Spread(centre=middle, spread=0.0, count=len(values))
    weights = np.clip(1 - (deviations / (FAR * unit)) ** 2, 0, None) ** 2
    centre = float(weights @ values / weights.sum())
    squares = np.minimum(((values - centre) / unit) ** 2, CUT**2)
    return Spread(centre=centre, spread=unit * float(np.sqrt(squares.mean())) / _OF_NORMAL, count=len(values))


def tail(distances: Numbers, degrees: ArrayLike) -> Numbers:
    """Return two-sided p-values by Student's t of `distances` (in spreads, any shape); 1 without degrees of freedom."""
    known = np.asarray(degrees)
    found: Numbers = np.where(known < 1, 1.0, 2 * special.stdtr(np.maximum(known, 1), -np.abs(distances)))
    return found


def limit(probability: float, degrees: float) -> float:
    """Return the distance in spreads of two-sided p-value `probability` by Student's t; infinite without `degrees`."""
    return -float(special.stdtrit(degrees, probability / 2)) if degrees >= 1 else float("inf")


# -- components of variance -------------------------------------------------------------------------------------------
#
# Split the variance of a number measured on many nodes into variance between runs of a node and between nodes.
#
# This is the one-way layout with unequal numbers (Searle, Casella and McCulloch 1992, chapter 3) with robust
# estimators: the variance within nodes is the median of nodes' variances, each over the median of its chi-squared
# distribution (at least what runs report as their error); the variance between nodes is the rest of the variance of
# nodes' means.


Counts = NDArray[np.int64]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of each node's (machine's) runs; all arrays have shape (nodes,). `mean` is the mean of the node's
    results, `runs` is their number. `own` is the variance of a result about that mean, NaN for a single run, and has
    `degrees` of freedom. `stated` is the mean square of the errors that the runs report."""

    mean: Numbers
    runs: Counts
    own: Numbers
    degrees: Counts
    stated: Numbers


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """Components of the variance of one quantity, measured by runs on several nodes (machines). `within` is the
    variance of runs about their node's mean, `between` the variance of nodes about their common centre. `repeated` says
    whether some node has several runs. If none has, `within` comes from the errors that runs report, and `between` has
    the rest of the runs' variance. `means` has centre and spread of the nodes' means. Two arrays, shape (nodes,), test
    a node's distance from the centre: its `variance`, and the `degrees` of freedom of its Student's t distribution."""

    within: float
    between: float
    repeated: bool
    means: Spread
    variance: Numbers
    degrees: Counts


def sum_up(node: NDArray[np.integer], value: Numbers, error: Numbers, nodes: int) -> tuple[NDArray[np.int64], Runs]:
    """Return the numbers of all nodes that have runs, ascending, and a summary of each of these nodes' runs. The
    arguments describe the runs in any order, shape (runs,): the node's number (below `nodes`), the measured `value`,
    and its standard `error` (0 if none is reported)."""
    every = np.bincount(node, minlength=nodes)
    present = np.flatnonzero(every)
    runs = every[present]
    mean = np.bincount(node, value, nodes)[present] / runs
    of_all = np.zeros(nodes)
    of_all[present] = mean
    squares = np.bincount(node, (value - of_all[node]) ** 2, nodes)[present]
    own = np.where(runs > 1, squares / np.maximum(runs - 1, 1), np.nan)
    stated = np.bincount(node, error**2, nodes)[present] / runs
    return present, Runs(mean=mean, runs=runs, own=own, degrees=runs - 1, stated=stated)


def components(runs: Runs) -> Components:
    """Return the variance components of the runs of one node or more. A node whose runs scatter more than other nodes',
    or report larger errors, gets its own larger variance, so that one disturbed run among several doesn't make it an
    outlier. With a single run, a disturbance can't be told from an odd node: if the run reports less than half of the
    node's variance, the node gets one degree of freedom, so that only an extreme distance is significant."""
    several = ~np.isnan(runs.own)
    repeated = bool(several.any())
    pooled = _pooled(runs.own[several], runs.degrees[several])
    typical = np.maximum(pooled, runs.stated) / runs.runs
    own = np.where(several, runs.own, 0.0) / runs.runs
    means = spread(runs.mean)
    between = max(0.0, means.spread**2 - float(np.median(typical)))
    unguarded = ~several & (between + typical > 2 * runs.stated)
    return Components(
        within=pooled if repeated else float(np.median(runs.stated)),
        between=between,
        repeated=repeated,
        means=means,
        variance=between + np.maximum(typical, own),
        degrees=np.where(unguarded, min(1, means.degrees), means.degrees),
    )


def _pooled(own: Numbers, degrees: Counts) -> float:
    """Return a robust pooled variance: the median of the nodes' variances (`own`, shape (nodes,)), each divided by the
    median of a unit variance estimated with so many `degrees` of freedom; 0 for no nodes."""
    kinds, places = np.unique(degrees, return_inverse=True)
    return float(np.median(own / (stats.chi2.median(kinds) / kinds)[places])) if len(own) else 0.0


# -- categories -------------------------------------------------------------------------------------------------------
#
# Find nodes of a fleet whose categorical answer (yes or no, a name, a count) differs from that of most nodes.
#
# The rate at which a run disagrees with the other runs of its own node is estimated over all nodes. From that rate, the
# binomial distribution gives the probability that a node's runs agree on an unusual answer by chance. Without repeated
# runs the rate is unknown, and no node stands out.


Codes = NDArray[np.int64]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Categorical answers, as integer codes, of the nodes (machines) that ran a measurement. `present` are the numbers
    of nodes with runs, ascending. `answer` is what most runs of each node say, `usual` is what most nodes say. `p` is
    small if a node differs: it is the probability that so many of its runs give its answer by chance although `usual`
    is true. `stray` is an upper estimate of the rate at which a run disagrees with its node. Shapes are (nodes,)."""

    present: Codes
    answer: Codes
    usual: int
    stray: float
    p: Numbers


def answers(node: NDArray[np.integer], code: NDArray[np.integer], nodes: int) -> Answers:
    """Find nodes (machines) whose runs answer otherwise than most nodes. `node` (numbers below `nodes`) and `code` (the
    answer, from 0) describe the runs in any order, shape (runs,). A node's p-value is the chance that so many of its
    runs stray to one answer; it is 1 if most nodes give that answer too, or at most half of its runs do."""
    kinds = int(code.max()) + 1
    pairs, counts = np.unique(node.astype(np.int64) * kinds + code, return_counts=True)
    owners, codes = pairs // kinds, pairs % kinds
    order = np.lexsort((codes, -counts, owners))  # by node, each node's most frequent answer first
    owners, codes, counts = owners[order], codes[order], counts[order]
    present, first = np.unique(owners, return_index=True)
    runs = np.bincount(node, minlength=nodes)[present]
    answer, agreeing = codes[first], counts[first]
    usual = int(np.argmax(np.bincount(answer)))
    strays, repeats = int((runs - agreeing).sum()), int((runs - 1).sum())
    stray = (strays + 1) / (repeats + 2)
    p = np.where(answer == usual, 1.0, stats.binom.sf(agreeing - 1, runs, stray))
    p = np.where(2 * agreeing > runs, p, 1.0)  # no majority: the node has no answer that could differ
    return Answers(present=present, answer=answer, usual=usual, stray=stray, p=p)

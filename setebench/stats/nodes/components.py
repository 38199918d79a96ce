"""Variance components of runs within nodes: what differs from run to run, and what from node to node.

One-way layout with unequal numbers (Searle, Casella and McCulloch 1992, chapter 3), by robust parts: the variance
within is the median over nodes, each divided by the median of its chi-squared distribution, and what means scatter more
than that is between nodes. The error that runs state themselves is a lower bound of the variance within.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from setebench.stats.nodes import robust

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of nodes, summed up. For every node the `mean` of its runs, their number (`runs`), the variance of one run
    about that mean (`own`, NaN with a single run), and that which runs state themselves (`stated`, their mean)."""

    mean: Numbers
    runs: Counts
    own: Numbers
    stated: Numbers


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """`within`: variance of one run about its node. `between`: of nodes about the centre; with single runs it includes
    whatever differs from run to run and is not stated. `repeated`: whether nodes had several runs to judge by. `means`
    is how the nodes' means lie; for each node `variance` is that of its distance from their centre, and `degrees` are
    those of Student's t for it."""

    within: float
    between: float
    repeated: bool
    means: robust.Spread
    variance: Numbers
    degrees: Counts


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """Variance of each node's mean: as that of any node with so many runs (`typical`), by its own runs (`own`, 0 with a
    single one), and as its runs state it (`stated`). `single`: whether there is but one run."""

    typical: Numbers
    own: Numbers
    stated: Numbers
    single: NDArray[np.bool_]


def sum_up(node: NDArray[np.integer], value: Numbers, error: Numbers, nodes: int) -> tuple[NDArray[np.int64], Runs]:
    """The numbers of those nodes that have runs, and their runs summed up. One entry a run, in any order: its node's
    number below `nodes`, its value, and the standard error that it states (0: none)."""
    every = np.bincount(node, minlength=nodes)
    present = np.flatnonzero(every)
    runs = every[present]
    mean = np.bincount(node, value, nodes)[present] / runs
    of_all = np.zeros(nodes)
    of_all[present] = mean
    squares = np.bincount(node, (value - of_all[node]) ** 2, nodes)[present]
    own = np.where(runs > 1, squares / np.maximum(runs - 1, 1), np.nan)
    stated = np.bincount(node, error**2, nodes)[present] / runs
    return present, Runs(mean=mean, runs=runs, own=own, stated=stated)


def components(runs: Runs) -> Components:
    """What varies within and between the nodes; needs at least one node."""
    within, error = within_nodes(runs)
    repeated = bool((runs.runs > 1).any())
    if not repeated:
        within = float(np.median(runs.stated))
    return between_nodes(runs.mean, error, within, repeated)


def changes(now: Runs, before: Runs) -> tuple[Runs, Components]:
    """As `components`, of the nodes' changes. Both have the same nodes; the change's runs are the fewer of both."""
    (within_now, error_now), (within_before, error_before) = within_nodes(now), within_nodes(before)
    error = Error(
        typical=error_now.typical + error_before.typical,
        own=error_now.own + error_before.own,
        stated=error_now.stated + error_before.stated,
        single=error_now.single | error_before.single,
    )
    change = Runs(
        mean=now.mean - before.mean,
        runs=np.minimum(now.runs, before.runs),
        own=now.own + before.own,
        stated=now.stated + before.stated,
    )
    repeated = bool((change.runs > 1).any())
    within = within_now + within_before if repeated else float(np.median(change.stated))
    return change, between_nodes(change.mean, error, within, repeated)


def within_nodes(runs: Runs) -> tuple[float, Error]:
    """The variance of one run about its node, pooled over nodes with several (0 without), and the errors of means."""
    repeated = runs.runs > 1
    within = _pooled(runs.own[repeated], runs.runs[repeated])
    own = np.where(repeated, runs.own, 0.0) / runs.runs
    typical = np.maximum(within, runs.stated) / runs.runs
    return within, Error(typical=typical, own=own, stated=runs.stated / runs.runs, single=~repeated)


def between_nodes(mean: Numbers, error: Error, within: float, repeated: bool) -> Components:
    """How far the means scatter beyond their errors, and the variance that each is judged by.

    A node whose own runs scatter more than those of others, or state a larger error, carries that itself: its distance
    is judged by it, so that one disturbed run of several makes no odd node. A single run has no such guard. Where it
    states less than half of the variance that it has, a disturbed run is indistinguishable from an odd node, and how
    far disturbed ones lie out nobody knows: it has one degree of freedom, by which hardly anything stands out."""
    means = robust.spread(mean)
    between = max(0.0, means.spread**2 - float(np.median(error.typical)))
    unguarded = error.single & (between + error.typical > 2 * error.stated)
    return Components(
        within=within,
        between=between,
        repeated=repeated,
        means=means,
        variance=between + np.maximum(error.typical, error.own),
        degrees=np.where(unguarded, min(1, means.degrees), means.degrees),
    )


def _pooled(own: Numbers, runs: Counts) -> float:
    """The median of the nodes' own variances, each over the median of such a variance with so many runs; 0 without."""
    if not len(own):
        return 0.0
    degrees = np.arange(runs.max())
    medians = np.ones(len(degrees) + 1)
    medians[2:] = stats.chi2.median(degrees[1:]) / degrees[1:]
    return float(np.median(own / medians[runs]))


def smallest_change(found: Components, runs: Runs, probability: float, power: float) -> float:
    """The distance from the centre that a typical node must have to be found with that power by a test at
    `probability`. Infinite where the test has no degrees of freedom.

    Over the distribution of the node's own variance, as it raises the limit where runs happen to scatter."""
    limit = robust.limit(probability, int(np.median(found.degrees)))
    if not np.isfinite(limit):
        return float("inf")
    count = int(np.median(runs.runs))
    floor = max(found.within, float(np.median(runs.stated))) / count
    ratios = np.ones(1)
    if count > 1:
        ratios = stats.chi2.ppf((np.arange(_POINTS) + 0.5) / _POINTS, count - 1) / (count - 1)
    own = found.within / count * ratios if found.repeated else np.zeros(1)
    limits = limit * np.sqrt(found.between + np.maximum(floor, own))
    spread = np.sqrt(found.between + found.within / count)
    if spread == 0:
        return float(limits.max())

    def missing(distance: float) -> float:
        return power - float(special.ndtr((distance - limits) / spread).mean())

    return float(optimize.brentq(missing, 0.0, float(limits.max() + 10 * spread))) if missing(0.0) > 0 else 0.0


_POINTS = 64
"""Of the distribution of a node's own variance: the power is then right to a third of a percent."""

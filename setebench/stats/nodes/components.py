"""Variance components of runs within nodes: what differs from run to run, and what from node to node.

One-way layout with unequal numbers (Searle, Casella and McCulloch 1992, chapter 3), by robust parts: the variance
within is the median over nodes, each divided by the median of its chi-squared distribution, and what means scatter more
than that is between nodes. The error that runs state themselves is a lower bound of the variance within.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.stats.nodes import robust

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of nodes, summed up. For every node the `mean` of its runs, their number (`runs`), the variance of one run
    about that mean (`own`, NaN with a single run) with its `degrees` of freedom, and the variance that runs state
    themselves (`stated`, their mean)."""

    mean: Numbers
    runs: Counts
    own: Numbers
    degrees: Counts
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
    return present, Runs(mean=mean, runs=runs, own=own, degrees=runs - 1, stated=stated)


def components(runs: Runs) -> Components:
    """What varies within and between the nodes; needs at least one node.

    A node whose runs scatter more than those of others, or state a larger error, is judged by its own variance, so that
    one disturbed run of several makes no odd node. A single run has no such guard: where it states less than half of
    the variance that nodes have, a disturbed run is indistinguishable from an odd node, and has one degree of freedom,
    by which hardly anything stands out."""
    several = ~np.isnan(runs.own)
    repeated = bool(several.any())
    pooled = _pooled(runs.own[several], runs.degrees[several])
    typical = np.maximum(pooled, runs.stated) / runs.runs
    own = np.where(several, runs.own, 0.0) / runs.runs
    means = robust.spread(runs.mean)
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
    """The median of the nodes' own variances, each over the median of such a variance; 0 without."""
    kinds, places = np.unique(degrees, return_inverse=True)
    return float(np.median(own / (stats.chi2.median(kinds) / kinds)[places])) if len(own) else 0.0

"""Split the variance of a number measured on many nodes into variance between runs of a node and between nodes.

This is the one-way layout with unequal numbers (Searle, Casella and McCulloch 1992, chapter 3) with robust estimators:
the variance within nodes is the median of nodes' variances, each over the median of its chi-squared distribution (at
least what runs report as their error); the variance between nodes is the rest of the variance of nodes' means.
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
    """Summary of each node's runs, shapes (nodes,): `mean` and number of `runs`; the variance of a run about that mean
    (`own`, NaN for a single run) with `degrees` of freedom; the mean square of the runs' reported errors (`stated`)."""

    mean: Numbers
    runs: Counts
    own: Numbers
    degrees: Counts
    stated: Numbers


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """Components of variance: `within` is that of a run about its node's mean, `between` that of nodes about their
    centre. If no node has `repeated` runs, `within` is what runs report, and `between` includes the rest of the
    variance of runs. `means` has centre and spread of the nodes' means. Per node, shape (nodes,), `variance` is that of
    its distance from the centre, and `degrees` are those of freedom of Student's t for that distance."""

    within: float
    between: float
    repeated: bool
    means: robust.Spread
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
    outlier. For a node with one run, a disturbance can't be told from an odd node: if the variance that the run reports
    is below half of the node's, it gets one degree of freedom, so that only an extreme distance is significant."""
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
    """Return a robust pooled variance: the median of the nodes' variances (`own`, shape (nodes,)), each divided by the
    median of a unit variance estimated with so many `degrees` of freedom; 0 for no nodes."""
    kinds, places = np.unique(degrees, return_inverse=True)
    return float(np.median(own / (stats.chi2.median(kinds) / kinds)[places])) if len(own) else 0.0

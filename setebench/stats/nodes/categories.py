"""Find nodes of a fleet whose categorical answer (yes or no, a name, a count) differs from that of most nodes.

The rate at which a run disagrees with the other runs of its own node is estimated over all nodes. From that rate, the
binomial distribution gives the probability that a node's runs agree on an unusual answer by chance. Without repeated
runs the rate is unknown, and no node stands out.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Answers as integer codes: for each node in `present` (node numbers, ascending) the `answer` of most of its runs,
    and `p`, the probability of so many such runs if the node's true answer were `usual`, that of most nodes; shapes
    (nodes,). `stray` is an upper estimate of the rate at which a run disagrees with its node."""

    present: Codes
    answer: Codes
    usual: int
    stray: float
    p: Numbers


def answers(node: NDArray[np.integer], code: NDArray[np.integer], nodes: int) -> Answers:
    """Return each node's commonest answer, and the probability that so many of its runs give it by chance: 1 if most
    nodes give the same, or if less than half of its runs do. `node` (numbers below `nodes`) and `code` (the answer,
    from 0) describe the runs in any order, shape (runs,)."""
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

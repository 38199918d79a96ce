"""Answers that are one of several (yes or no, a name, a count): which nodes give another one than most.

How often a run gives another answer than its own node's other runs is counted over all nodes. With it follows how
probable it is that a node's runs agree on another answer by chance (binomial). Without repeated runs nothing is known
of that, and no node stands out.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """For every node (`present`: their numbers) the answer that most of its runs give; the answer of most
    nodes (`usual`), how often a run disagrees with its node (`stray`, an upper estimate), and how probable each node's
    answer is if it were the usual one (`p`)."""

    present: Codes
    answer: Codes
    usual: int
    stray: float
    p: Numbers


def answers(node: NDArray[np.integer], code: NDArray[np.integer], nodes: int) -> Answers:
    """Find each node's commonest answer, and how probable it is. Of each run, in any order, its node's number (below
    `nodes`) and the code of its answer are given, shape (runs,)."""
    kinds = int(code.max()) + 1
    pairs, counts = np.unique(node.astype(np.int64) * kinds + code, return_counts=True)
    owners, codes = pairs // kinds, pairs % kinds
    order = np.lexsort((codes, -counts, owners))  # of each node the most frequent answer first
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

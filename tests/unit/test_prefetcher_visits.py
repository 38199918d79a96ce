"""Accesses of a visit that are ordered by their addresses."""

from __future__ import annotations

import numpy as np

from setebench.experiments.visits import Access, Builder, Visit

SAME = 0x152B


def accesses_and_fences(visit: Visit) -> tuple[int, int]:
    probe = Builder(64, np.random.default_rng(1)).probe(visit)
    texts = str(probe).split("; ")
    return len(texts), sum(text.startswith("fence") for text in texts)


def test_chained_accesses_have_no_fence_between_them() -> None:
    steps = tuple(Access(64 * line, ip=SAME) for line in (3, 10, 17, 24))
    none = accesses_and_fences(Visit((), chained=True))
    chained = accesses_and_fences(Visit(steps, chained=True))
    assert chained[0] == none[0] + len(steps)
    assert chained[1] == none[1]

"""Accesses of a visit that are ordered by their addresses, and what is made of a stride that only those show."""

from __future__ import annotations

from typing import cast

import numpy as np

from setebench.prefetcher_map.builder import Builder
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.strides import SAME, fences_hide_stride
from setebench.prefetcher_map.visit import Access, Visit


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


class Muted:
    """Answers about a stride prefetcher that is quiet, or not, while a fence waits."""

    page_lines, line_size = 64, 64

    def __init__(self, muted: bool, there: bool = True) -> None:
        self.muted, self.there = muted, there

    def brings(self, visit: Visit, target: int) -> bool:
        one_instruction = {access.ip for access in visit.steps} == {SAME}
        return self.there and one_instruction and (visit.chained or not self.muted)


def test_a_stride_that_fences_mute_is_noticed() -> None:
    assert fences_hide_stride(cast(Laboratory, Muted(muted=True)))
    assert not fences_hide_stride(cast(Laboratory, Muted(muted=True, there=False)))

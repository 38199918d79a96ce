"""How far ahead a stride prefetcher runs, from answers about single lines."""

from __future__ import annotations

from typing import cast

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.stride_rules import Rules
from setebench.prefetcher_map.strides import Stride
from setebench.prefetcher_map.visit import Visit


class Shares:
    """A laboratory of a machine that brings each line so many strides ahead in a share of repetitions, and all lines up
    to so many ahead."""

    line_size, page_lines = 64, 64

    def __init__(self, shares: tuple[float, ...], lines: int = 0) -> None:
        self.shares, self.lines = shares, lines

    def _share(self, visit: Visit, target: int) -> float:
        last, before = visit.steps[-1].at // 64, visit.steps[-2].at // 64
        ahead = (target - last) // (last - before)
        if target - last <= self.lines:
            return 1.0
        return self.shares[ahead - 1] if ahead <= len(self.shares) else 0.0

    def brings(self, visit: Visit, target: int) -> bool:
        return self._share(visit, target) > 0.5

    def plainly(self, visit: Visit, target: int, inner: bool = False) -> bool | None:
        share = self._share(visit, target)
        return True if share > 0.85 else (False if share < 0.15 else None)


def ahead(*shares: float) -> int | None:
    rules = Rules(cast("Laboratory", Shares(shares)), Stride(present=True))
    return rules.ahead(4, 3)


def test_lines_that_always_come_are_counted() -> None:
    assert ahead(1.0, 0.98) == 2
    assert ahead() == 0


def test_lines_that_come_now_and_then_leave_the_reach_open() -> None:
    assert ahead(1.0, 0.98, 0.39, 0.29, 0.76) is None  # seen on a CPU that brings some to level 2 instead
    assert ahead(1.0, 0.7) is None
    assert ahead(0.98, 0.97, 0.05, 0.77) is None


def reach(shares: tuple[float, ...], lines: int = 0) -> tuple[int | None, int | None]:
    rules = Rules(cast("Laboratory", Shares(shares, lines)), Stride(present=True))
    rules.trigger = 3
    return rules.reach()


def test_what_a_stream_brings_beside_is_no_reach_of_strides() -> None:
    assert reach((1.0, 1.0)) == (2, 2)
    assert reach((1.0, 1.0), lines=7) == (2, 2)
    assert reach((1.0, 1.0), lines=13) == (None, None)

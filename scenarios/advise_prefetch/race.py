"""Interleaved rounds of many policies, of which those that can't be the best of anything any more are left out.

A round either chooses or times. The first ones choose, with all policies; after that they take turns. Who is left out
is decided by rounds that choose alone, so that those that time favour nobody (a race of models: Maron and Moore 1994).
It ends as soon as the ratios that matter are known well enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.loops import Loop, Policy

from .rounds import MEDIAN_VARIANCE, Rows, deviation
from .trial import Bench


@dataclass
class Race:
    """`policies` with the `groups` of which the fastest is looked for, those of which the `firsts` alone run on, and
    those that are `kept` always. `ticks` has a row for each round, NaN for what was left out; `chooses` says of each
    row what it is for."""

    bench: Bench
    loop: Loop
    policies: tuple[Policy, ...]
    groups: tuple[tuple[Policy, ...], ...]
    firsts: tuple[tuple[Policy, ...], ...]
    kept: frozenset[Policy]
    ticks: Rows = field(init=False)
    chooses: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.ticks = np.empty((0, len(self.policies)))
        self.chooses = np.empty(0, dtype=bool)

    def run(self, enough: Callable[[Race], bool]) -> None:
        """Run rounds until there are `enough`, or as many passes are done as there is time for."""
        params = self.bench.params
        rounds = self.bench.rounds(self.loop, len(self.policies), params.rounds)
        passes = rounds * len(self.policies)
        part = max(params.race_least, rounds // params.race_parts // 2 * 2)
        self._add(np.ones(max(params.race_first, rounds // params.race_parts), dtype=bool))
        while len(self.ticks) < params.rounds[1] and np.isfinite(self.ticks).sum() < passes:
            self._add(np.arange(part) % 2 == 1)
            if len(self.ticks) >= params.rounds[0] and enough(self):
                return

    def _add(self, chooses: NDArray[np.bool_]) -> None:
        """Some more rounds of the policies that are still in the race."""
        running = self.running()
        rows = np.full((len(chooses), len(self.policies)), np.nan)
        rows[:, running] = self.bench.run(
            self.loop, [self.policies[k] for k in running], len(chooses), 200 + len(self.ticks)
        )
        self.ticks = np.concatenate([self.ticks, rows])
        self.chooses = np.concatenate([self.chooses, chooses])

    def running(self) -> list[int]:
        """Numbers of the policies that may still be the fastest of a group, or that are kept."""
        choosing = np.log(self.ticks[self.chooses])
        if not len(choosing):
            return list(range(len(self.policies)))
        open_ones = {k for k, policy in enumerate(self.policies) if policy in self.kept}
        here = [k for k in range(len(self.policies)) if np.isfinite(choosing[:, k]).all()]
        params = self.bench.params
        margin = params.race_beaten * np.sqrt(2 * MEDIAN_VARIANCE / len(choosing)) * deviation(choosing[:, here])
        for group in self.groups:
            unbeaten = _unbeaten(choosing, [k for k in here if self.policies[k] in group], margin)
            open_ones |= set(unbeaten[: max(params.race_kept, len(unbeaten) // 2)])
        for group in self.firsts:
            open_ones |= set(_unbeaten(choosing, [k for k in here if self.policies[k] in group], 0.0)[:1])
        return sorted(open_ones)


def _unbeaten(choosing: Rows, own: Sequence[int], margin: float) -> list[int]:
    """Of these columns those that aren't slower than the fastest by more than the margin, the fastest first."""
    if not own:
        return []
    fastest = min(own, key=lambda k: float(np.median(choosing[:, k])))
    behind = {k: float(np.median(choosing[:, k] - choosing[:, fastest])) for k in own}
    return sorted((k for k in own if behind[k] <= margin), key=lambda k: behind[k])

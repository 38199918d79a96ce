"""What rounds over all levels gave so far, and which of them count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setebench.infer.cycles import narrow
from setebench.infer.drift import over_run
from setebench.infer.latency import NEXT_LEVEL_RATIO
from setebench.infer.latency_samples import Samples
from setebench.infer.ticks import over_replicates
from setebench.measure.calibrate import Ruler

CALM_RATIO, LEAST_CALM = 1.02, 4
"""A round counts where a cycle took no more ticks than this times the first quartile of all rounds."""

STAYED_RATIO = 0.98
"""And, for a cache, where as many lines answered alike as this times the third quartile, but for two standard
deviations of what chance makes of so many lines."""


class Rounds:
    """What all rounds gave so far. A round measures every level once, so that drift falls on all of them alike."""

    def __init__(self, levels: Iterable[str], step_ticks: float) -> None:
        self._step_ticks = step_ticks
        self.samples = {name: Samples() for name in levels}
        self.rulers: list[Ruler] = []
        self.overheads: list[dict[str, float]] = []
        self.transfers: list[float] = []

    @property
    def count(self) -> int:
        """Rounds done."""
        return len(self.rulers)

    def calm(self) -> NDArray[np.int64]:
        """Numbers of the rounds in which the core ran as fast as it can. In the others somebody else was on it, and
        whatever slowed the additions slowed the loads too, but not alike."""
        ticks_per_cycle = np.array([1.0 / ruler.cycles_per_tick for ruler in self.rulers])
        best = np.quantile(ticks_per_cycle, 0.25)
        calm = np.flatnonzero(ticks_per_cycle <= CALM_RATIO * best)
        return calm if len(calm) >= LEAST_CALM else np.argsort(ticks_per_cycle)[:LEAST_CALM]

    def calm_samples(self) -> dict[str, Samples]:
        """The samples of calm rounds; of a level behind the first, of those in which its lines stayed there."""
        calm = self.calm()
        gone = float(np.median(self.samples["memory"].single)) / NEXT_LEVEL_RATIO
        chosen = {
            name: own.of(calm if name == "memory" else _stayed(own, calm, gone)) for name, own in self.samples.items()
        }
        # the second level alone: a walk to a third one hardly exceeds the second, so the lowest rounds may be those in
        # which the second still held the most lines, and the slower ones are the third's own
        if "l2" in chosen:
            chosen["l2"] = chosen["l2"].without_bursts(self._step_ticks)
        # what vector loads take longer is measured in the first few rounds: of these all calm ones are needed
        return {
            name: replace(own.with_whole_chains(self._step_ticks), longer=self.samples[name].of(calm).longer)
            for name, own in chosen.items()
        }

    def settled(self, tolerance: float) -> bool:
        """Whether intervals are within `tolerance` times 2 % or 0.1 cycles (single loads 3 %, 0.4 cycles), and within
        3 % or 0.4 cycles with what drifts: a longer run then sees more of that."""
        return all(
            narrow(over_replicates(own.chain), 0.02 * tolerance, 0.1 * tolerance)
            and narrow(over_replicates(own.single), 0.03 * tolerance, 0.4 * tolerance)
            and narrow(over_run(own.chain), 0.03 * tolerance, 0.4 * tolerance)
            for own in self.calm_samples().values()
        )


def _stayed(own: Samples, calm: NDArray[np.int64], gone_cycles: float) -> NDArray[np.int64]:
    """The rounds, of those given, in which about as many lines answered alike as in the best quarter of them, and not
    as late as memory does (`gone_cycles`).

    In the others a neighbour pushed lines out of a shared cache. They say nothing of the level, and of a chain with
    such lines hardly any step is left that shows it alone."""
    share, single = np.array(own.share)[calm], np.array(own.single)[calm]
    share = np.where(single < gone_cycles, share, 0.0)
    usual = max(float(np.quantile(share, 0.75)), float(share.max()) / 2)
    by_chance = 2.0 * float(np.sqrt(usual * (1.0 - usual) / max(own.lines, 1)))
    stayed = calm[share >= min(STAYED_RATIO * usual, usual - by_chance)]
    return stayed if len(stayed) >= LEAST_CALM else calm

"""One data set of a streaming kernel, round by round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.experiments.streams.team import Timing


@dataclass(frozen=True, kw_only=True)
class Params:
    """Threads that ran at once for less than `overlap` of the time share nothing for the rest of it. Forms of a loop
    within a factor of `equal` in the first round are as good as each other; where they differ by more, something else
    may have disturbed one of them, and the second round decides."""

    overlap: float = 0.9
    equal: float = 0.97


PARAMS = Params()


@dataclass
class Point:
    """One data set (total bytes of a thread): the best program GB/s of every round, and of the best repetition of all
    how long all threads ran at once, and how far apart they started. `rolled` is the form of the kernel's loop.

    `together` is the best of repetitions in which all threads ran at once, where there were any. `alone`: in some round
    nobody else ran on another thread of the cores, nor did they turn out to be one core."""

    size_bytes: int
    rounds: list[float]
    overlap: float = 0.0
    start_microseconds: float = 0.0
    rolled: bool = False
    together: float | None = None
    alone: bool = True

    @property
    def best(self) -> float:
        """The best of all rounds."""
        return max(self.rounds) if self.together is None else self.together

    def add(self, timing: Timing, least_overlap: float = PARAMS.overlap) -> None:
        """One round more: the best of its repetitions in which all threads ran at once, or else of all. When something
        else has a CPU one thread waits for another, and that time counts, too."""
        self.alone = timing.alone or (self.alone and bool(self.rounds))
        overlap = timing.overlap()
        together = overlap >= least_overlap
        rates = np.where(together | ~together.any(), timing.gigabytes_per_second(), 0.0)
        best = int(np.argmax(rates))
        rate, counts, had = float(rates[best]), bool(together[best]), self.together is not None
        if (counts and not had) or (counts == had and (not self.rounds or rate > self.best)):
            self.overlap, self.start_microseconds = float(overlap[best]), float(timing.start_microseconds()[best])
            self.together = rate if counts else None
        self.rounds.append(rate)


def in_question(points: list[Point], decided: bool) -> list[Point]:
    """Of one data set's points, one for each form of the loop, those that the next round measures: the best alone once
    it is `decided` or where the others are no worse to speak of."""
    best = max(points, key=lambda point: point.best)
    equal = all(point.best >= PARAMS.equal * best.best for point in points)
    return [best] if decided or equal else points

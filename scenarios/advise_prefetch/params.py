"""Everything that can be set of trying and proving prefetch advice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.loops import Loop


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is; `work_seconds` counts lines and not a clock, so that the
    same seed gives the same rounds."""

    trials: int = 4  # times that policies around the fastest are timed: each step halves or doubles a distance
    kept: int = 2  # of the fastest, around which the next trial looks: one may have been lucky
    trial_rounds: tuple[int, int] = (3, 15)  # passes of a policy in a trial: three bear one that was disturbed
    trial_error: float = 0.02  # standard error of a policy's time, in parts of it, at which a trial ends
    trial_draws: int = 20  # draws of one trial at most, so that each has its own
    rounds: tuple[int, int] = (10, 64)  # of the proof; half choose, half time: 4 give an interval, 32 a third of it
    width: float = (
        0.015  # half width of regret's interval, in parts of the time, at which the proof ends; 2x of speed-up
    )
    work_seconds: float = 0.2  # of work, at the machine's own pace, that decide between least and most rounds
    folklore_lines: tuple[int, ...] = (8, 16, 64)  # fixed distances that code has without a reason; 64 is a page
    sweep: tuple[int, ...] = (
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
    )  # iterations; times change little within a factor of two
    least_gain: float = 0.02  # part of the time that prefetches must gain in rounds that choose, else none is advised
    part: int = 4  # rounds after which it is looked whether the proof is precise enough
    farthest: float = 3.5  # scaled MADs beyond which a round was disturbed (Iglewicz and Hoaglin 1993)

    def faster(self) -> Params:
        """For --fast."""
        return replace(self, trials=3, work_seconds=self.work_seconds / 4)

    def rounds_of(self, loop: Loop, policies: int, pace: float, between: tuple[int, int]) -> int:
        """Rounds of so many policies on a machine that goes through `pace` lines a second."""
        lines = loop.iterations * sum(max(stream.lines_per_iteration, 1.0) for stream in loop.streams)
        least, most = between
        return int(min(most, max(least, self.work_seconds * pace / (lines * policies))))

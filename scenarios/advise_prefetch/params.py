"""Everything that can be set of trying and proving prefetch advice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.loops import Loop


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    trials: int = 3
    """How often the model's favourites are tried and the model fitted to what they took. Of 72 loops on simulated
    machines the table alone leaves a tenth more than 69 % behind the best, one trial 28 %, two 4 %."""

    tried: int = 5
    """Policies of each trial behind the first, which tries three of every strategy: fewer find less a trial, more cost
    more than they find."""

    trial_rounds: tuple[int, int] = (3, 15)
    """Passes of each policy in a trial, least and most: the median of three bears one that was disturbed, and more
    than fifteen separate policies that differ by less than they do from day to day."""

    rounds: tuple[int, int] = (10, 64)
    """Rounds of the proof, least and most; half choose the sweep's best, half time it. Four that time give an interval
    at all (t of 3 degrees of freedom is 3.2); 32 make it a third as wide."""

    width: float = 0.015
    """Half width of regret's interval, in parts of the time, at which the proof ends: less than a third of the regret
    at which advice counts as right. Of the speed-up it may be twice that."""

    trial_error: float = 0.02
    """Standard error of a policy's time in a trial, in parts of it, at which the trial ends: less than what the model
    is right to (`least_gain` of the advice); the proof decides, and all that was tried takes part in it."""

    work_seconds: float = 0.2
    """Seconds of work, at the pace that the machine says it has (`Facts.lines_per_second`), that decide between least
    and most rounds. In lines and not by a clock, so that the same seed gives the same rounds."""

    folklore_lines: tuple[int, ...] = (8, 16, 64)
    """Fixed distances that code has without a reason: 8 and 16 lines as in many a hash join, 64 as a page."""

    sweep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    """Distances of the sweep in iterations. Times change little within a factor of two."""

    least_gain: float = 0.02
    """Part of the time that a prefetch must have gained in the rounds that choose to be advised, beside no prefetch:
    below, its instructions are for nothing on another day."""

    race_first: int = 3
    """Rounds that choose before anything is left out: the median of three bears one that was disturbed."""

    race_parts: int = 4
    """Parts of the rounds that there is time for, after each of which the field is looked through."""

    race_least: int = 2
    """Rounds of a part: one that times and one that chooses."""

    race_kept: int = 6
    """Policies of a group that run on, of those that nothing has beaten: half of them each time, but not fewer than
    these. Equals are many where times hardly depend on distance, and which of them stands for the best matters less
    than how well it is known (successive halving: Jamieson and Talwalkar 2016)."""

    race_beaten: float = 2.0
    """Standard deviations of a difference of medians beyond which a policy is slower than the fastest. One in forty of
    those that are as fast is left out by chance each time, and that costs nothing: another as fast is still there."""

    farthest: float = 3.5
    """Scaled median deviations from the median beyond which a round counts as disturbed (Iglewicz and Hoaglin 1993); an
    interrupt in one of two passes is no property of either."""

    trial_draws: int = 20
    """Draws of one trial at most, so that each has its own."""

    def faster(self) -> Params:
        """For --fast."""
        return replace(self, trials=2, work_seconds=self.work_seconds / 4)

    def rounds_of(self, loop: Loop, policies: int, pace: float, between: tuple[int, int]) -> int:
        """Rounds of so many policies on a machine that goes through `pace` lines a second."""
        lines = loop.iterations * sum(max(stream.lines_per_iteration, 1.0) for stream in loop.streams)
        least, most = between
        return int(min(most, max(least, self.work_seconds * pace / (lines * policies))))

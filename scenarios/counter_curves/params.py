"""Everything that can be set of the curves."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)  # no-operations behind four lines
    repeats: int = 6  # of every point of the throttled reader, as Helm and Taura 2019 took (section 4)
    rounds: int = 2048  # of four lines, in a run: 512 KiB a thread, beside which starting together is nothing
    smallest_bytes: int = 8192  # of working sets: any first cache holds it
    largest_bytes: int = 64 << 20  # twice the part of a last cache that a core of today has
    lines: int = 1 << 20  # that a point of a working set passes over: in the largest one once
    steps: int = 1024  # of a chase between two starts of its loop
    point_seconds: float = 0.01  # of the user's time, for one point
    least_lines: int = 1 << 12  # passed over all the same: fewer are lost beside what surrounds them
    little_more: float = 1.03  # a rate that one thread more raises by less than this is the highest
    most_threads: int = 16  # more than this add load points that differ by little
    triad_bytes: int = 1 << 20  # of each array of the triad whose volume is known: its ends are nothing

    def quicker(self) -> Params:
        """With --fast."""
        return replace(self, delays=(0, 16, 64, 256), repeats=3, largest_bytes=16 << 20, lines=1 << 18)

    def within(self, lines_per_second: float) -> Params:
        """These, so that a point takes no longer than it may on a machine that passes so many lines in a second of the
        user's time: the same rule everywhere, which most CPUs don't feel. 64 points pass over the largest set, and 64
        lines of a point stand for a round or a step, which several threads make again and again."""
        lines = int(max(self.point_seconds * lines_per_second, self.least_lines))
        return replace(
            self,
            largest_bytes=min(self.largest_bytes, max(64 * 64 * lines, self.smallest_bytes)),
            lines=min(self.lines, lines),
            rounds=min(self.rounds, max(lines // 64, 1)),
            steps=min(self.steps, max(lines // 64, 1)),
        )

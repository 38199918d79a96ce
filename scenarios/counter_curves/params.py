"""Everything that can be set of the curves."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)
    """No-operations behind four lines: from none to a tenth of any core's bandwidth (four a cycle, 100 ns a line)."""

    repeats: int = 6
    """Of every point of the throttled reader, as many as Helm and Taura 2019 took (section 4)."""

    rounds: int = 2048
    """Of four lines, in a run: 512 KiB a thread, 40 us and more at any bandwidth, beside which starting together is
    nothing."""

    smallest_bytes: int = 8192
    """Working sets begin here: any first cache holds it."""

    largest_bytes: int = 64 << 20
    """And end here: twice the part of a last cache that a core of today has."""

    lines: int = 1 << 20
    """Lines that a point of a working set passes over: in the largest one once, in others several times."""

    steps: int = 1024
    """Of a chase between two starts of its loop."""

    point_seconds: float = 0.01
    """Of the user's time, for one point, by the lines that pass and what the machine says of them."""

    least_lines: int = 1 << 12
    """Passed over all the same: fewer are lost beside what surrounds them."""

    lines_of_a_step: int = 64
    """Lines of a point of a working set beside which a round of four lines, or a step of a chase, stands once in
    `rounds` and `steps`: several threads make many of them, again and again."""

    points_of_a_set: int = 64
    """No working set is larger than what so many points pass over: it is passed over a few times at least."""

    little_more: float = 1.03
    """A rate that one thread more, or a shorter delay, raises by less than this is the highest (`stats.bandwidth`)."""

    most_threads: int = 16
    """More threads than this add load points that differ by little."""

    triad_bytes: int = 1 << 20
    """Of each array of the triad whose volume is known: 16,384 lines, beside which its ends are nothing."""

    def quicker(self) -> Params:
        """With --fast."""
        return replace(self, delays=(0, 16, 64, 256), repeats=3, largest_bytes=16 << 20, lines=1 << 18)

    def within(self, lines_per_second: float) -> Params:
        """These, so that a point takes no longer than it may on a machine that passes so many lines in a second of the
        user's time: the same rule everywhere, which most CPUs don't feel."""
        lines = int(max(self.point_seconds * lines_per_second, self.least_lines))
        short = max(lines // self.lines_of_a_step, 1)
        largest = max(self.points_of_a_set * lines * 64, self.smallest_bytes)
        return replace(
            self,
            largest_bytes=min(self.largest_bytes, largest),
            lines=min(self.lines, lines),
            rounds=min(self.rounds, short),
            steps=min(self.steps, short),
        )

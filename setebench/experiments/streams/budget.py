"""How much of a measurement there is time for, judged by what the machine answers and not from a clock on the wall.

A sweep cut by a clock would measure other points on a busy host than on an idle one, and a simulated machine would not
give the same answer for the same seed."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.machine import Facts, Ticks

LINE_BYTES = 64
"""What machines mean by a line where they say how many they answer per second."""


class Budget:
    """Seconds of the user's time that may be spent; a machine's `lines_per_second` says what its answers cost.

    What a run cost is the longer of two: what its ticks say (on a real CPU that is nearly all of it), and the lines
    that it passed over at the pace at which the machine does that (a simulated one takes much longer than its ticks).
    """

    def __init__(self, facts: Facts, seconds: float) -> None:
        self._facts = facts
        self.left = seconds

    def spend(self, passed_bytes: float, ticks: Ticks | None = None) -> float:
        """Take a run off; returns its seconds. `ticks` are those of all threads, shape (repetitions, threads)."""
        cost = passed_bytes / LINE_BYTES / self._facts.lines_per_second
        if ticks is not None:
            cost = max(cost, float(ticks.max(axis=1).sum()) / self._facts.ticks_per_second)
        self.left -= cost
        return cost

    def bytes(self, share: float) -> float:
        """What a share of what is left allows to pass over."""
        return max(share * self.left, 0.0) * self._facts.lines_per_second * LINE_BYTES

    def times(self, passed_bytes: float, share: float, least: int, most: int) -> int:
        """How often a share of what is left allows to pass over so much, from `least` to `most` times."""
        return int(min(max(self.bytes(share) / max(passed_bytes, 1.0), least), most))

    def rounds(self, fewest: int, most: int) -> Iterator[int]:
        """Numbers of rounds, as many as it lasts for if the next takes as long as the one before."""
        for number in range(most):
            before = self.left
            yield number
            if number + 1 >= fewest and self.left < before - self.left:
                return

    def part(self, share: float) -> Budget:
        """A budget of its own with a share of what is left."""
        return Budget(self._facts, self.left * share)

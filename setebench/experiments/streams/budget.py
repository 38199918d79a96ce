"""How much of a measurement there is time for, judged by what the machine answers and not from a clock on the wall.

A measurement cut by a clock would ask other things on a busy host than on an idle one, and a simulated machine would
not give the same answer for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from setebench.experiments.paired import RoundsParams, rounds
from setebench.machine import Facts
from setebench.scenario import Context

LINE_BYTES = 64
"""What machines mean by a line where they say how many they answer per second."""


class Budget:
    """Seconds of the user's time that may be spent; a machine's `lines_per_second` says what its answers cost. One of
    so many `parts` of a question has its part of them, and of the time between rounds."""

    def __init__(self, facts: Facts, seconds: float, parts: int = 1) -> None:
        self._facts, self._parts = facts, parts
        self.left = seconds / parts

    def spend(self, passed_bytes: float) -> None:
        """Take off a run that passed over so many bytes."""
        self.left -= passed_bytes / LINE_BYTES / self._facts.lines_per_second

    def bytes(self, share: float) -> float:
        """Bytes that may be streamed in a `share` of the time that is left."""
        return max(share * self.left, 0.0) * self._facts.lines_per_second * LINE_BYTES

    def rounds(self, context: Context, fewest: int, params: RoundsParams) -> Iterator[int]:
        """Rounds as `experiments.paired.rounds`, as many as it lasts for if the next one takes as long as the one
        before, but the `fewest` in any case."""
        for number in rounds(context, replace(params, apart_seconds=params.apart_seconds / self._parts)):
            before = self.left
            yield number
            if number + 1 >= fewest and self.left < before - self.left:
                return

"""Limit the duration of a measurement by the estimated cost of each run. With a wall clock, busy hosts would measure
less than idle ones, and simulated machines would not repeat their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from setebench.experiments.paired import RoundsParams, rounds
from setebench.machine import Facts
from setebench.scenario import Context

LINE_BYTES = 64
"""Bytes of a line in a machine's `lines_per_second`."""


class Budget:
    """Time that a measurement may still take: `left`, in seconds. What a run costs is estimated from the machine's
    `lines_per_second`. Each of the `parts` of a measurement gets an equal part of the `seconds`."""

    def __init__(self, facts: Facts, seconds: float, parts: int = 1) -> None:
        self._facts, self._parts = facts, parts
        self.left = seconds / parts

    def spend(self, passed_bytes: float) -> None:
        """Subtract the cost of a run that accessed `passed_bytes` bytes."""
        self.left -= passed_bytes / LINE_BYTES / self._facts.lines_per_second

    def bytes(self, share: float) -> float:
        """Return the number of bytes that can be accessed in a `share` (0 to 1) of the time that is left."""
        return max(share * self.left, 0.0) * self._facts.lines_per_second * LINE_BYTES

    def rounds(self, context: Context, fewest: int, params: RoundsParams) -> Iterator[int]:
        """Yield numbers of rounds, at least `fewest`, until one more round like the last would exceed the budget."""
        for number in rounds(context, replace(params, apart_seconds=params.apart_seconds / self._parts)):
            before = self.left
            yield number
            if number + 1 >= fewest and self.left < before - self.left:
                return

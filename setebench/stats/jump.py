"""Find how many requests a queue serves at once, as the number of requests after which their total time jumps.

A queue with L entries (such as MSHRs) serves up to L requests in the time of one; one more has to wait until an entry
is free. So the total time jumps after L requests by most of a latency (the *unit*), while a limit on the rate (a bus, a
port) makes a slope. The search goes up in steps, bisects the first rise, then measures all numbers around it
in rounds, each in random order. Every round votes for a place of the jump. The result is the largest place with enough
votes, as co-runners only take entries. A jump right at the lower end of the window would be a slope, and gets no vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Ask = Callable[[int], float]
"""Function that issues a number of requests at once and returns their time in units of a memory latency, measured anew
at each call; disturbance only lengthens this time."""


@dataclass(frozen=True, kw_only=True)
class JumpParams:
    """Tunables of the search. Heights of jumps are in `Ask`'s unit, a memory latency."""

    rise: float = 0.3  # least height of a jump: one unit minus the time in which the earlier requests were issued
    ratio: float = 1.25  # ratio of successive numbers while going up; below 2, as time jumps again after 2 L requests
    enough: float = 2.6  # rise of time at which going up ends
    samples: int = 2  # samples of a number while going up and bisecting, of which the least is used
    window: int = 3  # how many numbers below a place, and above it, are measured in rounds
    first: float = 0.6  # the jump is the first rise of at least this part of the highest one in the window
    rounds: int = 6  # rounds of an epoch
    enough_votes: float = 0.25  # least fraction of the votes that a place needs
    beyond: float = 0.4  # largest ratio of votes for larger places to those for a certain result
    rises: int = 3  # number of rises that rounds don't confirm, after which the search gives up


@dataclass(frozen=True, kw_only=True)
class Jump:
    """Result of a search for the number of requests that are served at once: with one more, their total time jumps.
    `last` is that number, or None if time doesn't jump up to `most` requests. Each round of measurements votes for a
    number. Those with enough votes range from `low` to `high`; `certain` says that few rounds voted for a larger one.
    `times` maps each number of requests to its least time, in memory latencies."""

    last: int | None
    low: int = 0
    high: int = 0
    certain: bool = False
    most: int = 0
    times: dict[int, float]


class Search:
    """Search for the number of requests after which the time that `ask` returns jumps; it starts when constructed.
    `between` are the least and the largest number to try; `near` is the expected number, which is tried first."""

    def __init__(self, ask: Ask, between: tuple[int, int], rng: np.random.Generator, near: int | None = None) -> None:
        self.params, self._ask, self._rng = JumpParams(), ask, rng
        self._first, self._most = between
        self._times: dict[int, list[float]] = {}
        self._votes: list[int] = []
        self._place: int | None = None
        if near is None or not self._confirmed(min(max(near, self._first), self._most)):
            self._go_up(self._first)

    def again(self) -> None:
        """Measure another epoch of rounds around the jump found before, and add their votes for its place."""
        if self._place is not None:
            self._measure_votes(self._place)

    @property
    def found(self) -> Jump:
        """The jump according to the votes of all rounds so far."""
        times = {number: min(self._times[number]) for number in sorted(self._times)}
        most = max(self._times, default=self._first)
        votes = Counter(self._votes)
        if self._place is None or not votes:
            return Jump(last=None, most=most, times=times)
        likely = [place for place, count in votes.items() if count >= self.params.enough_votes * len(self._votes)]
        last = max(likely or votes)
        beyond = sum(count for place, count in votes.items() if place > last)
        return Jump(
            last=last,
            low=min(likely or votes),
            high=last,
            certain=bool(likely) and beyond <= self.params.beyond * votes[last],
            most=most,
            times=times,
        )

    def _time(self, number: int) -> float:
        """Return the least time, in units, of at least `params.samples` samples of `number` requests."""
        samples = self._times.setdefault(number, [])
        while len(samples) < self.params.samples:
            samples.append(self._ask(number))
        return min(samples)

    def _go_up(self, first: int) -> None:
        """Try larger and larger numbers from `first` on, and vote around each rise, until rounds confirm a jump."""
        before, least, left = first, self._time(first), self.params.rises
        while before < self._most and left:
            number = min(max(before + 1, int(before * self.params.ratio)), self._most)
            if self._time(number) - self._time(before) > self.params.rise:
                if self._confirmed(self._bisected(before, number)):
                    return
                left -= 1
            if self._time(number) - least > self.params.enough:
                return
            before = number

    def _bisected(self, low: int, high: int) -> int:
        """Return the number in [low, high) after which time rises, by bisection towards the half that rises more."""
        while high > low + 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle)
                if self._time(middle) - self._time(low) > self._time(high) - self._time(middle)
                else (middle, high)
            )
        return low

    def _confirmed(self, place: int) -> bool:
        """Delete earlier votes, measure one epoch of rounds around `place` (a number of requests), and return whether
        half of the rounds or more see a jump near it."""
        self._votes, self._place = [], None
        if 2 * self._measure_votes(place) < self.params.rounds:
            return False
        self._place = max(self._votes, key=self._votes.count)
        return True

    def _measure_votes(self, place: int) -> int:
        """Measure one epoch of rounds around `place`, record the rounds' votes, and return how many saw a jump."""
        low = max(place - self.params.window, self._first)
        high = min(place + self.params.window, max(2 * place, place + 1), self._most)
        seen = 0
        for _ in range(self.params.rounds):
            times = {}
            for number in self._rng.permutation(np.arange(low, high + 1)).tolist():
                times[number] = self._ask(number)
                self._times.setdefault(number, []).append(times[number])
            # A time longer than that of a larger number was disturbed, so the running minimum from above is used.
            least = np.minimum.accumulate([times[number] for number in range(high, low - 1, -1)])[::-1]
            rises = np.diff(least)
            if not len(rises) or rises.max() < self.params.rise:
                continue
            at = int(np.argmax(rises >= self.params.first * rises.max()))
            if at or low == self._first:
                self._votes.append(low + at)
                seen += 1
        return seen

"""The largest number of requests that is served at once: where time jumps, by one search for all kinds of them.

A queue with L entries serves up to L requests in the time of one; the next has to wait for the first to leave. So time
over the number of requests jumps by most of a latency (a *unit*) behind L. What only limits the rate (a bus, a port)
makes it a slope. The search goes up in steps, halves the interval of the first rise, and then measures the numbers
around it in rounds, in random order. Each round votes for one place; of those that enough rounds vote for the largest
counts, as what else runs takes entries and gives none. A place at the lower end of the window is no jump but a slope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Ask = Callable[[int], float]
"""Returns the time of so many requests at once, in units of what one takes; whatever disturbs makes it longer."""


@dataclass(frozen=True, kw_only=True)
class JumpParams:
    """Tunables of the search. Heights of jumps are in `Ask`'s unit: what one more access in memory takes."""

    rise: float = 0.3  # least height of a jump: a unit, less what the requests before it needed to set out
    ratio: float = 1.25  # of numbers tried first: no jump and the next one, at twice the number, hide in one step
    enough: float = 2.6  # no larger number is tried where time has risen by so much
    samples: int = 2  # of a number before a window is chosen; the least counts
    window: int = 3  # numbers before the place, and behind it
    first: float = 0.6  # a jump is the first place that rises by this part of the highest in the window
    rounds: int = 6  # of an epoch
    enough_votes: float = 0.25  # part of the votes that a place needs
    beyond: float = 0.4  # votes for larger places, of those for this one, that are disturbed rounds
    rises: int = 3  # places that turn out to be none before the search gives up


@dataclass(frozen=True, kw_only=True)
class Jump:
    """Behind `last` requests time jumps; it may lie between `low` and `high`. None where it never does up
    to `most`. `times` is the least time of each number. Where votes disagree it is not `certain`."""

    last: int | None
    low: int = 0
    high: int = 0
    certain: bool = False
    most: int = 0
    times: dict[int, float]


class Search:
    """Where `ask` jumps among `first` to `most` requests; `near` is where it is expected."""

    def __init__(self, ask: Ask, between: tuple[int, int], rng: np.random.Generator, near: int | None = None) -> None:
        self.params, self._ask, self._rng = JumpParams(), ask, rng
        self._first, self._most = between
        self._times: dict[int, list[float]] = {}
        self._votes: list[int] = []
        self._place: int | None = None
        if near is None or not self._voted(min(max(near, self._first), self._most)):
            self._go_up(self._first)

    def again(self) -> None:
        """Another epoch of rounds around the place that was found."""
        if self._place is not None:
            self._vote(self._place)

    @property
    def found(self) -> Jump:
        """What all rounds so far say."""
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

    # -- how ---------------------------------------------------------------------------------------------------------

    def _time(self, number: int) -> float:
        """The least of so many samples of a number."""
        samples = self._times.setdefault(number, [])
        while len(samples) < self.params.samples:
            samples.append(self._ask(number))
        return min(samples)

    def _go_up(self, first: int) -> None:
        """Go up in steps, and vote around each rise, until one is a jump."""
        before, least, left = first, self._time(first), self.params.rises
        while before < self._most and left:
            number = min(max(before + 1, int(before * self.params.ratio)), self._most)
            if self._time(number) - self._time(before) > self.params.rise:
                if self._voted(self._halved(before, number)):
                    return
                left -= 1
            if self._time(number) - least > self.params.enough:
                return
            before = number

    def _halved(self, low: int, high: int) -> int:
        """The last number before the higher rise between two."""
        while high > low + 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle)
                if self._time(middle) - self._time(low) > self._time(high) - self._time(middle)
                else (middle, high)
            )
        return low

    def _voted(self, place: int) -> bool:
        """Whether an epoch of votes around a place finds a jump; else what it said is forgotten."""
        self._votes, self._place = [], None
        if 2 * self._vote(place) < self.params.rounds:
            return False
        self._place = max(self._votes, key=self._votes.count)
        return True

    def _vote(self, place: int) -> int:
        """Measure around a place in rounds; how many of them see a jump."""
        low = max(place - self.params.window, self._first)
        high = min(place + self.params.window, max(2 * place, place + 1), self._most)
        seen = 0
        for _ in range(self.params.rounds):
            times = {}
            for number in self._rng.permutation(np.arange(low, high + 1)).tolist():
                times[number] = self._ask(number)
                self._times.setdefault(number, []).append(times[number])
            # a time that a larger number undercuts was disturbed
            least = np.minimum.accumulate([times[number] for number in range(high, low - 1, -1)])[::-1]
            rises = np.diff(least)
            if not len(rises) or rises.max() < self.params.rise:
                continue
            at = int(np.argmax(rises >= self.params.first * rises.max()))
            if at or low == self._first:
                self._votes.append(low + at)
                seen += 1
        return seen

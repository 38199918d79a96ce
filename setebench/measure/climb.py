"""Measuring a staircase: how time grows with the number of requests, closely only where it jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.steps import Staircase, Step, change_point, first_rise, window

GRID_RATIO = 1.25
"""Between neighbouring numbers of the first pass: a jump at n and the next at 2 n can't fall between two of them."""

ENOUGH_UNITS = 2.6
"""The first pass ends where requests take so many times as long as one: behind the second jump."""

FIRST_ROUNDS = 2
"""Rounds, each on other lines, in the first pass."""


@dataclass(frozen=True)
class Effort:
    """Rounds around the jump, as many as further ones follow while its place is not certain; how many places that rise
    are looked at, before a curve that only creeps is left; and at how many later times the jump is asked for again, in
    how many rounds."""

    rounds: tuple[int, ...] = (10, 24)
    rises: int = 12
    again: int = 2
    again_rounds: int = 6


THOROUGH, FAST = Effort(), Effort(rounds=(5, 8), rises=5, again=1, again_rounds=5)
"""By default and with --fast. Fewer than five rounds leave the bootstrap too little to draw from."""

Measure = Callable[[int], NDArray[np.float64]]
"""Times of some repetitions for a number of requests, on new lines; shape (repetitions,)."""


def climb(
    measure: Measure, first: int, most: int, unit: float, rng: np.random.Generator, effort: Effort = THOROUGH
) -> Staircase:
    """Measure from `first` to `most` requests and find the first jump. `unit` is the time of one request, cycles."""
    found = Staircase(unit)
    _first_pass(found, measure, first, most, rng)
    start = first
    for _ in range(effort.rises):
        last = _narrow_down(found, measure, start, rng)
        if last is None:
            break
        found.step = _closely(found, measure, last, first, rng, effort)
        if found.step is not None:
            _next_jump(found, measure, first, most, rng)
            break
        start = last + 1
    return found


def once_more(found: Staircase, measure: Measure, first: int, rng: np.random.Generator, effort: Effort) -> None:
    """Ask for the jump again, at another time: a neighbour that holds some entries for a second or two moves it in all
    rounds of one time, so that their spread doesn't show it. The interval comes from the rounds of all times, and also
    holds the place that each time tells by itself; where one shows no jump, it holds all numbers that were looked at.
    A time that disagrees is asked for twice as long, and a place that was never certain isn't asked for again."""
    if found.step is None or found.step.low < found.step.high:
        return
    last, numbers = found.step.last, list(window(found.step.last, first))
    now = Staircase(found.unit)
    own = None
    for _ in range(2):
        _measure(now, measure, numbers, effort.again_rounds, rng)
        own = change_point({number: np.stack(now.samples[number]) for number in numbers}, found.unit, rng)
        if own is not None and own.last == last:
            break
    for number, samples in now.samples.items():
        found.samples.setdefault(number, []).extend(samples)
    every = change_point({number: np.stack(found.samples[number]) for number in numbers}, found.unit, rng)
    if own is None or every is None:
        places = [numbers[0], numbers[-2]]
    else:
        places = [own.last, every.last, every.low, every.high]
    found.step = Step(last, min(last, *places), max(last, *places), found.step.height)


def _grid(first: int, most: int) -> list[int]:
    numbers = [first]
    while numbers[-1] < most:
        numbers.append(min(max(numbers[-1] + 1, int(numbers[-1] * GRID_RATIO)), most))
    return numbers


def _measure(found: Staircase, measure: Measure, numbers: list[int], rounds: int, rng: np.random.Generator) -> None:
    """Rounds over all numbers in random order, so that drift falls on all of them alike."""
    for _ in range(rounds):
        for number in rng.permutation(numbers):
            found.samples.setdefault(int(number), []).append(measure(int(number)))


def _first_pass(found: Staircase, measure: Measure, first: int, most: int, rng: np.random.Generator) -> None:
    for number in _grid(first, most):
        _measure(found, measure, [number], FIRST_ROUNDS, rng)
        if found.level(number) - found.level(first) > ENOUGH_UNITS * found.unit:
            break


def _narrow_down(found: Staircase, measure: Measure, start: int, rng: np.random.Generator) -> int | None:
    """The number behind which the first rise from `start` on comes, by halving; None where there is no rise."""
    while True:
        numbers, times = found.curve()
        index = first_rise(numbers, times, found.unit, start)
        if index is None:
            return None
        low, high = int(numbers[index]), int(numbers[index + 1])
        if high == low + 1:
            return low
        _measure(found, measure, [(low + high) // 2], FIRST_ROUNDS, rng)


def _closely(
    found: Staircase, measure: Measure, last: int, first: int, rng: np.random.Generator, effort: Effort
) -> Step | None:
    """The jump behind about `last`, from many rounds over the numbers around it; more where that doesn't settle it."""
    numbers = list(window(last, first))
    step = None
    for rounds in effort.rounds:
        _measure(found, measure, numbers, rounds, rng)
        own = {number: np.stack(found.samples[number]) for number in numbers}
        step = change_point(own, found.unit, rng)
        if step is not None and step.low == step.high:
            break
    return step


def _next_jump(found: Staircase, measure: Measure, first: int, most: int, rng: np.random.Generator) -> None:
    """Whether time rises again when twice as many requests are waiting, by half of the first jump at least. On the way
    requests leave one by one, so the second jump may be spread over some numbers."""
    assert found.step is not None
    period = max(found.step.last + 1 - first, 1) if first == 0 else found.step.last
    spread = max(1, period // 6)
    before, behind = found.step.last + period - spread, found.step.last + period + spread + 1
    if behind > most:
        return
    _measure(found, measure, [before, behind], 2 * FIRST_ROUNDS, rng)
    found.repeats = found.level(behind) - found.level(before) > 0.5 * found.step.height

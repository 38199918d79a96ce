"""Bandwidth over data sets of growing size: which ones, and what each round of them shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS
from setebench.experiments.streams.points import Point, in_question
from setebench.experiments.streams.team import Stream, Team, array_bytes_for
from setebench.kernels import Kernel
from setebench.scenario import Context
from setebench.stats.drift import LEAST_ROUNDS

from .params import PARAMS


@dataclass(frozen=True)
class Case:
    """What one sweep varies the data set of; `remote` memory lies on the node farthest from each CPU."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]
    remote: bool = False

    @property
    def threads(self) -> int:
        """Number of threads."""
        return len(self.cpus)

    @property
    def access_bytes(self) -> int:
        """Bytes of one access."""
        return WIDTHS[self.width]

    @property
    def name(self) -> str:
        """Kernel and width, as parameters name them."""
        return f"{self.kernel.name}.{self.width}"

    def parameter(self, level: str) -> str:
        """Name of the finding of a level."""
        return f"bandwidth.{level}.{self.name}.threads_{self.threads}{'.remote' if self.remote else ''}"


def between(sizes: Sequence[int], fast: bool) -> list[int]:
    """Data sets for the plot alone: half octaves (octaves when fast) up to the largest of `sizes`."""
    octaves = np.arange(0.0, np.log2(max(sizes, default=PARAMS.smallest) / PARAMS.smallest), 1.0 if fast else 0.5)
    return [int(size) for size in PARAMS.smallest * 2.0**octaves]


class Sweep:
    """One case's data sets, round by round; what disturbs one round need not disturb the next.

    Which form of its loop a kernel runs fastest in depends on the CPU and the level, so the first round measures both,
    and later ones the better."""

    def __init__(self, context: Context, case: Case, team: Team, sizes: Sequence[int]) -> None:
        """`sizes` are those that findings come from, in the order of their worth."""
        self._context, self._case, self._team = context, case, team
        self._arrays = _arrays(case.kernel, sizes)
        self._budget = Budget(context.machine.facts, 0.0)
        self._points: dict[int, list[Point]] = {}  # of every data set those of the forms still in question
        self._passes: dict[int, int] = {}
        self.costs: dict[int, float] = {}
        """Seconds of a round of each data set, in one form of the loop."""

    @property
    def points(self) -> list[Point]:
        """Every data set that the budget allowed, in the order of size."""
        return [in_question(self._points[size], decided=True)[0] for size in sorted(self._points)]

    def first_round(self, budget: Budget, sizes: Sequence[int] = ()) -> None:
        """Every data set that the budget lasts for once; others than those of findings where `sizes` are given."""
        self._announce("for the plot" if sizes else "the first round", budget)
        for total, array in (_arrays(self._case.kernel, sizes) or self._arrays).items():
            if total not in self._points and 2 * total * self._case.threads <= budget.bytes(1.0):
                self._forms(array, total, [Point(total, [], rolled=rolled) for rolled in self._case.kernel.forms])

    def round(self, number: int, budget: Budget, dearest: float) -> None:
        """Once more every data set that costs no more than `dearest`, but those that more rounds say nothing of."""
        self._announce(f"round {number + 1}", budget)
        for total, cost in self.costs.items():
            if cost <= dearest and not all(map(_known, self._points[total])):
                self._forms(self._arrays[total], total, in_question(self._points[total], decided=number > 1))

    def _announce(self, what: str, budget: Budget) -> None:
        case = self._case
        self._budget = self._team.budget = budget
        self._context.progress(f"{case.name}, {case.threads} thread{'s' if case.threads > 1 else ''}, {what}")

    def _forms(self, array: int, total: int, points: list[Point]) -> None:
        """One round of one data set in the forms of the loop that are in question."""
        before, cost = self._budget.left, 0.0
        for point in points:
            if not point.rounds and cost > PARAMS.point_fraction * self._budget.left:
                continue
            self._measure(array, point)
            cost = cost or before - self._budget.left
        self._points[total] = [point for point in points if point.rounds]
        if total in self._arrays:
            self.costs.setdefault(total, cost)

    def _measure(self, array: int, point: Point) -> None:
        """One round of one data set in one form."""
        case, team, size = self._case, self._team, point.size_bytes
        stream = Stream(case.kernel, case.access_bytes, array, rolled=point.rolled)
        if size not in self._passes:
            large = 2 * size * case.threads > self._budget.bytes(PARAMS.point_fraction)
            self._passes[size] = 1 if large else team.passes_for(stream)
        stream = replace(stream, passes=self._passes[size])
        once = size * stream.passes * case.threads
        repetitions = self._budget.times(once, PARAMS.point_fraction, 2, 1 + PARAMS.repetitions) - 1
        point.add(team.time(stream, repetitions))


def _known(point: Point) -> bool:
    """Whether enough rounds of a data set are equal."""
    return len(point.rounds) >= LEAST_ROUNDS and min(point.rounds) >= PARAMS.equal * max(point.rounds)


def _arrays(kernel: Kernel, sizes: Sequence[int]) -> dict[int, int]:
    """Bytes of an array by those of all arrays, of data sets in their order."""
    arrays = (array_bytes_for(kernel, size) for size in sizes)
    return {array * kernel.arrays: array for array in arrays}


def in_rounds(sweeps: Sequence[Sweep], budget: Budget, rounds: int) -> None:
    """The first round of all sweeps, then the second of all, and so on, as far as the budget goes.

    What else goes on in a machine comes and goes over seconds: it would be in all rounds of a sweep that has them one
    right after the other, and the interval would not show it. The dearest data sets are left out of rounds that the
    budget does not last for."""
    first = budget.part(PARAMS.first_fraction)
    budget.left -= first.left
    for place, sweep in enumerate(sweeps):
        # more than an even share: what one does not use is there for the next
        _within(first, min(1.0, 3 / (len(sweeps) - place)), sweep.first_round)
    budget.left += first.left
    for number in range(1, rounds):
        costs = np.sort([cost for sweep in sweeps for cost in sweep.costs.values()])
        lasting = costs[np.cumsum(costs) <= budget.left]
        for sweep in sweeps if len(lasting) else ():
            _within(budget, 1.0, partial(sweep.round, number, dearest=float(lasting[-1])))


def plotted(sweeps: Mapping[Sweep, Sequence[int]], budget: Budget) -> None:
    """Once what is only for the plot, on a part of what is left of the budget."""
    budget = budget.part(PARAMS.plot_fraction)
    for place, (sweep, sizes) in enumerate(sweeps.items()):
        _within(budget, 1 / (len(sweeps) - place), partial(sweep.first_round, sizes=sizes))


def _within(budget: Budget, share: float, work: Callable[[Budget], None]) -> None:
    """Work on a share of a budget, and take off what it cost."""
    own = budget.part(share)
    before = own.left
    work(own)
    budget.left -= before - own.left

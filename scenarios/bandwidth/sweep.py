"""Bandwidth over data sets of growing size: which ones, and what each round of them shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS
from setebench.experiments.streams.points import Point, in_question
from setebench.experiments.streams.team import Stream, Team, array_bytes_for
from setebench.kernels import Kernel
from setebench.scenario import Context

from .levels import Levels
from .params import PARAMS


@dataclass(frozen=True)
class Case:
    """What one sweep varies the data set of; `remote` memory lies on the node farthest from each CPU."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]
    remote: bool = False
    siblings: tuple[tuple[int, ...], ...] = ()

    @property
    def threads(self) -> int:
        """Number of threads."""
        return len(self.cpus)

    @property
    def per_core(self) -> int:
        """Threads on the core that has most of them."""
        return max(sum(cpu in group for cpu in self.cpus) for group in self.siblings) if self.siblings else 1

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


def sizes_for(levels: Levels, case: Case, room: int, asked: int | None, fast: bool) -> list[int]:
    """Data sets of each thread in the order of their worth: two inside each level, the one that outgrows the last level
    and the largest, then half octaves (octaves when fast) upwards.

    Several threads together need no larger sets than one, but each must outgrow the last level by itself, as it may not
    be shared. `asked` is the largest, where the user chose one."""
    inside, outgrown = levels.middles(case.threads, case.per_core), levels.outgrown
    largest = asked or min(int(PARAMS.widest * (outgrown or max([PARAMS.smallest, *inside]))), room)
    if not asked and outgrown:
        largest = max(outgrown, largest // case.threads)
    octaves = np.arange(0.0, np.log2(largest / PARAMS.smallest), 1.0 if fast else 0.5)
    first = [int(size) for size in (*inside, outgrown) if 0 < size < largest]
    rest = sorted(int(size) for size in PARAMS.smallest * 2.0**octaves)
    return list(dict.fromkeys([*first, largest, *rest]))


def remote_sizes(levels: Levels, sizes: Iterable[int]) -> list[int]:
    """Those of the data sets that say something of memory: where it lies makes no difference to caches."""
    return [size for size in sizes if levels.outgrown and size >= levels.outgrown]


def affordable(case: Case, sizes: Iterable[int], budget: Budget) -> list[int]:
    """Those of the data sets, in their order, that a first round can pass over in the time there is."""
    left, chosen = budget.bytes(1.0), []
    for size in sizes:
        cost = (2 if size > PARAMS.large else 1 + PARAMS.repetitions) * size * case.threads
        if cost <= left:
            left -= cost
            chosen.append(size)
    return chosen


class Sweep:
    """One case's data sets, round by round; what disturbs one round need not disturb the next.

    Which form of its loop a kernel runs fastest in depends on the CPU and the level, so the first round measures both,
    and later ones the better. From the third round on only data sets are measured that findings may come from."""

    def __init__(self, context: Context, case: Case, team: Team, sizes: list[int], levels: Levels) -> None:
        """`sizes` in the order of their worth."""
        self._context, self._case, self._team, self._sizes, self._levels = context, case, team, sizes, levels
        self._budget = Budget(context.machine.facts, 0.0)
        self._points: dict[int, list[Point]] = {}  # of every data set those of the forms still in question
        self._passes: dict[int, int] = {}
        self._seconds_per_byte = 0.0  # of the dearest data set yet
        self.spent = 0.0
        self.ended = False

    @property
    def points(self) -> list[Point]:
        """Every data set that the budget allowed, in the order of size."""
        return [in_question(self._points[size], decided=True)[0] for size in sorted(self._points)]

    def round(self, number: int, budget: Budget) -> None:
        """Every data set once; the first round leaves out what would take too long, the others what it left out.

        Notes in `spent` what it took with one form of the loop, and in `ended` if that is too much for another."""
        case = self._case
        plural = "s" if case.threads > 1 else ""
        self._context.progress(f"{case.name}, {case.threads} thread{plural}, round {number + 1}")
        self._budget = self._team.budget = budget
        whole = budget.left
        self.spent = sum(self._forms(array, total, number) for array, total in self._data_sets(number))
        if not number:
            self.ended = self.spent > PARAMS.round_fraction * whole

    def _data_sets(self, number: int) -> Iterator[tuple[int, int]]:
        """Bytes of an array, and of all arrays, of the data sets of a round."""
        done: set[int] = set()
        for size in self._sizes:
            array = array_bytes_for(self._case.kernel, size)
            total = array * self._case.kernel.arrays
            if total in done or (number and total not in self._points):
                continue  # another size came to the same whole blocks, or to more than there was time for
            if not number and 2 * total * self._seconds_per_byte > self._budget.left:
                continue
            if number < PARAMS.deciding_rounds or self._is_clear(total):
                done.add(total)
                yield array, total

    def _is_clear(self, total: int) -> bool:
        """Whether a finding may come from a data set: one of a cache, or the largest, which is memory's."""
        case = self._case
        if total == max(self._points) or case.remote or case.kernel.bypass:
            return total == max(self._points)
        return self._levels.in_a_cache(total, case.threads, case.per_core)

    def _forms(self, array: int, total: int, number: int) -> float:
        """One round of one data set in every form of the loop that is in question; returns what one of them took."""
        points = self._points.get(total) or [Point(total, [], rolled=rolled) for rolled in self._case.kernel.forms]
        before, cost = self._budget.left, 0.0
        for point in points:
            if not point.rounds and cost > PARAMS.form_fraction * self._budget.left:
                continue
            self._measure(array, point)
            cost = cost or before - self._budget.left
        self._points[total] = in_question([point for point in points if point.rounds], decided=number > 0)
        return cost

    def _measure(self, array: int, point: Point) -> None:
        """One round of one data set in one form."""
        case, team = self._case, self._team
        large = point.size_bytes > PARAMS.large
        stream = Stream(case.kernel, case.access_bytes, array, rolled=point.rolled)
        if point.size_bytes not in self._passes:
            self._passes[point.size_bytes] = 1 if large else team.passes_for(stream)
        stream, repetitions = replace(stream, passes=self._passes[point.size_bytes]), PARAMS.repetitions
        if large:
            affords = self._budget.bytes(0.5) >= (1 + PARAMS.large_repetitions) * point.size_bytes * case.threads
            repetitions = PARAMS.large_repetitions if affords else 1
        before = self._budget.left
        timing = team.time(stream, repetitions)
        streamed = point.size_bytes * stream.passes * (repetitions + 1)
        self._seconds_per_byte = max(self._seconds_per_byte, (before - self._budget.left) / streamed)
        point.add(timing)


def in_rounds(sweeps: Sequence[Sweep], budget: Budget, rounds: int) -> None:
    """The first round of all sweeps, then the second of all, and so on, as far as the budget goes.

    What else goes on in a machine comes and goes over seconds: it would be in all rounds of a sweep that has them one
    right after the other, and the interval would not show it. No round begins that the budget does not last for."""
    for number in range(rounds):
        going = [sweep for sweep in sweeps if not sweep.ended]
        if number and sum(sweep.spent for sweep in going) > budget.left:
            return
        for place, sweep in enumerate(going):
            # more than an even share: what one does not use is there for the next
            own = budget.part(min(1.0, 3 / (len(going) - place)))
            before = own.left
            sweep.round(number, own)
            budget.left -= before - own.left

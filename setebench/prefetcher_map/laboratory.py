"""Asking which lines a visit brings: fresh pages, one timed line per repetition, untrained baselines in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setebench.infer.footprint import BROUGHT, Footprint
from setebench.infer.mixture import Shares, mostly
from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.serving import References
from setebench.prefetcher_map.known import Known
from setebench.prefetcher_map.visit import Access, Visit
from setebench.prefetcher_map.visitor import Visitor
from setebench.probe import Probe
from setebench.scenario import Context

SCAN, AGAIN, MOST = 12, 60, 1920
"""Repetitions per line of a first look, of a second look at lines that it left unclear, and at most, where neighbouring
levels must be told apart on a coarse clock."""

CLEAR_MARGIN = 9.0
"""Logarithm of a ratio of likelihoods, about 1 in 8,000: a map asks hundreds of such questions."""

ONE_LEVEL, CHANCE_ERRORS = 0.98, 1.0
"""Share of a level's loads, the others being stalls; and by how many standard errors a difference must clear a bound
that it only has to confirm: the likelihoods are clear already."""

PLAIN = 0.15
"""A line that comes in less than this share of repetitions comes nearly never; what noise alone takes is less."""

BLOCKS = 3
"""Trained and untrained visits take turns so often, so that drift and neighbours fall on both alike."""


class Laboratory(Visitor):
    """Asks what visits bring. `known` is what is known of the machine, on which questions depend."""

    def __init__(self, context: Context, region: Region, references: References, turn: int = 0) -> None:
        super().__init__(context, region, references, turn)
        self.known = Known()
        self._answers: dict[tuple[Visit, int], bool | None] = {}
        self._levels: dict[tuple[Visit, int], str | None] = {}
        self._inner: dict[tuple[Visit, int], bool | None] = {}

    def know_as(self, other: Laboratory) -> None:
        """Share what another laboratory of the same machine knows."""
        self.known, self.builder.conflict_pages = other.known, other.builder.conflict_pages

    @contextmanager
    def unremembered(self) -> Iterator[None]:
        """Within the context every question is asked anew, and no answer is kept."""
        kept = self._answers, self._levels, self._inner
        self._answers, self._levels, self._inner = {}, {}, {}
        try:
            yield
        finally:
            self._answers, self._levels, self._inner = kept

    def brings_shared(
        self, visit: Visit, makers: Sequence[int], targets: Sequence[int], cpus: tuple[int, ...]
    ) -> bool | None:
        """Whether the visit brings any of the targets when its accesses are made by several CPUs, `makers` saying
        which of `cpus` makes each; the first one times."""
        probes = self.builder.split(replace(visit, forget=self.known.forget), makers, len(cpus))
        times = self._times_together(dict(zip(cpus, probes, strict=True)), targets, cpus[0])
        # beside its sibling a core takes some cycles longer for each load than when the references were taken: such
        # times lie between those of two levels, where their mixture says nothing, but far from those of memory. Means,
        # as a coarse clock may read a load from a cache as late as one from memory
        *_, cache, memory = (float(ticks.mean()) for ticks in self.references.ticks.values())
        step = step_ticks(self.context)
        shares = [(memory - mean_ticks(each, step)) / (memory - cache) for each in times]
        return _any_came([min(max(share, 0.0), 1.0) for share in shares])

    def brings_across(
        self, visit: Visit, parts: tuple[int, int, int], targets: Sequence[int], cpus: tuple[int, int]
    ) -> bool | None:
        """Whether the visit brings any of the targets when the second CPU makes the accesses from the first to the
        second of the numbers in `parts`, then the first CPU those up to the third; the first one times."""
        probes = self.builder.continued(replace(visit, forget=self.known.forget), *parts)
        times = self._times_together(dict(zip(cpus, probes, strict=True)), targets, cpus[0])
        return _any_came([float(share) for share in 1.0 - self.references.shares(times).of("memory")])

    def _times_together(self, probes: dict[int, Probe], targets: Sequence[int], own: int) -> list[NDArray[np.int64]]:
        """Ticks of loads of each target after the probes of several CPUs, of which `own` times."""
        asked = self.rng.permutation(np.repeat(np.asarray(targets, dtype=np.int64), AGAIN))
        ticks = self.context.machine.run_together(
            probes, self.placements(np.concatenate([np.resize(asked, 2), asked])), warmup=2
        )
        times = ticks[own][:, 0]
        return [times[asked == target] for target in targets]

    def sample(self, visit: Visit, targets: Sequence[int], repetitions: int) -> Footprint:
        """Each target timed `repetitions` times after the visit, and without it, in random order."""
        visit = replace(visit, forget=self.known.forget)
        trained = self.builder.probe(visit)
        untrained = self.builder.probe(visit.untrained())
        ticks: dict[bool, list[NDArray[np.int64]]] = {True: [], False: []}
        asked: dict[bool, list[NDArray[np.int64]]] = {True: [], False: []}
        per_block = -(-repetitions // BLOCKS)
        for _ in range(BLOCKS):
            for is_trained in (True, False):
                # the baseline only has to show that lines are not there anyway
                repeated = np.repeat(
                    np.asarray(targets, dtype=np.int64), per_block if is_trained else -(-per_block // 3)
                )
                order = self.rng.permutation(repeated)
                ticks[is_trained].append(self.ticks_after(trained if is_trained else untrained, order))
                asked[is_trained].append(order)
        shares = []
        for is_trained in (True, False):
            lines, times = np.concatenate(asked[is_trained]), np.concatenate(ticks[is_trained])
            shares.append(self.references.shares([times[lines == target] for target in targets]))
        return Footprint(tuple(targets), shares[0], shares[1], BLOCKS * per_block)

    def levels_after(self, visit: Visit, targets: Sequence[int], repetitions: int) -> Shares:
        """What part of the loads of each target, `repetitions` after the visit, each level served."""
        asked = self.rng.permutation(np.repeat(np.asarray(targets, dtype=np.int64), repetitions))
        times = self.ticks_after(self.builder.probe(replace(visit, forget=self.known.forget)), asked)
        return self.references.shares([times[asked == target] for target in targets])

    # -- asking -------------------------------------------------------------------------------------------------------

    def scan(self, visit: Visit, targets: Sequence[int]) -> dict[int, bool | None]:
        """Which of the targets the visit brings into any cache; None where that stays unclear."""
        missing = [target for target in targets if (visit, target) not in self._answers]
        for repetitions in (SCAN, AGAIN, 4 * AGAIN):
            if missing and (repetitions <= AGAIN or not self.spent):
                footprint = self.sample(visit, missing, repetitions)
                told = {target: footprint.brought(target) for target in missing}
                self._answers.update({(visit, target): value for target, value in told.items()})
                missing = [target for target, value in told.items() if value is None]
        return {target: self._answers[visit, target] for target in targets}

    def brings(self, visit: Visit, target: int) -> bool | None:
        """Whether the visit brings one line."""
        return self.scan(visit, [target])[target]

    def plainly(self, visit: Visit, target: int, inner: bool = False) -> bool | None:
        """Whether the visit brings the line (`inner`: to level 1) nearly always or nearly never, from many
        repetitions."""
        told: bool | None = None
        for repetitions in (4 * AGAIN, 16 * AGAIN):  # on a coarse clock few loads leave shares blurred
            if told is None and (repetitions == 4 * AGAIN or not self.spent):
                footprint = self.sample(visit, [target], repetitions)
                share = float(footprint.trained.of("l1")[0]) if inner else footprint.cached(target)
                told = True if share > 1 - PLAIN else (False if share < PLAIN else None)
        return told

    def lines(self, visit: Visit, targets: Sequence[int]) -> set[int]:
        """Lines of `targets` that the visit surely brings."""
        return {target for target, value in self.scan(visit, targets).items() if value}

    def any_of(self, visit: Visit, targets: Sequence[int]) -> bool | None:
        """Whether the visit brings any of the targets; None where none is sure but one is unclear."""
        told = self.scan(visit, targets).values()
        return True if True in told else (None if None in told else False)

    def level(self, visit: Visit, target: int) -> str | None:
        """The level to which the visit brings the target; None where it stays unclear, `memory` if nowhere."""
        if (visit, target) not in self._levels:
            self._levels[visit, target] = self._level(visit, target)
        return self._levels[visit, target]

    def in_l1(self, visit: Visit, target: int) -> bool | None:
        """Whether the visit brings the target to level 1, where the levels behind it may be hard to tell apart."""
        if (visit, target) not in self._inner:
            brought = self.brings(visit, target)
            self._inner[visit, target] = self._in_l1(visit, target) if brought else brought
        return self._inner[visit, target]

    def rests_in_l1(self, visit: Visit, line: int, after: int = 0) -> bool | None:
        """Whether a line that the visit places beforehand is in level 1 after so many of its accesses.

        Where there are none, another warm line is loaded first: the page's TLB entry has gone, and a TLB miss looks
        like level 2."""
        beside = next(each for each in visit.warm if abs(each - line) > 2)
        placed = replace(visit, steps=visit.steps[:after] or (Access(beside * self.line_size),))
        return self._in_l1(placed, line)

    def _in_l1(self, visit: Visit, target: int) -> bool | None:
        level = self._mostly_in(visit, target)
        return None if level is None else level == "l1"

    def _level(self, visit: Visit, target: int) -> str | None:
        brought = self.brings(visit, target)
        if not brought:
            return None if brought is None else "memory"
        return self._mostly_in(visit, target, every=True)

    def _mostly_in(self, visit: Visit, target: int, every: bool = False) -> str | None:
        """The level that serves most loads of the target after the visit, from more and more of them; None where that
        stays unclear. Levels behind the first are told apart only if `every` is wanted.

        A sibling that is busy, or was when the references were taken, makes level 1 look like level 2, or the other way
        round, from one moment to the next. So whichever is told, the loads must also be nearer to those of the same
        line when it was just loaded, timed in turns with them, or further from those, than half the way to level 2."""
        visit = replace(visit, forget=self.known.forget)
        probes = self.builder.probe(visit), self.builder.probe(visit, loaded=True)
        for times, loaded in self._growing(probes, target):
            level = _clearly(mostly(self.references.ticks, times), every)
            if level and self._as_if_loaded(times, loaded) is (level == "l1"):
                return level
        return None

    def _growing(self, probes: tuple[Probe, Probe], target: int) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Ticks of more and more loads behind each of two probes, in turns."""
        sets: tuple[list[NDArray[np.int64]], ...] = ([], [])
        repetitions = AGAIN
        while repetitions <= MOST and not (sets[0] and self.spent):
            for _ in range(BLOCKS):
                for probe, own in zip(probes, sets, strict=True):
                    own.append(self.ticks_after(probe, np.full(repetitions // BLOCKS, target, dtype=np.int64)))
            yield tuple(np.concatenate(own) for own in sets)
            repetitions *= 4

    def _as_if_loaded(self, times: NDArray[np.int64], loaded: NDArray[np.int64]) -> bool | None:
        """Whether loads take about as long as those of a line just loaded (True) or as long as level 2's at least
        (False); None where chance may decide."""
        first, second = list(self.references.ticks.values())[:2]
        furthest = float(np.quantile(second, ONE_LEVEL)) + step_ticks(self.context)
        near, control = times[times <= furthest], loaded[loaded <= furthest]
        if len(near) < len(times) / 2 or len(control) < len(loaded) / 2:
            return False if len(control) >= len(loaded) / 2 else None
        way = float(second[second <= furthest].mean() - first[first <= furthest].mean())
        beyond = float(near.mean() - control.mean()) - way / 2
        error = float(np.hypot(near.std() / len(near) ** 0.5, control.std() / len(control) ** 0.5))
        return beyond < 0 if abs(beyond) > CHANCE_ERRORS * error else None


def _any_came(shares: Sequence[float]) -> bool | None:
    """Whether any line was in a cache, from the share of repetitions in which each was; None where none surely was but
    one is unclear."""
    told = [share > BROUGHT if abs(share - 0.5) > BROUGHT - 0.5 else None for share in shares]
    return True if True in told else (None if None in told else False)


def _clearly(likely: Mapping[str, float], every: bool) -> str | None:
    """The level that log likelihoods clearly speak for; unless `every`, all behind the first count as one, which goes
    by the name of the likeliest of them."""
    if len(likely) < 2:
        return None
    second, first = sorted(likely, key=lambda name: likely[name])[-2:]
    if not every and first != "l1":
        second = "l1"
    return first if likely[first] - likely[second] > CLEAR_MARGIN else None

"""Asks which lines a visit brings, and decides: present in a cache, in level 1, at which level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.lines.serving import References
from setebench.experiments.presence import Visits
from setebench.experiments.visits import Access, Visit
from setebench.machine import Region
from setebench.scenario import Context
from setebench.stats.ticks.location import dominant, mean_ticks
from setebench.stats.ticks.mixture import Shares, mostly

from .found import Answer, Known, Question, some
from .params import Params

Ticks = NDArray[np.int64]


class Lab(Visits):
    """Asks what visits bring. `references` are loads from each level, taken a moment ago."""

    def __init__(self, context: Context, region: Region, references: References, turn: int = 0) -> None:
        super().__init__(context, region, turn)
        self.params = Params().quicker() if context.fast else Params()
        self.references, self.known = references, Known()
        self.eighth = self.page_lines // 8
        self._answers: dict[tuple[str, Visit, int], Any] = {}  # by what was asked, of which visit and line

    def know_as(self, other: Lab) -> None:
        """Share what another laboratory of the same machine knows."""
        self.known, self.builder.conflict_pages = other.known, other.builder.conflict_pages

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Within the context every question is asked anew, and no answer is kept."""
        kept, self._answers = self._answers, {}
        try:
            yield
        finally:
            self._answers = kept

    @property
    def spent(self) -> bool:
        """Whether enough was run: lines left unclear are asked once more, but nothing that takes long."""
        return self.operations > self.params.operations

    def find_second_level(self) -> None:
        """Where nothing was found between level 1 and memory: loads of a line that others pushed out of level 1 alone
        are a reference of the level behind, if they lie clearly between."""
        first, *others = self.references.ticks.items()
        if len(others) != 1:
            return
        line, params = self.page_lines // 2, self.params
        ticks = self.alone(Visit((), demoted=(line,)), [line], params.reference_samples)[0]
        ticks = ticks[dominant(ticks, step_ticks(self.context))]
        low, middle, high = (float(np.median(each)) for each in (first[1], ticks, others[0][1]))
        if low + step_ticks(self.context) < middle < low + params.pushed_out * (high - low):
            self.references = References(dict([first, ("l2", ticks), *others]))

    # -- questions -------------------------------------------------------------------------------------------------

    def ask(self, question: Question) -> Answer:
        """True where a target comes by the visit alone; a target that a control brings as well says nothing. It comes
        once more after its controls, as what learns from the questions may have changed meanwhile."""
        free, unclear = 0, False
        for target in question.targets:
            came = self.comes(question.visit, target, question.inner)
            anyway: Answer = False
            if came:
                anyway = some(self.comes(control, target, question.inner) for control in question.controls)
                if anyway is False and self._still(question, target):
                    return True
                anyway = anyway or None
            unclear = unclear or came is None or anyway is None
            free += anyway is False
        return None if unclear or not free else False

    def _still(self, question: Question, target: int) -> bool:
        """Whether a target that comes, and by no control, comes now."""
        asked = (f"still {question.inner}", question.visit, target)
        if asked not in self._answers and question.controls:
            with self.anew():
                came = self.comes(question.visit, target, question.inner)
            self._answers[asked] = came
            self.known.changed = self.known.changed or came is False
        return self._answers.get(asked, True) is True

    def free(self, question: Question) -> tuple[int, ...]:
        """The targets that surely come with none of the controls, so that their coming says something."""
        controls, inner = question.controls, question.inner
        return tuple(
            target
            for target in question.targets
            if all(self.comes(control, target, inner) is False for control in controls)
        )

    def comes(self, visit: Visit, target: int, inner: bool = False) -> Answer:
        """Whether the visit brings the target into any cache, or into level 1."""
        return self.in_l1(visit, target) if inner else self.brings(visit, target)

    def brings(self, visit: Visit, target: int) -> Answer:
        """Whether the visit brings one line."""
        return self.scan(visit, [target])[target]

    def scan(self, visit: Visit, targets: Sequence[int]) -> dict[int, Answer]:
        """Which of the targets the visit brings into any cache; None where that stays unclear."""
        answers, again = self._answers, self.params.again
        missing = [target for target in targets if ("cached", visit, target) not in answers]
        for repetitions in (self.params.first, again, 4 * again):
            if missing and (repetitions <= again or not self.spent):
                fresh = self._present(visit, missing, repetitions)
                answers.update({("cached", visit, target): value for target, value in fresh.items()})
                missing = [target for target, value in fresh.items() if value is None]
        return {target: answers["cached", visit, target] for target in targets}

    def plainly(self, visit: Visit, target: int, inner: bool = False) -> Answer:
        """Whether the visit brings the line nearly always or nearly never, from many repetitions."""
        params = self.params
        for repetitions in (4 * params.again, 16 * params.again):  # on a coarse clock few loads leave shares blurred
            if repetitions == 4 * params.again or not self.spent:
                shares = self.shares_after(visit, [target], repetitions)
                share = float(shares.of("l1")[0] if inner else 1.0 - shares.of("memory")[0])
                if min(share, 1 - share) < params.plain:
                    return share > params.plain
        return None

    def in_l1(self, visit: Visit, target: int) -> Answer:
        """Whether the visit brings the target to level 1, where the levels behind it may be hard to distinguish."""
        answers: Answer = self._of_brought("inner", visit, target, partial(self._in_l1, visit, target), False)
        return answers

    def level(self, visit: Visit, target: int) -> str | None:
        """The level to which the visit brings the target; None where it stays unclear, `memory` if nowhere."""
        ask = partial(self._mostly_in, visit, target, every=True)
        level: str | None = self._of_brought("level", visit, target, ask, "memory")
        return level

    def _of_brought(self, what: str, visit: Visit, target: int, ask: Callable[[], Any], nowhere: Any) -> Any:
        """What is asked once of a line that comes; `nowhere` where it surely does not."""
        if (asked := (what, visit, target)) not in self._answers:
            brought = self.brings(visit, target)
            self._answers[asked] = ask() if brought else None if brought is None else nowhere
        return self._answers[asked]

    def rests_in_l1(self, visit: Visit, line: int, after: int = 0) -> Answer:
        """Whether a line that the visit places beforehand is in level 1 after so many of its accesses.

        Where there are none, another warm line is loaded first: the page's TLB entry has gone, and a TLB miss reads
        like level 2."""
        beside = (Access(each * self.line_size) for each in visit.warm if abs(each - line) > 2)
        placed = replace(visit, steps=visit.steps[:after] or (next(beside),))
        return self._in_l1(placed, line)

    def lost(self, visit: Visit, target: int) -> float:
        """Fraction of repetitions in which a line that level 2 had is further out."""
        return float(self.shares_after(visit, [target], 2 * self.params.again).of("l3", "memory")[0])

    def shares_after(self, visit: Visit, targets: Sequence[int], repetitions: int) -> Shares:
        """What part of the loads of each target each level served."""
        return self.references.shares(self.samples(visit, targets, repetitions))

    def samples(self, visit: Visit, targets: Sequence[int], repetitions: int) -> list[Ticks]:
        """Loads of each target after the visit, while region prefetchers are kept quiet."""
        return self.alone(self._quiet(visit), targets, repetitions)

    # -- several CPUs ----------------------------------------------------------------------------------------------

    def brings_by(
        self, question: Question, makers: Sequence[int | None], cpus: tuple[int, ...], *, apart: bool = False
    ) -> Answer:
        """Whether a target that no control brings comes when several CPUs, of one core or of cores `apart`, make the
        accesses, `makers` saying which of `cpus` makes each (None: nobody); the first one times.

        Beside its sibling a core takes some cycles longer for each load than when the references were taken: such
        times lie between those of two levels, where their mixture says nothing, but far from those of memory. Means, as
        a coarse clock may read a load from a cache as late as one from memory."""
        targets, step = self.free(question), step_ticks(self.context)
        if not targets:
            return None
        probes = self.builder.split(self._quiet(question.visit), makers, len(cpus), apart=apart)
        times = self.together(dict(zip(cpus, probes, strict=True)), targets, cpus[0], self.params.again)
        *_, cache, memory = (float(ticks.mean()) for ticks in self.references.ticks.values())
        shares = np.clip([(memory - mean_ticks(each, step)) / (memory - cache) for each in times], 0, 1)
        brought = self.params.brought
        return some(bool(share > brought) if abs(share - 0.5) > brought - 0.5 else None for share in shares)

    # -- decisions -------------------------------------------------------------------------------------------------

    def _quiet(self, visit: Visit) -> Visit:
        """The visit after all that region prefetchers remember of its accesses was made to be forgotten, but for what
        was practised to be remembered."""
        return visit if visit.practice else replace(visit, forget=self.known.forget, beside=self.known.beside)

    def _present(self, visit: Visit, targets: Sequence[int], repetitions: int) -> dict[int, Answer]:
        """Whether the visit brings each target, which without its accesses is not there: that is asked only of what
        came, and once of visits that differ in their accesses alone."""
        params, slack = self.params, self.params.slack / math.sqrt(repetitions)
        without, kept = visit.untrained(), self._answers
        cached = dict(zip(targets, self._cached(visit, targets, repetitions), strict=True))
        came = [target for target, share in cached.items() if share > params.brought + slack]
        if asked := [target for target in came if not kept.get(("untouched", without, target))]:
            anyway = self._cached(without, asked, -(-repetitions // params.control_part))
            pairs = zip(asked, anyway, strict=True)
            kept.update({("untouched", without, each): bool(share < params.not_brought) for each, share in pairs})
        answers: dict[int, Answer] = dict.fromkeys(targets)
        answers |= {target: False for target, share in cached.items() if share < params.not_brought - slack}
        return answers | {target: True for target in came if kept["untouched", without, target]}

    def _cached(self, visit: Visit, targets: Sequence[int], repetitions: int) -> NDArray[np.float64]:
        """The fraction of the loads of each target after the visit that any cache served."""
        return 1.0 - self.shares_after(visit, targets, repetitions).of("memory")

    def _in_l1(self, visit: Visit, target: int) -> Answer:
        level = self._mostly_in(visit, target)
        return None if level is None else level == "l1"

    def _mostly_in(self, visit: Visit, target: int, every: bool = False) -> str | None:
        """The level that serves most loads of the target after the visit, from more and more of them; None where that
        stays unclear. Levels behind the first are distinguished only if `every` is wanted.

        A sibling that is busy, or was when the references were taken, makes level 1 look like level 2, or the other way
        round, from one epoch to the next. So the loads must also be nearer to those of the same line when it was just
        loaded, timed in turns with them, or further from those, than half the way to level 2."""
        for times, loaded in self.growing(self._quiet(visit), target, 2 * self.params.first, self.params.most):
            level = self._clearly(mostly(self.references.ticks, times), every)
            if level and self._as_if_loaded(times, loaded) is (level == "l1"):
                return level
            if self.spent:
                break
        return None

    def _clearly(self, likely: Mapping[str, float], every: bool) -> str | None:
        """The level that log likelihoods clearly speak for; unless `every`, all behind the first count as one."""
        if len(likely) < 2:
            return None
        second, first = sorted(likely, key=lambda name: likely[name])[-2:]
        if not every and first != "l1":
            second = "l1"
        return first if likely[first] - likely[second] > self.params.clear else None

    def _as_if_loaded(self, times: Ticks, loaded: Ticks) -> Answer:
        """Whether loads take about as long as those of a line just loaded (True) or as long as level 2's at least
        (False); None where chance may decide."""
        first, second = list(self.references.ticks.values())[:2]
        furthest = float(np.quantile(second, self.params.one_level)) + step_ticks(self.context)
        near, control = times[times <= furthest], loaded[loaded <= furthest]
        if len(near) < len(times) / 2 or len(control) < len(loaded) / 2:
            return False if len(control) >= len(loaded) / 2 else None
        way = float(second[second <= furthest].mean() - first[first <= furthest].mean())
        beyond = float(near.mean() - control.mean()) - way / 2
        error = float(np.hypot(near.std() / len(near) ** 0.5, control.std() / len(control) ** 0.5))
        return beyond < 0 if abs(beyond) > self.params.chance * error else None


def fit_traversals(lab: Lab) -> None:
    """Choose how many evictor lines per page offset traversals have: those that push lines out of level 1 (which takes
    more where it has more sets than a page has lines) and stay in level 2, whose misses would train its streams; and
    note whether these fit, and whether none is lost. And whether so many lines push out a single one."""
    params, line, usual = lab.params, lab.page_lines // 2, lab.builder.conflict_pages
    best, more = (1.0, usual), iter(params.more_pages)
    spared, lost = _lost(lab, usual)
    while spared > params.spared and (pages := next(more, None)):
        spared, lost = _lost(lab, pages)
    fewer = iter(range(lab.builder.conflict_pages - params.fewer_by, params.least_pages - 1, -params.fewer_by))
    while spared <= params.spared:
        best = min(best, (lost, lab.builder.conflict_pages))
        if best[0] <= params.lost or not (pages := next(fewer, None)):
            break
        spared, lost = _lost(lab, pages)
    lab.known.traversals_fit, lab.builder.conflict_pages = best[0] <= params.lost, best[1]
    lab.known.traversals_whole = best[0] * len(lab.builder.traversal()) < params.lost_lines
    pushed = Visit((Access(line * lab.line_size), Access(line * lab.line_size, "demote")))
    lab.known.demotes = _in_first(lab, lab.samples(pushed, [line], params.again)[0]) < params.not_brought


def _lost(lab: Lab, pages: int) -> tuple[float, float]:
    """Fractions of a traversal's lines that are still in level 1, and no longer in level 2, when their turn comes."""
    lab.builder.conflict_pages = pages
    numbers = np.linspace(0, len(lab.builder.traversal()) - 1, lab.params.traversal_lines).astype(int)
    ticks = np.concatenate([lab.traversed(int(number), 2 * lab.params.first) for number in numbers])
    return _in_first(lab, ticks), float(lab.references.shares([ticks]).of("l3", "memory")[0])


def _in_first(lab: Lab, ticks: Ticks) -> float:
    """The fraction of loads that level 1 served. What takes longer than its loads do is none of them, though it be
    nearer to those than to a level 2 that is badly known."""
    latest = np.quantile(lab.references.ticks["l1"], lab.params.one_level) + step_ticks(lab.context)
    return min(float(lab.references.shares([ticks]).of("l1")[0]), float(np.mean(ticks <= latest)))

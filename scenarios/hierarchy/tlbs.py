"""The TLBs of small and of large pages: entries, what a miss costs, and how many pages share an entry.

Translations are left alone for a number of other pages, then used again (`experiments.translations`). What that costs,
over the number, has a step for each TLB: about so many entries, and so many cycles for a miss. Where
each step lies is decided among all tables that there may be (`stats.entries`), with further samples where these
disagree most. A step that is all but sharp is then searched by cyclic chases over pages, one by one.

The curve is taken in two epochs of a run at least, in other memory: a co-runner takes entries and gives none, so of
two numbers the larger one is likelier (`stats.threshold.over_epochs`), and costs have an interval from all epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from setebench.experiments.translations import PageUnits, Survival, SurvivalParams
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.entries import Samples, Step, Table, find_steps, heights, samples
from setebench.stats.estimate import CONFIDENCE
from setebench.stats.threshold import Posterior, SearchParams, Trials, search

from .counting import COUNTING, SIDE, Counted, SideTable, Until, count_stores, count_walk_cache, counted

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20
"""Bytes of x86-64's pages that systems use for data (AMD64 Architecture Programmer's Manual 2, 5.3)."""

METHOD = "translations used again after a number of other pages"


@dataclass(frozen=True, kw_only=True)
class TlbParams:
    """How TLBs are looked for.

    Numbers of other pages grow up to `most` (the largest second TLB known has 4,096 entries). The second step of a
    curve is `walk_cycles` high: a page walk reads at least one more entry from beyond the first cache. A curve ends
    `beyond` times further than its second step, if all pages that there are cost no more than `further` times as much:
    walks get dearer with their tables, by a fifth on a Zen 4 guest.

    Neighbours that come last (`SurvivalParams.beside`) take ways of the target's set where page numbers' lowest bits
    don't choose it: where a miss is likelier behind several of them by the fraction `taken` of the step, and by
    `errors` standard errors, at the fraction `beside_at` of its entries, there are none. Two further ways of 24, the
    most known, make it likelier by 0.15 there; four errors, as a false alarm costs a walk that gets dearer with the
    pages.

    Then up to `rounds` samples are taken where candidates disagree, each of two draws to `most_draws`, as many as
    `flushes` flushes allow. Candidates for the next sample are `asked` numbers within a ratio of `around` of the step.
    Of up to `ring_most` entries those are counted that a ring finds (as many lines fit any first cache), up to
    `ring_reach` beyond what is probable (0.001 to either side); a ring is too large if a step costs the fraction
    `ring_rise` of a miss more: one page too many for a set of three ways is four misses in at most 257 steps. What lies
    more than `uneven` below what the curve says is no end of all sets at once. What a miss costs is sampled in
    `moments` of each look, over what is kept by the fraction `surely_kept` of the first TLB: a co-runner may take half
    of it.

    Up to `most_shared` pages are tried for one entry; `most_first` other pages make any first TLB lose a translation
    (160 entries are the most known). A cost whose interval is wider than `steady` to either
    side, and than half of the least step, is none.

    Where a second TLB is asked for, one of `sparse` pages is used, in turns of looks; the numbers found are alike
    within the fraction `alike` (1536 and 1600 entries are 0.04 apart). Where neighbours share a set it is one of
    `sparse_least` at least: of denser ones a set gets few groups of 8, so all or none of its ways at once (not swept).

    `large_bytes` of address space are taken for large pages at most, and the fraction `large_fraction` of what the
    machine offers: only the targets take memory where the system has a page of zeros for what was never written.
    `parts_bytes` of them show whether parts of large pages have entries of their own."""

    most: int = 10000
    walk_cycles: float = 8.0
    beside_at: float = 0.85
    taken: float = 0.05
    errors: float = 4.0
    beyond: float = 2.6
    further: float = 1.5
    rounds: int = 12
    flushes: int = 150_000
    most_draws: int = 60
    asked: int = 60
    around: float = 2.0
    ring_most: int = 256
    ring_rise: float = 0.015
    ring_reach: float = 1.3
    uneven: float = 0.03
    moments: int = 3
    surely_kept: float = 0.25
    most_shared: int = 8
    most_first: int = 320
    steady: float = 0.25
    sparse: tuple[float, ...] = (12.0, 1.25)
    sparse_least: float = 4.0
    alike: float = 0.06
    large_bytes: int = 12 << 30
    large_fraction: float = 0.75
    parts_bytes: int = 512 << 20


PARAMS = TlbParams()


NO_STEP = Step(entries=0.0, shape=1.0, height=0.0)


@dataclass
class _Level(Counted):
    """One TLB as found so far: about how many entries it seemed to have at first, its step, and how many pages share an
    entry in each look, None where that was not seen. Costs are of a miss over a hit in the first TLB."""

    guess: float = 0.0
    step: Step = NO_STEP
    shared: list[int | None] = field(default_factory=list)

    @property
    def least(self) -> int:
        """The least number that any look may have seen."""
        return min(each.interval(CONFIDENCE)[0] for each in self.posteriors)

    @property
    def steady(self) -> bool:
        """Whether a miss costs the same in all moments: what disturbs that makes translations go early as well."""
        return self.cost.half_width <= max(COUNTING.least_cycles / 2, PARAMS.steady * self.cost.value)


class Tlbs:
    """Both TLBs of pages of one size, `name` in parameters. `look` as often as wanted, each time with other memory."""

    def __init__(self, context: Context, name: str, page_bytes: int) -> None:
        """Nothing is measured yet."""
        self._context, self.name, self.page_bytes = context, name, page_bytes
        self._shares = page_bytes == SMALL_PAGE
        self._pages_per_unit = 1
        self._levels: list[_Level] = []
        self._reach = 0
        self._targets = SurvivalParams().targets
        self._found: dict[int, list[float]] = {}
        self._with_neighbours = True
        self._stores, self._walks = SideTable(), SideTable()
        self._apart: list[bool | None] = []
        self._looks = 0

    @property
    def first(self) -> _Level | None:
        """The first TLB, if its step was seen."""
        return self._levels[0] if self._levels else None

    @property
    def second(self) -> _Level | None:
        """The second one."""
        return self._levels[1] if len(self._levels) > 1 else None

    # -- one look ------------------------------------------------------------------------------------------------------

    def look(self, region: Region) -> None:
        """Measure in this memory."""
        if not self._looks and self._shares:
            self._pages_per_unit = self._sharing(self._survival(region))
        if not self._looks:
            survival, steps = self._sweep(region)
            if steps and steps[0].entries < 2 * self._targets:  # too few to be counted by so many
                self._targets //= 2
                survival, steps = self._sweep(region)
            if len(steps) > 1 and self._neighbours_take(survival, steps[-1]):
                self._with_neighbours = False
                survival, steps = self._sweep(region)
            self._levels = [_Level(guess=step.entries, step=step) for step in steps]
        else:
            survival = self._outline(region)
        for level in self._levels:
            level.posteriors.append(self._entries(survival, level))
        self._looks += 1
        if self._levels:
            for _ in range(PARAMS.moments):
                self._cost(survival)
            if self._shares:
                self._count_sharing(survival)
            self._count_side_tables(survival)
        evidence = self._context.evidence.setdefault(f"tlb_{self.name}", {"pages": [], "cycles": []})
        for count in sorted(self._found):
            evidence["pages"].append(count + self._targets)
            evidence["cycles"].append(round(float(np.mean(self._found[count])), 3))

    def _survival(self, region: Region) -> Survival:
        units = PageUnits(region=region, page_bytes=self.page_bytes, pages=self._pages_per_unit)
        sparse = PARAMS.sparse[self._looks % len(PARAMS.sparse)]
        params = SurvivalParams(
            targets=self._targets,
            neighbours=self._with_neighbours,
            sparse_many=sparse if self._with_neighbours else max(sparse, PARAMS.sparse_least),
        )
        return Survival(self._context, units, params)

    def _samples(self, survival: Survival) -> Samples:
        return samples(self._found, self._targets, survival.fraction).grounded()

    def _take(self, survival: Survival, others: int, most_draws: int) -> None:
        self._found.setdefault(others, []).extend(survival.stream(others, self._draws(others, most_draws)).tolist())

    def _draws(self, others: int, most: int) -> int:
        """How many draws of so many others are worth their flushes; the fewer targets in each, the more draws."""
        usual = SurvivalParams()
        per_draw = 2 * (usual.rows + usual.warm) * others
        return int(np.clip(PARAMS.flushes // per_draw, 2, most)) * usual.targets // self._targets

    def _sweep(self, region: Region) -> tuple[Survival, list[Step]]:
        """Numbers that grow, until there is a second step and what lies behind it, up to as many pages as there are:
        samples in a row that were disturbed resemble a step, but more pages cost more then."""
        self._found, survival = {}, self._survival(region)
        least = (COUNTING.least_cycles, PARAMS.walk_cycles)
        counts = COUNTING.numbers(1, min(PARAMS.most, survival.most))
        steps: list[Step] = []
        for number, count in enumerate(counts):
            self._take(survival, count, COUNTING.draws)
            self._reach = count
            if number == len(counts) - 1 or (number % 4 == 0 and number > len(counts) // 2):
                steps = find_steps(self._samples(survival), least)
                if len(steps) == len(least) and count > PARAMS.beyond * steps[-1].entries:
                    behind = sum(step.height for step in steps)
                    if survival.stream(counts[-1], COUNTING.draws).mean() < PARAMS.further * behind:
                        break
        return survival, steps

    def _neighbours_take(self, survival: Survival, step: Step) -> bool:
        """Whether neighbours of the targets take places in the targets' sets."""
        others = int(PARAMS.beside_at * step.entries) - self._targets
        if not survival.beside(others):
            return False
        draws = self._draws(others, PARAMS.most_draws)
        few, several = (survival.stream(others, draws, several=each) for each in (False, True))
        more = float(several.mean() - few.mean())
        error = float(np.hypot(few.std(ddof=1), several.std(ddof=1)) / np.sqrt(draws))
        return more > max(PARAMS.taken * step.height, PARAMS.errors * error)

    def _outline(self, region: Region) -> Survival:
        """Few samples of a curve whose steps are known: before, between and behind them."""
        self._found, survival = {}, self._survival(region)
        for level in self._levels:
            counts = [level.step.quantile(each) * ratio for each, ratio in ((0.02, 0.8), (0.5, 1.0), (0.98, 1.2))]
            for count in (*counts, PARAMS.beyond * level.step.entries):
                self._take(survival, int(np.clip(count - self._targets, 1, self._reach)), COUNTING.draws)
        return survival

    def _entries(self, survival: Survival, level: _Level) -> Posterior:
        """How many entries a TLB has; its step gets as exact as is known."""
        guess = level.guess
        asked = np.unique(np.round(guess * np.geomspace(1 / PARAMS.around, PARAMS.around, PARAMS.asked)).astype(int))
        asked = asked[(asked > self._targets) & (asked <= self._reach + self._targets)]
        if not len(asked):  # no more than the targets
            asked = np.array([self._targets + 1])

        def take(count: int) -> Samples:
            self._take(survival, count - self._targets, PARAMS.most_draws)
            return self._of_level(survival, level)

        seen = self._of_level(survival, level)
        found = counted(seen, take, guess, asked, Until(PARAMS.rounds, sharp=True))
        level.step = found.step
        if guess > PARAMS.ring_most:
            return found.posterior
        chased = self._ring(survival, found)
        low = found.posterior.interval(CONFIDENCE)[0]
        # where sets fill up one by one fewer stay in a ring than the table holds
        return chased if chased.value >= (1 - PARAMS.uneven) * low else found.posterior

    def _of_level(self, survival: Survival, level: _Level) -> Samples:
        """Samples about one level's step, without what the others' make of them."""
        levels = self._levels
        index = levels.index(level)
        low = 0.0 if index == 0 else 1.2 * levels[0].step.quantile(0.98)
        high = 3.0 * level.guess
        if index == 0 and len(levels) > 1:
            high = min(high, max(0.8 * levels[1].step.quantile(0.05), 1.6 * level.guess))
        others = [each.step for each in levels if each is not level]
        return self._samples(survival).without(others).within(low, high)

    def _ring(self, survival: Survival, found: Table) -> Posterior:
        """The most pages of a ring that all stay."""
        low, high = found.posterior.interval(0.998)
        low, high = int(low / PARAMS.ring_reach), min(int(high * PARAMS.ring_reach) + 1, survival.most_in_ring)
        low = max(low, 2)

        def ask(pages: int) -> tuple[int, int]:
            return int(survival.ring(pages) > PARAMS.ring_rise * found.step.height), 1

        if high <= low:
            return found.posterior
        return search(ask, Trials(list(range(low, high + 1))), SearchParams()).posterior

    # -- costs ---------------------------------------------------------------------------------------------------------

    def _between(self) -> list[int]:
        """Numbers of other pages before the first step, behind it, and behind the second one."""
        steps = [level.step for level in self._levels]
        counts = [PARAMS.surely_kept * steps[0].entries]
        behind = 1.2 * steps[0].quantile(0.98)
        if len(steps) > 1:
            counts.append(np.sqrt(behind * max(0.8 * steps[1].quantile(0.02), behind)))
            counts.append(1.2 * steps[1].quantile(0.98))
        else:
            counts.append(2.0 * behind)
        return [int(np.clip(each - self._targets, 1, self._reach)) for each in counts]

    def _cost(self, survival: Survival) -> None:
        """At one moment."""
        counts = self._between()
        draws = {others: self._draws(others, PARAMS.most_draws) for others in counts}
        found = {others: survival.stream(others, number).tolist() for others, number in draws.items()}
        steps = [level.step for level in self._levels]
        fitted = heights(samples(found, self._targets, survival.fraction), steps)
        for level, cost in zip(self._levels, np.cumsum(fitted).tolist(), strict=True):
            level.costs.append(cost)

    # -- pages of one entry --------------------------------------------------------------------------------------------

    def _sharing(self, survival: Survival) -> int:
        """In how many pages in a row one has to be used for each to have an entry of its own. Right behind a neighbour
        that shares an entry of the first TLB a page costs nothing, and later, behind one that shares an entry of the
        second, what it costs as long after its own use. A walk costs less behind a neighbour, too."""
        others, lost = min(PARAMS.most, survival.most), PARAMS.most_first
        second = survival.stream(lost, COUNTING.draws).mean() + PARAMS.walk_cycles
        distance = 1
        while distance < PARAMS.most_shared:
            soon, later = (survival.neighbours(distance, others, each, COUNTING.draws).mean() for each in (0, lost))
            if soon > PARAMS.walk_cycles / 2 and later > second:
                break
            distance *= 2
        return distance

    def _count_sharing(self, survival: Survival) -> None:
        """How many pages share an entry of each level: of the second one, when the first has lost it again."""
        between = self._between()
        low = 0.0
        for number, level in enumerate(self._levels):
            high = float(level.cost.value)
            level.shared.append(self._shared(survival, 0 if number == 0 else between[1], between[-1], (low + high) / 2))
            low = high

    def _shared(self, survival: Survival, between: int, others: int, limit: float) -> int | None:
        """Pages of one entry, if an access costs less than `limit` where a page of its entry was used."""
        distance = 1
        while distance <= PARAMS.most_shared:
            cycles = survival.neighbours(distance, others + between, between, 3)
            error = float(cycles.std(ddof=1)) / np.sqrt(len(cycles))
            if abs(cycles.mean() - limit) < 3 * error:
                return None
            if cycles.mean() > limit:
                break
            distance *= 2
        return distance

    def _count_side_tables(self, survival: Survival) -> None:
        first, *behind = self._levels
        self._apart.append(count_stores(self._stores, survival, first.step.quantile(0.98), float(first.cost.value)))
        if behind and self.name == "4k":
            count_walk_cache(self._walks, survival, behind[0].step.quantile(SIDE.all_lost))

    # -- what follows --------------------------------------------------------------------------------------------------

    def findings(self, other: Tlbs | None = None) -> Iterator[Finding]:
        """Of both levels; `other` are those of the other size of pages."""
        if not self._levels:
            yield from _unknown(self.name, f"no step up to {self._reach} pages")
            return
        for name, level in zip(("l1", "l2"), self._levels, strict=False):
            yield self._entries_finding(name, level, other)
            yield self._cost_finding(name, level)
            if self.name == "4k":
                yield self._shared_finding(name, level)
        if len(self._levels) == 1:
            yield from self._without_second(None if self.name == "4k" else other)
        yield self._store_finding()
        if self.second is not None and self.name == "4k":
            yield self._walks.entries_finding("tlb.walk_cache.entries", METHOD)
            if self._walks.posteriors and not self._walks.without:
                yield decide.measured("tlb.walk_cache.miss_penalty", self._walks.cost, "cycles", METHOD)

    def _store_finding(self) -> Finding:
        parameter = f"tlb.l1.store_entries.{self.name}"
        if set(self._apart) == {False}:
            why = "stores lose their translations as loads do"
            return _absent(parameter, why)
        if set(self._apart) == {True}:
            return self._stores.entries_finding(parameter, METHOD)
        reason = "whether stores have translations of their own is not clear; run again at a quieter time"
        return decide.unresolved(parameter, "entries", reason, METHOD)

    @property
    def _evidence(self) -> str:
        return f"tlb_{self.name}"

    def _entries_finding(self, name: str, level: _Level, other: Tlbs | None) -> Finding:
        parameter = f"tlb.{name}.entries.{self.name}"
        if level is self.second and not self._alike(other):
            reason = "pages that lie further apart find another number; more than translations of pages take entries"
            return self._at_least(parameter, level.least, reason)
        doubt = "" if level.steady else "a miss does not cost the same each time"
        return decide.backed(level.finding(parameter, METHOD, doubt), self._evidence)

    def _alike(self, other: Tlbs | None) -> bool:
        """Whether the second TLB has about the same number of entries in all looks, those at parts of large pages as
        well, which are in the same one. Dense pages find many where some share entries, sparse ones and small ones few
        where upper levels of the page tables, a guest's and its host's, take entries too."""
        same = [self, other] if other is not None and other.page_bytes == self.page_bytes else [self]
        ends = [each.interval(CONFIDENCE) for tlbs in same if tlbs.second for each in tlbs.second.posteriors]
        return max(low for low, _ in ends) <= (1 + PARAMS.alike) * min(high for _, high in ends)

    def _cost_finding(self, name: str, level: _Level) -> Finding:
        parameter, cost = f"tlb.{name}.miss_penalty.{self.name}", level.cost
        if not level.steady:
            reason = f"{cost.low:.0f} to {cost.high:.0f} cycles; run again at a quieter time"
            return decide.unresolved(parameter, "cycles", reason, METHOD)
        return decide.measured(parameter, cost, "cycles", METHOD, self._evidence)

    def _shared_finding(self, name: str, level: _Level) -> Finding:
        parameter, shared = f"tlb.{name}.pages_per_entry.{self.name}", set(level.shared)
        if len(shared) != 1 or None in shared:
            return decide.unresolved(parameter, "pages", "not the same each time; run again at a quieter time", METHOD)
        return decide.chosen(parameter, shared.pop(), "pages", METHOD, self._evidence)

    def _at_least(self, parameter: str, entries: int, reason: str) -> Finding:
        return decide.backed(decide.at_least(parameter, entries, "entries", reason, METHOD), self._evidence)

    def _without_second(self, small: Tlbs | None) -> Iterator[Finding]:
        """Where one step shows: is there a second TLB that holds more? A miss in the first one costs a walk where there
        is none; how much that is, small pages show."""
        entries, penalty = f"tlb.l2.entries.{self.name}", f"tlb.l2.miss_penalty.{self.name}"
        reason = f"no second step up to {self._reach} pages"
        doubt = f"{reason}; either it holds more, or there is none and its apparent answers are page walks"
        if small is None or small.first is None or small.second is None or self.first is None:
            yield decide.unresolved(entries, "entries", doubt, METHOD)
            yield decide.unresolved(penalty, "cycles", reason, METHOD)
            return
        own, hit, walk = (each.cost.value for each in (self.first, small.first, small.second))
        if own > walk - PARAMS.walk_cycles:
            why = "a miss in the first TLB costs as much as a page walk does for small pages"
            yield _absent(entries, why)
            return
        if own < hit + PARAMS.walk_cycles / 2:
            yield self._at_least(entries, self._reach, reason)
        else:
            yield decide.unresolved(entries, "entries", doubt, METHOD)
        yield decide.unresolved(penalty, "cycles", reason, METHOD)


def look_at_large_pages(context: Context, large: Tlbs | None, small: Tlbs) -> Tlbs | None:
    """The TLBs for 2 MiB pages, looked at once more; None where nothing can be asked of them. Where a hypervisor
    splinters them, their 4 KiB parts are what a TLB holds."""
    facts = context.machine.facts
    if HUGE_PAGE not in facts.page_sizes or small.first is None:
        return None
    context.progress("TLBs, large pages")
    if large is None:
        large = Tlbs(context, "2m", SMALL_PAGE if _splintered(context, small.first) else HUGE_PAGE)
    wanted = min(PARAMS.large_bytes, int(PARAMS.large_fraction * facts.memory_bytes)) // HUGE_PAGE * HUGE_PAGE
    whole = large.page_bytes == HUGE_PAGE
    region = context.machine.allocate(wanted if whole else PARAMS.parts_bytes, HUGE_PAGE, populate=not whole)
    try:
        large.look(region)
    finally:
        context.machine.release(region)
    return large


def _splintered(context: Context, first: _Level) -> bool:
    """Whether 4 KiB parts of large pages use up TLB entries one each."""
    region = context.machine.allocate(PARAMS.parts_bytes, HUGE_PAGE)
    try:
        survival = Survival(context, PageUnits(region=region, page_bytes=SMALL_PAGE), SurvivalParams())
        others = int(1.5 * first.step.quantile(0.98))
        found = bool(survival.stream(others, COUNTING.draws).mean() > first.cost.value / 2)
    finally:
        context.machine.release(region)
    context.evidence["splintered"] = found
    return found


def _absent(parameter: str, why: str) -> Finding:
    return msgspec.structs.replace(decide.absent(parameter, 0, "entries", METHOD), reason=why)


def unknown_large_pages() -> Iterator[Finding]:
    """Where the first TLB for small pages is not known, so that none can be asked for."""
    reason = "the first TLB for small pages is not known, so whether the system splinters large ones can't be decided"
    return _unknown("2m", reason)


def _unknown(pages: str, reason: str) -> Iterator[Finding]:
    for level in ("l1", "l2"):
        yield decide.unresolved(f"tlb.{level}.entries.{pages}", "entries", reason, METHOD)
        yield decide.unresolved(f"tlb.{level}.miss_penalty.{pages}", "cycles", reason, METHOD)

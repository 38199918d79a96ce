"""The caches behind the first: size, ways and index from which lines are still there while they are filled.

A set with an empty way takes a line there, and a full one stays full, whatever it replaces. So of lines that were
loaded once into an empty cache, the fraction that it lacks follows from its sets and ways alone: of each set what it
got beyond its ways. Sets get their lines by chance, so few ways overflow early and one by one, many late and together:
where the curve bends gives the lines, how sharply the ways. One posterior over sets, ways, whether the levels before
hold lines in addition, and what prefetchers and other users take.

Who shares more than a cache takes lines now and then: fillings are as short as independent loads make them, and where
lines go before their sets are full, or fillings differ by more than chance, there is only a bound.

Lines at the same offset of all pages share few sets unless bits of the page choose among all of them: a few lines of a
page overflow as soon as whole pages do, or the index is hashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.experiments.alone import PARAMS as ALONE
from setebench.experiments.alone import Alone
from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.traversals import AT_ONCE, Pages, fill, flush
from setebench.machine import Region
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.stats.decide import at_least, number_of, one_of, summed
from setebench.stats.estimate import CONFIDENCE

from .filling_model import Candidate, Curve, Known, ModelParams, binned, overflow, size_posterior

Numbers = NDArray[np.float64]
METHOD = "lines that are left while a cache is filled"

UNLIKELY = 1e-3
"""Posterior probability below which another way to measure is not believed either."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """How caches are filled, and which fillings count.

    Fillings begin at `first_ratio` times what the levels before hold and get twice as long until a fraction of `gone`
    is missing in the end, in `confirm` of them, since a disturbance takes lines as well; then others use `high` times
    the pages that fit: `draws`, then twice as many (`least_draws` if no more can be had), up to `most_draws`, until one
    answer has `settled` of the posterior: more than is asked of a finding, since to end when it happens to be sure is
    to choose by chance. Each stops `stops` times, or more often until one in `per_load` lines is timed (loads then cost
    as much as the filling); the means of `bins` parts of it count. `seconds` that each level may take, by what the
    machine says that lines cost its user and what misses cost, a timed one `timed_cost` times as much. Waiting for
    co-runners takes `patience` of what there is.

    Fillings count of which no part took `interrupted` times as long as a typical one. Of `few` lines of `further` times
    as many pages no more fit than of whole ones, within the first of `spread`, or the second one times as many if the
    index is a hash.

    Where no candidate explains a private cache, lines are loaded a second time after `again` times as many others as
    the first cache holds: some give up lines early that they saw used once.

    A load counts at most as `stall_ratio` times what memory takes: an interrupt is no level. A load missed if it takes
    `clear_share` of the way to memory longer than a hit (a cache behind that the sweep did not show takes a fifth of
    what memory does), of a private cache with another one behind it `private_share` of the way to that, and
    `clear_steps` of the clock. Where loads are clearly one or the other what all fractions may be off (`model`) is
    `clear` times as much; where they aren't, fractions err by
    `blurred` each, and a hit is what lines take of which `youngest` to `young` times as many were loaded since as the
    levels before hold. `blurred` rests on one guest, a Zen 4 with a step of 37 cycles, whose curves of 8 ways are as
    broad as those of 4 within that. Of 62 values of 31 simulated machines with such a clock 32, 21, 18 and 7 are
    measured with 0.003, 0.01, 0.025 and 0.05, none of them wrong.

    None of the candidates is it where the best leaves `most_left` times the squared errors that it should, or where
    fillings differ by `most_varied` times as much (squared) as pages drawn by chance and loads do; that rests on the
    same guest, of whose fillings 2.5 refused good ones: no answer of 48 simulated machines depends on it from 2.5
    upwards. A bound is then what was there in the part that says most, less `sigmas` errors and `margin`. Lines leave
    by age where `early_ratio` times as many are missing of the first third."""

    first_ratio: float = 2.0
    gone: float = 0.3
    confirm: int = 3
    high: float = 1.7
    draws: int = 12
    least_draws: int = 4
    most_draws: int = 192
    settled: float = 0.99
    stops: int = 24
    per_load: float = 20.0
    bins: int = 8
    seconds: float = 6.0
    timed_cost: float = 10.0
    patience: float = 0.05
    interrupted: float = 5.0
    few: int = 8
    again: float = 1.5
    further: float = 3.0
    spread: tuple[float, float] = (1.3, 2.0)
    stall_ratio: float = 1.3
    clear_share: float = 0.15
    private_share: float = 0.3
    clear_steps: float = 1.2
    clear: float = 0.3
    blurred: float = 0.025
    youngest: float = 1.2
    young: float = 3.0
    most_left: float = 6.0
    most_varied: float = 6.0
    sigmas: float = 3.0
    margin: float = 0.04
    early_ratio: float = 1.3
    model: ModelParams = field(default_factory=ModelParams)

    def on_this_clock(self, single_loads: bool) -> Params:
        """The same with errors of fractions as they are where the clock tells single loads apart, or doesn't."""
        model = self.model
        if single_loads:
            return replace(self, model=replace(model, offset=self.clear * model.offset, scale=self.clear * model.scale))
        return replace(self, model=replace(model, error=self.blurred))


@dataclass(frozen=True)
class OuterCache:
    """What was found of a level: the posteriors of its lines and ways, of both together and of its index, what it holds
    at least, and why it is not known better; `by_age` whether the lines loaded first are those that leave; `bound_only`
    where nothing says how many lines there are at most; `ways_counted` whether lines of one set were found, too."""

    name: str
    line: int
    lines: dict[int, float] = field(default_factory=dict)
    ways: dict[int, float] = field(default_factory=dict)
    both: dict[tuple[int, int], float] = field(default_factory=dict)
    index: dict[str, float] = field(default_factory=dict)
    least: int = 0
    by_age: bool = False
    reason: str = ""
    index_reason: str = "not asked"
    bound_only: bool = False
    ways_counted: bool = False

    def sure(self, confidence: float) -> bool:
        """Whether one size and one number of ways have so much of the posterior, and the index is decided if asked."""
        sizes = all(each and max(each.values()) >= confidence for each in (self.lines, self.ways))
        return sizes and max(self.index.values(), default=1.0) >= CONFIDENCE

    def with_ways(self, ways: int) -> OuterCache:
        """The same where so many ways are known to make a set, if what was found allows for them."""
        if not self.ways:
            return replace(self, ways={ways: 1.0}, ways_counted=True)
        if (likely := self.ways.get(ways, 0.0)) < UNLIKELY:
            return self
        lines = {n: p / likely for (n, each), p in self.both.items() if each == ways}
        return replace(self, lines=lines, ways={ways: 1.0}, ways_counted=True)

    @property
    def likely_lines(self) -> int:
        """The most probable number of lines, or the bound."""
        return max(self.lines, key=lambda each: self.lines[each]) if self.lines else self.least

    def findings(self) -> Iterator[Finding]:
        """Size, ways and index. What takes lines meanwhile makes a cache fill as one of fewer ways does, so how it
        fills gives no more than a bound of its ways."""
        size, ways = f"cache.{self.name}.size", f"cache.{self.name}.ways"
        found = number_of(size, {n * self.line: p for n, p in self.lines.items()}, "bytes", METHOD, self.reason)
        if found.value is None and self.least:
            found = at_least(size, self.least * self.line, "bytes", self.reason, METHOD)
        yield found
        counted = number_of(ways, self.ways, "ways", METHOD, self.reason)
        if counted.outcome is Outcome.MEASURED and not self.ways_counted:
            counted = at_least(ways, max(self.ways, key=lambda each: self.ways[each]), "ways", FEWER, METHOD)
        yield counted
        yield one_of(f"cache.{self.name}.index", self.index, "string", METHOD, self.index_reason)


@dataclass(frozen=True)
class Level:
    """Cycles of a level's hits and misses; of those before it, nearest first, how many lines more than the one before
    them they hold, and cycles. A load of more than `beyond` cycles missed, wherever it was served; one of more than
    `gone_from` where the clock tells single loads apart."""

    hit: float
    miss: float
    before: list[tuple[int, float]]
    beyond: float
    gone_from: float

    @property
    def single_loads(self) -> bool:
        """Whether the clock tells single loads apart."""
        return self.gone_from < np.inf


FEWER = "it fills as one of so many ways, or of more from which others take lines; no lines of one set were found"
UNEXPLAINED = "no cache that was thought of fills like this"


class Fillings:
    """Fillings of one level, and what they cost; lines are loaded a second time if they are `used_again`."""

    used_again = False

    def __init__(self, context: Context, region: Region, params: Params, level: Level) -> None:
        self.context, self._region, self.params, self.level = context, region, params, level
        self.page_lines = TLB_PAGE_BYTES // region.line_size
        self._rng = context.rng(50)
        self.alone = Alone(context, patience=params.patience, question="fillings")
        facts = context.machine.facts
        by_misses = facts.ticks_per_second * quick_cycles_per_tick(context) / level.miss
        self._young: list[float] = []
        self._left = params.seconds * min(facts.lines_per_second, by_misses)

    def stops(self, pages: int, few: int) -> tuple[int, int]:
        """How many pages between two stops of a filling of so many, and how many stops."""
        stops = max(self.params.stops, int(pages * few / AT_ONCE / self.params.per_load))
        each = max(1, pages // stops)
        return each, -(-pages // each // self.params.bins) * self.params.bins

    def fits(self, pages: float, few: int) -> bool:
        """Whether memory has room for a filling by so many lines of so many pages, which ends at a whole stop."""
        each, stops = self.stops(int(pages), few)
        return each * stops * TLB_PAGE_BYTES <= self._region.size

    def affordable(self, pages: float, few: int) -> int:
        """How many fillings by so many lines of so many pages fit into memory and time."""
        loads = self.params.timed_cost * AT_ONCE * self.stops(int(pages), few)[1]
        return int(self._left / (self._loads(pages, few) + loads)) if self.fits(pages, few) else 0

    def _loads(self, pages: float, few: int) -> float:
        """How many misses loads of so many lines of so many pages cost: the second ones hit the second cache."""
        second = [*(cycles for _, cycles in self.level.before), self.level.hit][1]
        return pages * few * (1.0 + self.used_again * second / self.level.miss)

    def fill(self, pages: float, few: int) -> Curve:
        """A filling by so many lines of so many pages."""
        each, stops = self.stops(int(pages), few)
        step = max(1, self.page_lines // few)
        # always the same ones: what prefetchers bring beside them stays in other sets
        offsets = np.arange(few) * step + max(0, step // 2 - 1)
        cost = self._loads(each * stops, few) + self.params.timed_cost * AT_ONCE * stops
        pauses = cost * self.level.miss / ALONE.pause_cycles
        later = int(self.params.again * self.level.before[0][0] / few) if self.used_again else 0
        work = partial(fill, self.context, self._region, offsets, Pages(each, stops, later), self._rng)
        filled = self.alone.run(work, pauses=lambda _: pauses)
        self._left -= cost
        level, until, young = self.level, filled.pages[:, None, None], np.zeros(0)
        gone = (filled.cycles - level.hit) / (level.miss - level.hit)
        gone[filled.cycles > level.beyond] = 1.0
        if level.single_loads:
            # load by load: what answers between a hit and memory, a cache of memory say, is a miss
            gone = (filled.cycles > level.gone_from).astype(np.float64)
        else:  # lines that the levels before still hold take less than a hit; a hit is what the next older ones take
            inner, age = sum(each for each, _ in level.before), until * few - filled.place
            young = gone[(age > self.params.youngest * inner) & (age < self.params.young * inner)]
            for nearer, cycles in level.before:
                held = np.minimum(1.0, nearer / (until * self.page_lines))
                gone += held * (level.hit - cycles) / (level.miss - level.hit)
        bins = gone.reshape(self.params.bins, -1, 2)
        missing = bins.mean(axis=(1, 2))
        one, other = (gone.reshape(stops, -1, 2, 2)[:, :, :, n] for n in (0, 1))  # lines, by page of two as old
        both = (one * other).mean() - (one[:, :, 0] * other[:, :, 1] + one[:, :, 1] * other[:, :, 0]).mean() / 2
        last = slice(-(stops // self.params.bins), None)
        early = gone[last][filled.place[last] < until[last] * few / 3]
        return Curve(
            filled.pages.astype(np.float64),
            missing,
            bins.mean(axis=2).std(axis=1) / bins.shape[1] ** 0.5,
            float(early.mean()) if early.size else 0.0,
            float(both),
            float(young.mean()) if young.size else 0.0,
            filled.longest,
        )

    def grown(self, pages: float, few: int) -> Curve | None:
        """The last of fillings that get longer until a fraction is missing in the end."""
        found = None
        while self.affordable(pages, few) and (found is None or found.missing[-1] < self.params.gone):
            self.context.progress(f"{int(pages) * TLB_PAGE_BYTES >> 10} KiB filled")
            found = self.least(pages, few, self.params.gone)
            pages *= 2
        return found

    def least(self, pages: float, few: int, gone: float = 0.0) -> Curve:
        """Of fillings of that length, the one that lacks least in the end: the first below `gone`, or of several, as
        who disturbs a filling only takes lines. What young lines seem to lack is taken off."""
        found: list[Curve] = []
        while not found or (
            found[-1].missing[-1] - float(np.mean(self._young)) >= gone
            and len(found) < self.params.confirm
            and self.affordable(pages, few) > self.params.draws
        ):
            found.append(self.fill(pages, few))
            self._young.append(found[-1].young)
        least = min(found, key=lambda each: each.missing[-1])
        young = float(np.mean(self._young))
        return replace(least, missing=least.missing - young, young=young)


def _level(context: Context, name: str, held: list[int], params: Params) -> Level:
    names, cycles = (list(each) for each in zip(*context.calibration.level_cycles.items(), strict=True))
    at = names.index(name)
    beyond = params.stall_ratio * cycles[at + 1] if at + 2 >= len(cycles) else (cycles[at + 1] + cycles[at + 2]) / 2
    step, gap = step_ticks(context) * quick_cycles_per_tick(context), cycles[at + 1] - cycles[at]
    fraction = params.private_share if at == 1 and at + 2 < len(cycles) else params.clear_share
    least = max(fraction * gap, params.clear_steps * step)
    apart = params.clear_steps * step < gap / 2
    before = list(zip(np.diff([0, *held]).tolist(), cycles[:at], strict=True))
    return Level(cycles[at], cycles[at + 1], before, beyond, cycles[at] + least if apart else np.inf)


def outer_cache(context: Context, region: Region, level: str, before: list[OuterCache], params: Params) -> OuterCache:
    """Measure a level; the caches `before` it, nearest first, are known as far as they were found."""
    context.progress(f"how {level} fills")
    held, plain = [each.likely_lines for each in before], OuterCache(level, region.line_size)
    cycles = _level(context, level, held, params)
    known = Known(held, TLB_PAGE_BYTES // region.line_size)
    flush(context, region)
    fillings = Fillings(context, region, params.on_this_clock(cycles.single_loads), cycles)
    found = _filled(fillings, plain, known)
    if found.reason != UNEXPLAINED or known.shared:
        return found
    fillings = Fillings(context, region, fillings.params, cycles)
    fillings.used_again = True
    again = _filled(fillings, plain, known)
    why = "lines that are used a second time stay longer, so how sets fill up says nothing of ways"
    return replace(again, ways={}, reason=why) if again.lines else found


def _filled(fillings: Fillings, plain: OuterCache, known: Known) -> OuterCache:
    """What fillings of a level say; `plain` has its name."""
    context, params, held = fillings.context, fillings.params, known.held
    grown = fillings.grown(params.first_ratio * sum(held) / fillings.page_lines, fillings.page_lines - 1)
    if grown is None:
        return replace(plain, reason="too little time or memory to fill it", bound_only=True)
    bound = replace(plain, least=_least(grown, known, params), bound_only=True)
    if grown.missing[-1] < params.gone:
        return replace(bound, reason="nothing outgrew it")
    found, draws = _drawn(fillings, params.high * grown.fitting, plain, known)
    if not draws:
        return replace(bound, reason="too little time or memory to fill it often")
    counted = _undisturbed(draws, params)
    context.evidence[f"{plain.name}_fillings"] = {
        "pages": draws[0].pages[:: max(1, len(draws[0].pages) // params.bins)].tolist(),
        "missing": [each.missing.round(4).tolist() for each in draws],
        "error": [each.error.round(4).tolist() for each in draws],
        "together": [round(each.together, 4) for each in draws],
        "counted": len(counted),
        "beside_co_runner": round(fillings.alone.co_runner_fraction, 3),
    }
    if fillings.alone.co_runner_fraction > ALONE.most_beside:
        why, least = "a co-runner may have used a part of it", _least(_mean(counted), known, params)
        return replace(plain, by_age=found.by_age, index_reason=why, least=least, reason=why)
    if found.index.get("linear", 0.0) > found.index.get("hashed", 0.0):
        found = _indexed(fillings, found, _mean(counted))
    return found


def _indexed(fillings: Fillings, found: OuterCache, whole: Curve) -> OuterCache:
    """The same of a cache whose index seems linear, with what few lines of each page say of that: they overflow it as
    soon as whole pages do, or lie in more sets."""
    params, pages = fillings.params, fillings.params.further * whole.pages[-1]
    if not fillings.fits(pages, params.few):
        return replace(found, index={}, index_reason="too little memory for few lines of many pages")
    few = [fillings.fill(pages, params.few) for _ in range(params.confirm)]
    there = few[0].mean_pages * (1.0 + whole.young - np.mean([each.missing for each in few], axis=0))
    ratio = float(there[params.bins // 2 :].mean()) / whole.fitting
    if not fillings.level.single_loads:
        return replace(found, index={}, index_reason="the clock doesn't tell single loads of few lines apart")
    if ratio > params.spread[1]:
        return replace(found, index={"hashed": 1.0})
    if ratio > params.spread[0]:
        why = f"few lines of each page lie in {ratio:.1f} times as many sets as whole pages"
        return replace(found, index={}, index_reason=why)
    return found


def _drawn(fillings: Fillings, pages: float, plain: OuterCache, known: Known) -> tuple[OuterCache, list[Curve]]:
    """What fillings by so many pages say of a level, as many as it takes, and these."""
    params, whole, found = fillings.params, fillings.page_lines - 1, plain
    draws: list[Curve] = []
    counted: list[Curve] = []
    while not found.sure(params.settled) and len(counted) < params.most_draws:
        more = min(max(params.draws, len(draws)), fillings.affordable(pages, whole))
        if more < params.least_draws:
            break
        draws += [fillings.fill(pages, whole) for _ in range(more)]
        counted = _undisturbed(draws, params)
        if _mean(counted).missing[-1] < params.gone:  # what looked like the cache's end was a disturbance
            pages, draws = params.high * pages, []
            continue
        found = _inferred(plain, counted, known, params)
        if fillings.alone.co_runner_fraction > ALONE.most_beside:
            break
    return found, draws


def _undisturbed(draws: list[Curve], params: Params) -> list[Curve]:
    """Fillings that nothing interrupted."""
    return [each for each in draws if each.longest < params.interrupted] or draws


def _mean(draws: list[Curve]) -> Curve:
    """Of fillings of the same length."""
    missing, error = (np.array([getattr(each, name) for each in draws]) for name in ("missing", "error"))
    names = ("early", "together", "young", "longest")
    early, together, young, longest = (float(np.mean([getattr(each, name) for each in draws])) for name in names)
    error = np.maximum((error**2).mean(axis=0) ** 0.5, missing.std(axis=0)) / len(draws) ** 0.5
    return Curve(draws[0].pages, missing.mean(axis=0) - young, error, early, together, young, longest)


def _least(curve: Curve, known: Known, params: Params) -> int:
    """How many lines there are at least, beside those that the levels before hold."""
    there = (curve.mean_pages * (1.0 - curve.missing - params.sigmas * curve.error)).max() * known.page_lines
    return max(0, int(there * (1.0 - params.margin)) - sum(known.held))


def _inferred(plain: OuterCache, draws: list[Curve], known: Known, params: Params) -> OuterCache:
    """What fillings of the same length say; `plain` has the name."""
    mean = _mean(draws)
    plain = replace(plain, by_age=mean.early > min(1.0, params.early_ratio * float(mean.missing[-1])))
    young = float(np.std([each.young for each in draws])) / len(draws) ** 0.5
    model = replace(params.model, offset=float(np.hypot(params.model.offset, young)))
    posterior, left = size_posterior(mean, len(draws), known, model)
    best = max(posterior, key=lambda each: posterior[each])
    if left > params.most_left:
        return replace(plain, least=_least(mean, known, params), reason=UNEXPLAINED)
    if _varied(draws, best, known, params) > params.most_varied:
        why = "fillings differ by more than chance: others use it"
        return replace(plain, least=_least(mean, known, params), reason=why)
    lines, ways = summed(posterior, lambda each: each.lines), summed(posterior, lambda each: each.ways)
    both = summed(posterior, lambda each: (each.lines, each.ways))
    found = replace(plain, lines=lines, ways=ways, both=both)
    together = np.array([each.together for each in draws])
    index = _index(together, _least_together(mean.pages, best, known.page_lines))
    if known.shared and index["linear"] > index["hashed"]:
        return replace(found, index_reason="bits of a page may choose sets or a slice for all of its lines alike")
    return replace(found, index=index)


def _varied(draws: list[Curve], best: Candidate, known: Known, params: Params) -> float:
    """The variance of fillings over that which pages drawn by chance and single loads make."""
    put = draws[0].some(params.model.parts)
    _, covariance = overflow(put, best.sets / known.page_lines, np.array([best.ways]))
    by_chance = binned(covariance[0] / put[:, None] / put[None, :], params.bins).diagonal()
    by_chance = by_chance + np.mean([each.error**2 for each in draws], axis=0)
    return float(np.var([each.missing for each in draws], axis=0).sum() / by_chance.sum())


def _index(together: Numbers, least: float) -> dict[str, float]:
    """Whether two lines of a page share sets with lines of the same pages, by how often both are gone beyond chance in
    each filling, which is nought with a hash and at `least` so much without."""
    mean, error = float(together.mean()), float(together.std()) / max(1, len(together) - 1) ** 0.5 + least / 5
    likely = {"linear": stats.norm.pdf(mean, max(mean, least), error), "hashed": stats.norm.pdf(mean, 0.0, error)}
    total = sum(likely.values())
    return {each: float(weight / total) for each, weight in likely.items()}


def _least_together(pages: Numbers, found: Candidate, page_lines: int) -> float:
    """How often both of two lines are gone beyond chance if any of a set's is as likely to go, mean over all stops."""
    mean = pages[:, None] * page_lines / found.sets
    count = np.arange(1, int(mean.max() + 10 * mean.max() ** 0.5) + found.ways)[None, :]
    chance = stats.poisson.pmf(count - 1, mean)
    gone = np.maximum(count - found.ways, 0) / count
    return float(((chance * gone**2).sum(axis=1) - (chance * gone).sum(axis=1) ** 2).mean())

"""The caches behind the first: size, ways and index from which lines are still there while they are filled.

A set with an empty way takes a line there, and a full one stays full, whatever it replaces. So of lines that were
loaded once into an empty cache, the fraction that it lacks follows from its sets and ways alone: of each set what it
got beyond its ways. Sets get their lines by chance, so few ways overflow early and one by one, many late and together:
where the curve bends gives the lines, how sharply the ways. One posterior over sets, ways, whether the levels before
hold lines in addition, and what prefetchers and other users take.

Who shares more than a cache takes lines now and then: fillings are as short as independent loads make them, those that
differ from most don't count, and what is lost with age is a part of the model.

Lines at the same offset of all pages share few sets unless bits of the page choose among all of them: a few lines of a
page overflow as soon as whole pages do, or the index is hashed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from setebench.experiments.alone import PARAMS as ALONE
from setebench.experiments.alone import Alone
from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.traversals import AT_ONCE, fill, flush
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import at_least, number_of, one_of, summed
from setebench.stats.estimate import CONFIDENCE

Numbers = NDArray[np.float64]
METHOD = "lines that are left while a cache is filled"


@dataclass(frozen=True, kw_only=True)
class Params:
    """How caches are filled, and what is believed of errors.

    Fillings begin at `first_ratio` times what the levels before hold and get twice as long until a fraction of `gone`
    is missing in the end, in `confirm` of them, since a disturbance takes lines as well; then others use `high` times
    the pages that fit: `draws`, then twice as many (`least_draws` if no more can be had), up to `most_draws`, until one
    answer has `settled` of the posterior: more than is asked of a finding, since to end when it happens to be sure is
    to choose by chance. Each stops `stops` times, or more often until one in `per_load` lines is timed (loads then cost
    as much as the filling); the means of `bins` parts of it count, predicted at `parts` stops of each. Of fillings of
    which no part took `interrupted` times as long as a typical one, those count that are no more than `alike` times as
    far from the middle of the half that is most alike as that reaches: 2.5 standard deviations of a normal sample. Of
    `few` lines of `further` times as many pages no more fit than of whole ones, within the first of `spread`, or the
    second one times as many if the index is a hash. `seconds` that each level may take, by what the machine says that
    lines cost its user and what misses cost, a timed one `timed_cost` times as much. `memory` is how much of the region
    may be used. Waiting for co-runners takes `patience` of what there is.

    Candidates: `most_ways`; sets of a private cache are a power of two, of a shared one in slices one times a number
    up to `most_slices`, within the ratio `about` of the lines that were left. Up to `taken` of the room, in
    `taken_steps`, that others use, the less the more likely, mostly less than `usual_taken`. Of the lines that fit, up
    to `aged` (in `aged_steps`, mostly less than `usual_aged`) are lost while as many others are loaded: who shares a
    directory of lines with this core takes 5 to 25 % in a millisecond. How common other numbers of ways are beside
    powers of two, by their largest odd divisor: `odd_ways`, of shared caches `shared_ways` (those of parts that are
    sold), else `other`; and of slices, each: `odd_slices`. A slice among several has 2 to the `slice_power` sets or
    more. `error` of every mean fraction, `blurred` where the clock doesn't tell single loads apart (on a Zen 4 with a
    step of 37 cycles, curves of its 8 ways are as broad as those of 4 within that);
    `offset` and `scale` of all of them, since what hits and misses cost is known
    about, `clear` times as much where loads are clearly one or the other; where they aren't, a hit is what lines take
    of which `youngest` to `young` times as many were loaded since as the levels before hold. None of the candidates is
    it where the best leaves `most_left` times the squared errors that it should, or where fillings differ by
    `most_varied` times as much (squared) as pages drawn by chance and loads do; a bound is then what was there in the
    part that says most, less `sigmas` errors and `margin`. Lines leave by age where `early_ratio` times as many are
    missing of the first third. A load counts at most as `stall_ratio` times what memory takes: an interrupt is no
    level. Of a shared cache a load missed if it takes `clear_share` of the way to memory longer than a hit, of a
    private one `private_share` (memory whose row is open answers sooner than it mostly does), and `clear_steps` of the
    clock."""

    first_ratio: float = 2.0
    gone: float = 0.3
    high: float = 1.7
    draws: int = 12
    least_draws: int = 4
    settled: float = 0.99
    most_draws: int = 192
    stops: int = 24
    per_load: float = 20.0
    bins: int = 8
    parts: int = 3
    few: int = 8
    further: float = 3.0
    spread: tuple[float, float] = (1.3, 2.0)
    seconds: float = 6.0
    timed_cost: float = 10.0
    memory: float = 0.8
    patience: float = 0.05
    most_ways: int = 32
    most_slices: int = 63
    about: float = 1.6
    taken: float = 0.09
    taken_steps: int = 4
    usual_taken: float = 0.015
    aged: float = 0.5
    aged_steps: int = 6
    usual_aged: float = 0.1
    odd_ways: tuple[tuple[int, float], ...] = ((1, 1.0), (3, 0.3), (5, 0.3))
    shared_ways: tuple[tuple[int, float], ...] = ((1, 1.0), (3, 0.3), (5, 0.3), (7, 0.1), (11, 0.1), (15, 0.1))
    other: float = 0.01
    odd_slices: float = 0.2
    slice_power: int = 11
    error: float = 0.003
    offset: float = 0.01
    scale: float = 0.04
    clear: float = 0.3
    blurred: float = 0.025
    most_left: float = 6.0
    most_varied: float = 6.0
    sigmas: float = 3.0
    margin: float = 0.04
    early_ratio: float = 1.3
    stall_ratio: float = 1.3
    confirm: int = 3
    alike: float = 3.7
    interrupted: float = 5.0
    youngest: float = 1.2
    young: float = 3.0
    clear_share: float = 0.15
    private_share: float = 0.3
    clear_steps: float = 1.2


@dataclass(frozen=True)
class Curve:
    """Of a filling, by how many pages were used, shape (stops,): the fraction of lines that a cache and those before it
    lack and its error, of parts of it, shape (bins,); the fraction of those loaded first (a third of all) in the end;
    how often both of two lines of a page are gone, beyond that of lines of two pages as old; what young lines seem to
    lack, which are all there; and how many times as long as a typical part of it the longest one took."""

    pages: Numbers
    missing: Numbers
    error: Numbers
    early: float
    together: float
    young: float
    longest: float

    @property
    def fitting(self) -> float:
        """About how many pages fit: the most that are there in some parts one after the other."""
        there = self.pages.reshape(len(self.missing), -1).mean(axis=1) * (1.0 - self.missing)
        return float(np.convolve(there, np.full(3, 1 / 3), "valid").max())

    def some(self, parts: int) -> Numbers:
        """How many pages there are at so many stops of each part, which stand for all."""
        count = len(self.missing) * parts
        found: Numbers = self.pages[-1] * (np.arange(count) + 0.5) / count + self.pages[0] / 2
        return found


@dataclass(frozen=True)
class Candidate:
    """A cache of so many sets and ways; `before` lines are held by the levels before in addition."""

    sets: int
    ways: int
    before: int

    @property
    def lines(self) -> int:
        """How many it holds."""
        return self.sets * self.ways


@dataclass(frozen=True)
class OuterCache:
    """What was found of a level: the posteriors of its lines, ways and index, what it holds at least, and why it is not
    known better; `by_age` whether the lines loaded first are those that leave; `bound_only` where nothing says how many
    lines there are at most."""

    name: str
    line: int
    lines: dict[int, float] = field(default_factory=dict)
    ways: dict[int, float] = field(default_factory=dict)
    index: dict[str, float] = field(default_factory=dict)
    least: int = 0
    by_age: bool = False
    reason: str = ""
    index_reason: str = "not asked"
    bound_only: bool = False

    def sure(self, confidence: float) -> bool:
        """Whether one size and one number of ways have so much of the posterior, and the index is decided if asked."""
        sizes = all(each and max(each.values()) >= confidence for each in (self.lines, self.ways))
        return sizes and max(self.index.values(), default=1.0) >= CONFIDENCE

    @property
    def likely_lines(self) -> int:
        """The most probable number of lines, or the bound."""
        return max(self.lines, key=lambda each: self.lines[each]) if self.lines else self.least

    def findings(self) -> Iterator[Finding]:
        """Size, ways and index."""
        size, ways = f"cache.{self.name}.size", f"cache.{self.name}.ways"
        found = number_of(size, {n * self.line: p for n, p in self.lines.items()}, "bytes", METHOD, self.reason)
        if found.value is None and self.least:
            found = at_least(size, self.least * self.line, "bytes", self.reason, METHOD)
        yield found
        yield number_of(ways, self.ways, "ways", METHOD, self.reason)
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


class Fillings:
    """Fillings of one level, and what they cost."""

    def __init__(self, context: Context, region: Region, params: Params, level: Level) -> None:
        self._context, self._region, self.params, self.level = context, region, params, level
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

    def affordable(self, pages: float, few: int) -> int:
        """How many fillings by so many lines of so many pages fit into memory and time."""
        loads = self.params.timed_cost * AT_ONCE * self.stops(int(pages), few)[1]
        room = self.params.memory * self._region.size / TLB_PAGE_BYTES
        return int(self._left / (pages * few + loads)) if pages < room else 0

    def fill(self, pages: float, few: int) -> Curve:
        """A filling by so many lines of so many pages."""
        each, stops = self.stops(int(pages), few)
        step = max(1, self.page_lines // few)
        # always the same ones: what prefetchers bring beside them stays in other sets
        offsets = np.arange(few) * step + max(0, step // 2 - 1)
        cost = each * stops * few + self.params.timed_cost * AT_ONCE * stops
        pauses = cost * self.level.miss / ALONE.pause_cycles
        work = partial(fill, self._context, self._region, offsets, (each, stops), self._rng)
        filled = self.alone.run(work, pauses=lambda _: pauses)
        self._left -= cost
        level, until, young = self.level, filled.pages[:, None, None], np.zeros(0)
        gone = (filled.cycles - level.hit) / (level.miss - level.hit)
        gone[filled.cycles > level.beyond] = 1.0
        if level.gone_from < np.inf:
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
            self._context.progress(f"{int(pages) * TLB_PAGE_BYTES >> 10} KiB filled")
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
    least = max((params.clear_share if at > 1 else params.private_share) * gap, params.clear_steps * step)
    apart = params.clear_steps * step < gap / 2
    before = list(zip(np.diff([0, *held]).tolist(), cycles[:at], strict=True))
    return Level(cycles[at], cycles[at + 1], before, beyond, cycles[at] + least if apart else np.inf)


def outer_cache(context: Context, region: Region, level: str, before: list[OuterCache], params: Params) -> OuterCache:
    """Measure a level; the caches `before` it, nearest first, are known as far as they were found."""
    context.progress(f"how {level} fills")
    held = [each.likely_lines for each in before]
    cycles = _level(context, level, held, params)
    if cycles.gone_from < np.inf:
        params = replace(params, offset=params.clear * params.offset, scale=params.clear * params.scale)
    else:
        params = replace(params, error=params.blurred)
    fillings = Fillings(context, region, params, cycles)
    flush(context, region)
    grown = fillings.grown(params.first_ratio * sum(held) / fillings.page_lines, fillings.page_lines - 1)
    plain = OuterCache(level, region.line_size)
    if grown is None:
        return replace(plain, reason="too little time or memory to fill it", bound_only=True)
    least = _least(grown, held if len(before) > 1 else held[-1:], fillings.page_lines, params)
    if grown.missing[-1] < params.gone:
        return replace(plain, least=least, reason="nothing outgrew it", bound_only=True)
    found, draws = _drawn(fillings, params.high * grown.fitting, plain, held)
    if not draws:
        return replace(plain, least=least, reason="too little time or memory to fill it often", bound_only=True)
    counted = _undisturbed(draws, params)
    context.evidence[f"{level}_fillings"] = {
        "pages": draws[0].pages[:: max(1, len(draws[0].pages) // params.bins)].tolist(),
        "missing": [each.missing.round(4).tolist() for each in draws],
        "error": [each.error.round(4).tolist() for each in draws],
        "together": [round(each.together, 4) for each in draws],
        "counted": len(counted),
        "beside_co_runner": round(fillings.alone.co_runner_fraction, 3),
    }
    if fillings.alone.co_runner_fraction > ALONE.most_beside:
        why, there = "a co-runner may have used a part of it", _least(_mean(counted), held, fillings.page_lines, params)
        return replace(plain, by_age=found.by_age, index_reason=why, least=there, reason=why)
    if found.index.get("linear", 0.0) > found.index.get("hashed", 0.0):
        # few lines of each page overflow it as soon as whole pages do, or lie in more sets
        whole, pages = _mean(counted), params.further * draws[0].pages[-1]
        few = [fillings.fill(pages, params.few) for _ in range(params.confirm)]
        there = 1.0 + whole.young - np.mean([each.missing for each in few], axis=0)
        fits = few[0].pages.reshape(params.bins, -1).mean(axis=1) * there
        ratio = float(fits[params.bins // 2 :].mean()) / whole.fitting
        if cycles.gone_from == np.inf:
            found = replace(found, index={}, index_reason="the clock doesn't tell single loads of few lines apart")
        elif ratio > params.spread[1]:
            found = replace(found, index={"hashed": 1.0})
        elif ratio > params.spread[0]:
            why = f"few lines of each page lie in {ratio:.1f} times as many sets as whole pages"
            found = replace(found, index={}, index_reason=why)
    return found


def _drawn(fillings: Fillings, pages: float, plain: OuterCache, held: list[int]) -> tuple[OuterCache, list[Curve]]:
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
        found = _inferred(plain, counted, (held, fillings.page_lines), params)
        if fillings.alone.co_runner_fraction > ALONE.most_beside:
            break
    return found, draws


def _undisturbed(draws: list[Curve], params: Params) -> list[Curve]:
    """Fillings that nothing interrupted, but those that lack much more or less than the half of them that is most
    alike: others who take lines for a while take them from some."""
    draws = [each for each in draws if each.longest < params.interrupted] or draws
    lacking = np.array([each.missing.mean() for each in draws])
    ordered, half = np.sort(lacking), len(draws) // 2
    widths = ordered[half:] - ordered[: len(draws) - half]
    low, width = ordered[widths.argmin()], widths.min()
    far = np.abs(lacking - low - width / 2) / max(width / 2, 1e-9)
    return [each for each, one in zip(draws, far, strict=True) if one < params.alike]


def _mean(draws: list[Curve]) -> Curve:
    """Of fillings of the same length."""
    missing, error = (np.array([getattr(each, name) for each in draws]) for name in ("missing", "error"))
    names = ("early", "together", "young", "longest")
    early, together, young, longest = (float(np.mean([getattr(each, name) for each in draws])) for name in names)
    error = np.maximum((error**2).mean(axis=0) ** 0.5, missing.std(axis=0)) / len(draws) ** 0.5
    return Curve(draws[0].pages, missing.mean(axis=0) - young, error, early, together, young, longest)


def _least(curve: Curve, held: list[int], page_lines: int, params: Params) -> int:
    """How many lines there are at least, beside those that the levels before hold."""
    pages = curve.pages.reshape(len(curve.missing), -1).mean(axis=1)
    there = (pages * (1.0 - curve.missing - params.sigmas * curve.error)).max() * page_lines
    return max(0, int(there * (1.0 - params.margin)) - sum(held))


def _inferred(plain: OuterCache, draws: list[Curve], known: tuple[list[int], int], params: Params) -> OuterCache:
    """What fillings of the same length say; `plain` has the name, `known` are lines of the levels before and of a
    page."""
    mean, (held, page_lines), shared = _mean(draws), known, len(known[0]) > 1
    by_age = mean.early > min(1.0, params.early_ratio * float(mean.missing[-1]))
    young = float(np.std([each.young for each in draws])) / len(draws) ** 0.5
    params = replace(params, offset=float(np.hypot(params.offset, young)))
    posterior, left = size_posterior(mean, len(draws), (held, page_lines), params)
    if left > params.most_left:
        least = _least(mean, held if shared else held[-1:], page_lines, params)
        return replace(plain, least=least, by_age=by_age, reason="no cache that was thought of fills like this")
    best = max(posterior, key=lambda each: posterior[each])
    put = mean.some(params.parts)
    _, covariance = overflow(put, best.sets / page_lines, np.array([best.ways]))
    by_chance = _binned(covariance[0] / put[:, None] / put[None, :], params.bins).diagonal()
    by_chance = by_chance + np.mean([each.error**2 for each in draws], axis=0)
    if np.var([each.missing for each in draws], axis=0).sum() > params.most_varied * by_chance.sum():
        least = _least(mean, held if shared else held[-1:], page_lines, params)
        return replace(plain, least=least, by_age=by_age, reason="fillings differ by more than chance: others use it")
    lines, ways = summed(posterior, lambda each: each.lines), summed(posterior, lambda each: each.ways)
    found = replace(plain, lines=lines, ways=ways, by_age=by_age)
    together = np.array([each.together for each in draws])
    index = _index(together, _least_together(mean.pages, best, page_lines))
    if shared and index["linear"] > index["hashed"]:
        return replace(found, index_reason="bits of a page may choose sets or a slice for all of its lines alike")
    return replace(found, index=index)


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


def overflow(pages: Numbers, classes: float, ways: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """How many pages' lines are beyond the ways of their sets, where each page has a line in one class of sets, and the
    covariance of these numbers among stops of a filling; shapes (ways, stops) and (ways, stops, stops)."""
    mean = pages / classes
    count = np.arange(int(mean.max() + 8 * mean.max() ** 0.5 + ways.max() + 8))
    beyond = np.maximum(count[None, :] - ways[:, None], 0)
    factorial, rest = special.gammaln(count + 1)[:, None], np.round(pages)[None, :] - count[:, None]
    binomial = special.gammaln(np.round(pages) + 1) - factorial - special.gammaln(np.maximum(rest, 0) + 1)
    binomial += special.xlogy(count, 1.0 / classes)[:, None] + special.xlogy(rest, 1.0 - 1.0 / classes)
    lost = classes * (beyond @ np.where(rest >= 0, np.exp(binomial), 0.0))
    chance = np.exp(special.xlogy(count[:, None], mean) - mean - factorial)
    first, second, full = beyond @ chance, beyond**2 @ chance, (count[None, :] >= ways[:, None]) @ chance
    number = np.arange(len(pages))
    low, high = np.minimum(number[:, None], number[None, :]), np.maximum(number[:, None], number[None, :])
    # what a class got until one stop and until a later one differs by Poisson increments; all classes together got
    # what was put in, so what follows from each class's number alone is taken off
    both = second[:, low] + (mean[high] - mean[low]) * first[:, low] - first[:, low] * first[:, high]
    return lost, classes * (both - mean[low] * full[:, low] * full[:, high])


def _binned(covariance: Numbers, bins: int) -> Numbers:
    """The covariance of the means of so many equal parts, of that of all stops, shape (..., stops, stops)."""
    shape = (*covariance.shape[:-2], bins, -1, bins, covariance.shape[-1] // bins)
    found: Numbers = covariance.reshape(shape).mean(axis=(-3, -1))
    return found


def _between(at: Numbers, values: Numbers, wanted: Numbers) -> Numbers:
    """Rows of values at growing places, shape (rows, places), at other ones; nought at 0."""
    at, values = np.append(0.0, at), np.pad(values, ((0, 0), (1, 0)))
    last = np.clip(np.searchsorted(at, wanted), 1, len(at) - 1)
    part = (wanted - at[last - 1]) / (at[last] - at[last - 1])
    found: Numbers = values[:, last - 1] * (1.0 - part) + values[:, last] * part
    return found


def _sets(shared: bool, page_lines: int, params: Params) -> Iterator[tuple[int, float]]:
    """Numbers of sets, and how common they are."""
    for odd in range(1, params.most_slices + 1 if shared else 2, 2):
        for power in range(params.slice_power if odd > 1 else page_lines.bit_length() - 1, 24):
            yield odd << power, params.odd_slices if odd > 1 else 1.0


def size_posterior(
    curve: Curve, fillings: int, known: tuple[list[int], int], params: Params
) -> tuple[dict[Candidate, float], float]:
    """The posterior of all candidates by the mean curve of so many fillings, and the squared errors that the best
    leaves of each part of it; `known` are lines of the levels before and of a page."""
    (held, page_lines), bins, mean = known, len(curve.missing), curve.missing
    pages = curve.some(params.parts)
    about = curve.fitting * page_lines
    error = curve.error**2 + params.error**2
    ways = np.arange(2, params.most_ways + 1)
    taken, nearer = np.linspace(0.0, params.taken, params.taken_steps), held[-1] / page_lines
    ages = np.linspace(0.0, params.aged, params.aged_steps)
    likely: dict[Candidate, list[float]] = {}
    usual = dict(params.shared_ways if len(held) > 1 else params.odd_ways)
    best = (-np.inf, np.inf)
    for sets, common in _sets(len(held) > 1, page_lines, params):
        for before, part in itertools.product({0, held[-1], sum(held)}, taken.tolist()):
            tried = ways[np.abs(np.log((ways * sets + before) / about)) < np.log(params.about)]
            if len(tried):
                # what the levels before hold, and what others take, is as if fewer or more pages were used
                put = pages * (1.0 + part)
                own = np.maximum(put - before / page_lines, 1.0)
                lost, covariance = overflow(np.append(own, nearer), sets / page_lines, tried)
                covariance = covariance[:, :-1, :-1] / (put[:, None] * put[None, :])
                covariance = _binned(covariance, bins)
                unlikely = np.log1p((part / params.usual_taken) ** 2)
                for overlap in (0.0, 1.0) if not before else (0.0,):
                    # the levels before may have what this one lost of the last lines
                    beyond = np.maximum(lost[:, :-1] - overlap * lost[:, -1:], 0.0)
                    for aged in ages.tolist():
                        # those that went by age left their ways to others
                        kept = special.exprel(-aged * put * page_lines / about)
                        there = kept - _between(own, beyond, own * kept) / put
                        gone = 1.0 - there.reshape(len(tried), bins, -1).mean(axis=2)
                        spread = covariance / fillings + np.diag(error) + params.offset**2
                        spread += params.scale**2 * gone[:, :, None] * gone[:, None, :]
                        left = mean - gone
                        squared = (left * np.linalg.solve(spread, left[:, :, None])[:, :, 0]).sum(axis=1)
                        value = -0.5 * (squared + np.linalg.slogdet(spread)[1]) + np.log(common) - unlikely
                        value -= np.log1p((aged / params.usual_aged) ** 2)
                        for number, each in enumerate(tried.tolist()):
                            one = float(value[number] + np.log(usual.get(each // (each & -each), params.other)))
                            likely.setdefault(Candidate(sets, each, before), []).append(one)
                            best = max(best, (one, float(squared[number]) / bins))
    # where even the best doesn't quite explain what was measured, errors are larger than thought
    scale = max(1.0, best[1])
    weights = {each: float(np.exp((np.array(some) - best[0]) / scale).sum()) for each, some in likely.items()}
    total = sum(weights.values())
    return {each: weight / total for each, weight in weights.items()}, best[1]

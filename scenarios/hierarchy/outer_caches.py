"""The caches behind the first: size and ways from which lines of a traversal are still there after it.

A set with an empty way takes a line there, and a full one stays full, whatever it replaces. So of lines that were
traversed a few times, the fraction that a cache lacks follows from its sets and ways alone: of each set what it got
beyond its ways. Sets get their lines by chance, so few ways overflow early and one by one, many late and together:
where the curve bends gives the lines, how sharply the ways. Prefetchers and other users take a part of the room, which
is a field of the candidates. One posterior over sets, ways, and whether the levels before hold lines in addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.experiments.traversals import Timed, flush_pages, time_lines, traversal, traverse
from setebench.machine import Region
from setebench.measure.calibrate import quick_cycles_per_tick, step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import at_least, number_of, summed
from setebench.stats.estimate import CONFIDENCE

Numbers = NDArray[np.float64]
METHOD = "lines that are left of a traversal, by its length"


@dataclass(frozen=True, kw_only=True)
class Params:
    """How traversals grow, and what is believed of errors.

    Traversals begin at `first_ratio` times what the levels before hold and grow by `growth` until a fraction of `gone`
    is missing; then `lengths` lie from `low` to `high` times the lines that were left, `draws` of pages of each at a
    time, until the answer is sure, `most_rounds` at most: the mean of so many is known better than to `error`, and more
    would say no more. `loads` lines are timed in each. `warm_rounds` before a private cache's are timed,
    `shared_rounds` before a shared one's: its lines are many. `seconds` that each level may take, by what the machine
    says that lines cost its user. `memory` is how much of the region a traversal may use.

    Candidates: `most_ways`; lines within a quarter octave in steps of 1 / `size_steps` octaves where sets are no power
    of two; up to `taken` of the room, in `taken_steps`, that others use, the less the more likely, `usual_taken` on
    average. `some_ways` is how common 3 and 5 times a power of two are beside one, `other_ways` all others. `error` of
    every mean fraction, and up to `most_offset` of all of them (what a hit costs is known about), with the tail of
    Student's t of `tail` degrees of freedom. None of the candidates is it where the `typical` quantile is more than
    `most_left` errors off. A bound leaves out `margin`. Lines leave by age where `early_ratio` times as many are
    missing of those traversed first. A load counts at most as `stall_ratio` times what memory takes: an interrupt is
    no level. Of a shared cache a load missed if it takes `clear_share` of the way to memory longer than a hit, and
    `clear_steps` of the clock."""

    first_ratio: float = 1.5
    growth: float = 1.4
    gone: float = 0.45
    lengths: int = 9
    draws: int = 6
    most_rounds: int = 4
    low: float = 0.45
    high: float = 1.6
    loads: int = 512
    warm_rounds: int = 3
    shared_rounds: int = 2
    seconds: float = 4.0
    memory: float = 0.8
    most_ways: int = 32
    size_steps: int = 40
    taken: float = 0.08
    taken_steps: int = 5
    usual_taken: float = 0.02
    some_ways: float = 0.3
    other_ways: float = 0.03
    error: float = 0.008
    most_offset: float = 0.025
    tail: float = 5.0
    typical: float = 0.75
    most_left: float = 3.0
    margin: float = 0.03
    early_ratio: float = 1.3
    stall_ratio: float = 1.3
    clear_share: float = 0.15
    clear_steps: float = 1.2


@dataclass(frozen=True)
class Point:
    """Of a traversal of so many pages: the fraction of its lines that a cache and those before it lack, its error, and
    the fraction among the lines traversed first (third of the traversal)."""

    pages: int
    missing: float
    error: float
    early: float


@dataclass(frozen=True)
class Candidate:
    """A cache of so many sets (a real number of them where a hash spreads lines over slices) and ways; `before` lines
    are held by the levels before in addition."""

    sets: float
    ways: int
    before: int


@dataclass(frozen=True)
class OuterCache:
    """What was found of a level: the posteriors of its lines and ways, what it holds at least, and why it is not known
    better; `by_age` whether the lines traversed first are those that leave;
    `bound_only` where nothing says how many lines there are at most."""

    name: str
    line: int
    lines: dict[int, float] = field(default_factory=dict)
    ways: dict[int, float] = field(default_factory=dict)
    least: int = 0
    by_age: bool = False
    reason: str = ""
    bound_only: bool = False

    @property
    def sure(self) -> bool:
        """Whether more points would say no more."""
        open_ones = [each for each in (self.lines, self.ways) if each]
        return bool(open_ones) and all(max(each.values()) >= CONFIDENCE for each in open_ones)

    @property
    def likely_lines(self) -> int:
        """The most probable number of lines, or the bound."""
        return max(self.lines, key=lambda each: self.lines[each]) if self.lines else self.least

    def findings(self) -> Iterator[Finding]:
        """Size and ways."""
        size, ways = f"cache.{self.name}.size", f"cache.{self.name}.ways"
        found = number_of(size, {n * self.line: p for n, p in self.lines.items()}, "bytes", METHOD, self.reason)
        if found.value is None and self.least:
            found = at_least(size, self.least * self.line, "bytes", self.reason, METHOD)
        yield found
        yield number_of(ways, self.ways, "ways", METHOD, self.reason)


@dataclass(frozen=True)
class Level:
    """Cycles of a level's hits and misses, of the one before it, which holds `nearer` lines; a load counts `beyond`
    cycles at most. A load of more than `gone_from` cycles missed, where the clock tells single loads apart."""

    hit: float
    miss: float
    before: float
    nearer: int
    beyond: float
    gone_from: float


class Curve:
    """Points of one level's curve."""

    def __init__(self, context: Context, region: Region, params: Params, level: Level, rounds: int) -> None:
        self._context, self._region, self._params, self._rounds = context, region, params, rounds
        self._level = level
        self.page_lines = TLB_PAGE_BYTES // region.line_size
        self._rng = context.rng(50 + rounds)
        self.lines_left = params.seconds * min(
            context.machine.facts.lines_per_second, _cycles_per_second(context) / level.miss
        )
        self.points: list[Point] = []

    def affordable(self, pages: int) -> bool:
        """Whether a traversal of so many pages fits into memory and time."""
        room = self._params.memory * self._region.size / TLB_PAGE_BYTES
        return pages < room and pages * self.page_lines * self._rounds < self.lines_left

    def measure(self, pages: int) -> Point:
        """The point at so many pages."""
        order = traversal(self._region, pages, self._rng)
        traverse(self._context, self._region, order, self._rounds)
        timed = time_lines(self._context, order, self._params.loads, self._rng)
        flush_pages(self._context, order)
        self.lines_left -= len(order) * self._rounds
        point = _point(pages, timed, len(order), self._level)
        self.points.append(point)
        return point


def _point(pages: int, timed: Timed, lines: int, level: Level) -> Point:
    gone = (np.minimum(timed.cycles, level.beyond) - level.hit) / (level.miss - level.hit)
    if (
        level.gone_from < np.inf
    ):  # load by load: what answers between a hit and memory, a cache of memory say, is a miss
        gone = (timed.cycles > level.gone_from).astype(np.float64)
    else:  # lines that the level before still holds take less than a hit
        gone += min(1.0, level.nearer / lines) * (level.hit - level.before) / (level.miss - level.hit)
    early = gone[timed.place < lines / 3]
    return Point(pages, float(gone.mean()), float(gone.std() / len(gone) ** 0.5), float(early.mean()))


def _cycles_per_second(context: Context) -> float:
    return context.machine.facts.ticks_per_second * quick_cycles_per_tick(context)


def _step_cycles(context: Context) -> float:
    return step_ticks(context) * quick_cycles_per_tick(context)


def outer_cache(context: Context, region: Region, level: str, before: list[int], params: Params) -> OuterCache:
    """Measure a level; the caches before hold about `before` lines each, nearest first."""
    names = list(context.calibration.level_cycles)
    cycles = list(context.calibration.level_cycles.values())
    at = names.index(level)
    beyond = params.stall_ratio * cycles[at + 1] if at + 2 >= len(cycles) else (cycles[at + 1] + cycles[at + 2]) / 2
    shared = at > 1
    least = max(params.clear_share * (cycles[at + 1] - cycles[at]), params.clear_steps * _step_cycles(context))
    apart = shared and least < (cycles[at + 1] - cycles[at]) / 2
    gone_from = cycles[at] + least if apart else np.inf
    own = Level(cycles[at], cycles[at + 1], cycles[at - 1], before[-1], beyond, gone_from)
    curve = Curve(context, region, params, own, params.shared_rounds if shared else params.warm_rounds)
    pages = max(2, int(params.first_ratio * sum(before) / curve.page_lines))
    point = None
    while curve.affordable(pages) and (point is None or point.missing < params.gone):
        context.progress(f"{level}: {pages * TLB_PAGE_BYTES >> 10} KiB traversed")
        point = curve.measure(pages)
        pages = int(pages * params.growth) + 1
    if point is None:
        return OuterCache(level, region.line_size, reason="too little time or memory for a traversal", bound_only=True)
    left = [each.pages * (1.0 - each.missing) for each in curve.points]
    about = max(left)
    found = _inferred(level, curve, region.line_size, before, shared, params)
    for _ in range(params.most_rounds):
        if found.sure or curve.points[-1].missing == 0 or not curve.affordable(int(params.high * about)):
            break
        # whole rounds over the same lengths: what one draw of pages happens to overfill is only right on average
        lengths = np.geomspace(params.low, params.high, params.lengths) * about
        if not curve.affordable(int(lengths.sum())):
            break
        for pages in np.tile(lengths, params.draws if not shared else 1).astype(int):
            curve.measure(max(2, int(pages)))
        found = _inferred(level, curve, region.line_size, before, shared, params)
    context.evidence[f"{level}_traversals"] = [[p.pages, round(p.missing, 3), round(p.error, 3)] for p in curve.points]
    return found


def _inferred(level: str, curve: Curve, line: int, before: list[int], shared: bool, params: Params) -> OuterCache:
    points = curve.points
    held = [each.pages * curve.page_lines * (1.0 - each.missing - 2 * each.error) for each in points]
    least = int(max(held) * (1.0 - params.margin)) - (sum(before) if shared else before[-1])
    top = max(points, key=lambda each: each.missing)
    bound = OuterCache(level, line, least=max(least, 0), reason="no traversal outgrew it", bound_only=True)
    if top.missing < params.gone:
        return bound
    by_age = top.early > min(1.0, params.early_ratio * top.missing)
    posterior, left = size_posterior(points, curve.page_lines, before, shared, params)
    if left > params.most_left:
        return OuterCache(level, line, least=max(least, 0), by_age=by_age, reason="no cache that was thought of fits")
    ways = summed(posterior, lambda each: each.ways)
    if shared:  # nothing says what its sets are a multiple of
        lines = sorted((round(each.sets * each.ways), weight) for each, weight in posterior.items())
        share = np.cumsum([weight for _, weight in lines])
        low = lines[int(np.searchsorted(share, 1.0 - CONFIDENCE))][0]
        reason = "a hash may spread lines over any number of slices"
        return OuterCache(level, line, ways=ways, least=int(low * (1.0 - params.margin)), by_age=by_age, reason=reason)
    return OuterCache(level, line, summed(posterior, lambda each: round(each.sets * each.ways)), ways, least, by_age)


def overflow(pages: Numbers, classes: float, ways: int) -> tuple[Numbers, Numbers]:
    """The fraction of pages' lines beyond the ways of their sets, where each page has a line in one class of sets; and
    how much that differs by chance from pages to pages, shape (points,) each."""
    mean = pages / classes
    most = np.arange(int(mean.max() + 10 * mean.max() ** 0.5 + ways + 10))
    chance = stats.binom.pmf(most[None, :], np.round(pages)[:, None], min(1.0, 1.0 / classes))
    beyond = np.maximum(most - ways, 0)[None, :]
    first, second = (chance * beyond).sum(axis=1), (chance * beyond**2).sum(axis=1)
    spread = np.sqrt(np.maximum(second - first**2, 0.0) * classes)
    return first * classes / pages, spread / pages


def _candidates(
    points: list[Point], page_lines: int, before: list[int], shared: bool, params: Params
) -> Iterator[Candidate]:
    about = max(each.pages * (1.0 - each.missing) for each in points) * page_lines
    extras = [0, before[-1]] + ([sum(before)] if shared else [])
    for ways in range(2, params.most_ways + 1):
        for extra in extras:
            if shared:
                octave = np.arange(-params.size_steps // 4, params.size_steps // 4 + 1) / params.size_steps
                sizes = (about - extra) * 2.0**octave
                yield from (Candidate(float(size) / ways, ways, extra) for size in sizes if size > extra)
                continue
            middle = round(float(np.log2(max(about, 1.0) / ways)))
            for power in (middle - 1, middle, middle + 1):
                if 2.0**power >= page_lines:
                    yield Candidate(2.0**power, ways, extra)


def size_posterior(
    points: list[Point], page_lines: int, before: list[int], shared: bool, params: Params
) -> tuple[dict[Candidate, float], float]:
    """The posterior of all candidates by what is missing of traversals, and how far from the best a typical point is,
    in errors."""
    pages, missing, error, draws = _pooled(points, params)
    found: list[tuple[float, Candidate, float]] = []
    for candidate in _candidates(points, page_lines, before, shared, params):
        for taken in np.linspace(0.0, params.taken, params.taken_steps):
            # what the levels before hold, and what others take, is as if fewer or more pages were traversed
            own = np.maximum(pages * (1.0 + taken) - candidate.before / page_lines, 1.0)
            lost, spread = overflow(own, candidate.sets / page_lines, candidate.ways)
            errors = np.hypot(error, spread / draws**0.5)
            weights = errors**-2.0
            offset = np.clip(weights @ (missing - lost) / weights.sum(), -params.most_offset, params.most_offset)
            left = (missing - lost - offset) / errors
            likely = -((params.tail + 1) / 2 * np.log1p(left**2 / params.tail) + np.log(errors)).sum()
            believed = np.log(_believed(candidate.ways, taken, params))
            found.append((float(likely + believed), candidate, float(np.quantile(np.abs(left), params.typical))))
    if not found:
        return {}, np.inf
    most, _, apart = max(found, key=lambda each: each[0])
    posterior: dict[Candidate, float] = {}
    for likely, candidate, _ in found:
        posterior[candidate] = posterior.get(candidate, 0.0) + float(np.exp((likely - most) / max(1.0, apart) ** 2))
    total = sum(posterior.values())
    return {each: weight / total for each, weight in posterior.items()}, apart


def _pooled(points: list[Point], params: Params) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Lengths, with the mean of what is missing over all draws of pages, its error, and how many draws these are; only
    of lengths that were drawn as often as others."""
    lengths = sorted({each.pages for each in points})
    of = [[each for each in points if each.pages == pages] for pages in lengths]
    most = max(len(each) for each in of)
    of = [each for each in of if len(each) == most]
    missing = np.array([np.mean([each.missing for each in one]) for one in of])
    error = np.array([np.mean([each.error**2 for each in one]) / len(one) for one in of]) ** 0.5
    pages = np.array([one[0].pages for one in of], dtype=np.float64)
    return pages, missing, np.hypot(error, params.error), np.full(len(of), float(most))


def _believed(ways: int, taken: float, params: Params) -> float:
    """How common so many ways are beside a power of two, and so much room that others use beside none."""
    odd = ways // (ways & -ways)
    return float(np.exp(-taken / params.usual_taken)) * {1: 1.0, 3: params.some_ways, 5: params.some_ways}.get(
        odd, params.other_ways
    )

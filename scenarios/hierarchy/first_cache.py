"""The first data cache: sets, ways, index and replacement, from what rings and sequences of congruent lines cost.

Its sets are known by addresses, so candidates need no search: each predicts what fraction of the loads of a ring
misses, and how many of a sequence's. What is asked of rings: which lines share sets, and how many of them fit. What is
asked of sequences: who has to leave. One posterior over all candidates follows from each, with none of them as another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.experiments.alone import PARAMS as ALONE
from setebench.experiments.alone import Alone
from setebench.experiments.conflicts import Congruent, Ring, ring_excess
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.cache_model import POLICIES, cyclic_misses
from setebench.stats.decide import at_least, number_of, one_of, summed
from setebench.stats.estimate import CONFIDENCE

from .replacement import SEQUENCES, KnownCache, first_replacement, fitting

Numbers = NDArray[np.float64]
Lines = NDArray[np.int64]

RINGS = "chases round and round over lines at strides"


@dataclass(frozen=True, kw_only=True)
class Params:
    """What is tried, and what is believed of errors.

    Rings: `strides` (bytes), each with its largest ring, which grow by `growth` or by one line; in a region of
    `region_bytes`, with `patience` of what there is for co-runners.

    Candidates: `sets`, up to `most_ways`, up to `most_bytes` in all (the largest first level sold has 192 KiB), and
    `most_colours` pages to a way where translated bits choose the set; `even_ways` and `odd_ways` are how common other
    ways than powers of two are beside these, `many_ways` more than `usual_ways`. `draws` of what is left to chance,
    chases of `accesses`; beyond `most_crowd` lines of a set the fraction that misses stays as it is.

    Errors: of a ring `relative_error` of a miss, `floor_cycles` at least; with the heavy tail of Student's t of `tail`
    degrees of freedom, for disturbed samples, and since a line that is asked for while it leaves costs twice as much on
    some CPUs. What a miss costs is a nuisance of each stride: as much as the levels lie apart within the ratio
    `gap_room` (misses of several sets overlap, those of few queue), of which `gaps` are tried, less than an error
    apart. A candidate is none of them where the `typical` quantile of rings is more than `most_left` errors off; below
    `unlikely` it isn't kept."""

    strides: tuple[tuple[int, int], ...] = ((512, 40), (1024, 80), (2048, 48), (4096, 36), (8192, 24), (16384, 16))
    growth: float = 1.18
    region_bytes: int = 16 << 20
    patience: float = 0.05
    sets: tuple[int, ...] = (16, 32, 64, 128, 256)
    most_ways: int = 32
    most_bytes: int = 224 << 10
    most_colours: int = 2
    even_ways: float = 0.3
    odd_ways: float = 0.1
    usual_ways: int = 16
    many_ways: float = 0.01
    draws: int = 12
    most_crowd: int = 40
    accesses: int = 2500
    relative_error: float = 0.03
    floor_cycles: float = 0.15
    tail: float = 2.0
    gap_room: float = 1.6
    gaps: int = 25
    typical: float = 0.75
    most_left: float = 3.0
    unlikely: float = 1e-6


@dataclass(frozen=True)
class Candidate:
    """A first cache. The index is of address bits (`linear`), of translated ones where a way is larger than a page
    (`physical`), or a hash of all. `policy` is a number in `POLICIES`."""

    sets: int
    ways: int
    index: str
    policy: int


@dataclass(frozen=True)
class FirstCache:
    """What was found: posteriors of sets times ways, of ways, of the index and of the replacement, by value; each empty
    where no candidate explains what was measured, for `reason`; then `least` lines at least. `line` is the bytes of a
    line; `shape` is its sets, ways and policy, as far as that is known, where the first two are."""

    line: int
    lines: dict[int, float] = field(default_factory=dict)
    ways: dict[int, float] = field(default_factory=dict)
    index: dict[str, float] = field(default_factory=dict)
    replacement: dict[str, float] = field(default_factory=dict)
    least: int = 0
    reason: str = ""
    policy_reason: str = ""
    shape: KnownCache | None = None

    def findings(self) -> Iterator[Finding]:
        """Size, ways, index and replacement."""
        size = {lines * self.line: probability for lines, probability in self.lines.items()}
        found = number_of("cache.l1.size", size, "bytes", RINGS, self.reason)
        yield at_least(found.parameter, self.least * self.line, "bytes", self.reason, RINGS) if self.least else found
        yield number_of("cache.l1.ways", self.ways, "ways", RINGS, self.reason)
        yield one_of("cache.l1.index", self.index, "string", RINGS, self.reason)
        yield one_of("cache.l1.replacement", self.replacement, "string", SEQUENCES, self.policy_reason or self.reason)

    @property
    def likely_lines(self) -> int:
        """The most probable number of lines, 0 where nothing shows."""
        return max(self.lines, key=lambda each: self.lines[each], default=self.least)


def first_cache(context: Context, gap: float, params: Params) -> FirstCache:
    """Measure the first cache; about `gap` cycles lie between its latency and that of the next level."""
    sizes = context.machine.facts.page_sizes
    region = context.machine.allocate(params.region_bytes, max(sizes))
    try:
        return _found(context, region, gap, params)
    finally:
        context.machine.release(region)


def _measured(
    context: Context, region: Region, rings: list[Ring], rng: np.random.Generator, params: Params
) -> tuple[Numbers, bool]:
    """What each ring costs, asked in random order so that a disturbance meets rings of all kinds, and whether a
    co-runner was there, who takes a part of the cache."""
    excess, alone = np.empty(len(rings)), Alone(context, patience=params.patience)
    for number in rng.permutation(len(rings)):
        excess[number] = alone.run(partial(ring_excess, context, region, rings[number], rng))
    return excess, alone.co_runner_fraction > ALONE.most_beside


def _found(context: Context, region: Region, expected: float, params: Params) -> FirstCache:
    context.progress("conflicts in the first cache")
    rings, rng = ring_shapes(params), context.rng(40)
    excess, beside = _measured(context, region, rings, rng, params)
    posterior, gap, left = ring_posterior(excess, rings, region.line_size, expected, params)
    context.evidence["first_cache"] = {
        "rings": [[ring.lines, ring.stride] for ring in rings],
        "excess_cycles": excess.round(2).tolist(),
        "miss_cycles": round(gap, 2),
    }
    best = max(posterior, key=lambda each: posterior[each])
    if left > params.most_left:
        return FirstCache(region.line_size, reason="no cache that was thought of costs what these rings do")
    lines = summed(posterior, lambda each: each.sets * each.ways)
    if beside:
        # what others take looks like fewer lines
        least = min(each for each, probability in lines.items() if probability > 1.0 - CONFIDENCE)
        return FirstCache(region.line_size, least=least, reason="a co-runner may have used a part of it")
    ways = summed(posterior, lambda each: each.ways)
    index = summed(posterior, lambda each: "hashed" if each.index == "hashed" else "linear")
    if index.get("hashed", 0.0) > params.unlikely:
        # which lines share a set, and so how many fit, depends on how their pages happen to lie
        why = "a hashed index shows no lines that share a set"
        return FirstCache(region.line_size, index=index, reason=why)
    sure = min(lines[best.sets * best.ways], ways[best.ways]) >= CONFIDENCE
    shape = KnownCache(best.sets, best.ways) if sure else None
    found = FirstCache(region.line_size, lines, ways, index, shape=shape)
    if len(group := _group_of(best)) == 1:
        policies = {group[0]: posterior[best]}
    elif best.index == "linear":
        rivals, places = fitting(group, best.ways), _places(region, best, params.draws, context.rng(43))
        policies = first_replacement(context, places, best.ways, rivals, gap)
    else:
        return replace(found, policy_reason="lines that share a set are not known by their addresses")
    likely = max(policies, key=lambda each: policies[each])
    names = summed(policies, lambda each: POLICIES[each].name)
    if shape and best.index == "linear" and min(posterior[best], policies[likely]) >= CONFIDENCE:
        shape = shape._replace(policy=likely)
    return replace(found, replacement=names, shape=shape)


def ring_shapes(params: Params) -> list[Ring]:
    """All rings that are asked for."""
    shapes = []
    for stride, most in params.strides:
        lines = 2
        while lines <= most:
            shapes.append(Ring(lines, stride))
            lines = max(lines + 1, int(lines * params.growth))
    return shapes


# -- what candidates predict ---------------------------------------------------------------------------------------


@cache
def _ring_policies() -> tuple[tuple[int, ...], ...]:
    """Groups of policies that no ring distinguishes."""
    groups: dict[bytes, list[int]] = {}
    for number, policy in enumerate(POLICIES):
        groups.setdefault(np.round(cyclic_misses(policy, 8, 20, 1000), 1).tobytes(), []).append(number)
    return tuple(tuple(each) for each in groups.values())


@cache
def _misses(most: int, params: Params) -> tuple[tuple[tuple[int, int], ...], Numbers]:
    """Policies and ways that rings distinguish, and the misses per round by how many lines of a ring share a set, shape
    (most + 1, those)."""
    kinds = [
        (group[0], ways)
        for group in _ring_policies()
        for ways in range(2, params.most_ways + 1)
        if fitting(group, ways)
    ]
    crowd = np.minimum(np.arange(most + 1), params.most_crowd)
    rates = [cyclic_misses(POLICIES[one], ways, params.most_crowd, params.accesses)[crowd] for one, ways in kinds]
    return tuple(kinds), np.arange(most + 1)[:, None] * np.array(rates).T


def _crowds(ring: Ring, sets: int, index: str, line: int, rng: np.random.Generator) -> Lines:
    """How many lines of a ring each set gets, shape (draws, sets); one draw where nothing is by chance."""
    number = np.arange(ring.lines)
    address = number * ring.stride
    if index == "linear":
        return np.bincount(address // line % sets, minlength=sets)[None, :]
    draws = []
    for _ in range(Params().draws):
        page, within = np.divmod(address, TLB_PAGE_BYTES)
        chance = rng.integers(0, sets, int(page.max()) + 1)[page]
        if index == "hashed":  # folded address bits: lines of one page still fall into sets of their own
            which = (within // line ^ chance) % sets
        else:
            which = (within // line + chance * (TLB_PAGE_BYTES // line)) % sets
        draws.append(np.bincount(which, minlength=sets))
    return np.array(draws)


def predicted(rings: list[Ring], line: int, params: Params) -> Iterator[tuple[list[Candidate], Numbers, Numbers]]:
    """All candidates, some at a time, with the fraction of each ring's loads that miss and how much that varies by
    chance, shapes (rings, candidates)."""
    rng = np.random.default_rng(5)
    lines = np.array([ring.lines for ring in rings])
    most = int(lines.max())
    kinds, table = _misses(most, params)
    for sets in params.sets:
        coloured = TLB_PAGE_BYTES < sets * line <= params.most_colours * TLB_PAGE_BYTES
        for index in ("linear", "physical", "hashed") if coloured else ("linear", "hashed"):
            crowds = [_crowds(each, sets, index, line, rng) for each in rings]
            # how many sets get so many lines, shape (all draws of all rings, most + 1)
            counts = np.array([np.bincount(draw, minlength=most + 1) for each in crowds for draw in each], dtype=float)
            misses = np.split(counts @ table, np.cumsum([len(each) for each in crowds])[:-1])
            means, spreads = (
                np.array([f(each, axis=0) for each in misses]) / lines[:, None] for f in (np.mean, np.std)
            )
            small = np.array([sets * ways * line <= params.most_bytes for _, ways in kinds])
            own = [
                Candidate(sets, ways, index, policy)
                for policy, ways in kinds
                if sets * ways * line <= params.most_bytes
            ]
            yield own, means[:, small], spreads[:, small]


def _believed(ways: int, params: Params) -> float:
    """How common so many ways are beside a power of two."""
    many = params.many_ways if ways > params.usual_ways else 1.0
    if ways & (ways - 1) == 0:
        return many
    return many * (params.odd_ways if ways % 2 else params.even_ways)


# -- posterior -----------------------------------------------------------------------------------------------------


def ring_posterior(
    excess: Numbers, rings: list[Ring], line: int, gap: float, params: Params
) -> tuple[dict[Candidate, float], float, float]:
    """The posterior of all candidates by what rings cost, whatever a miss costs at each stride; the cycles of a typical
    miss under the best, and how far from it a typical ring is, in errors."""
    gaps = gap * params.gap_room ** np.linspace(-1.0, 1.0, params.gaps)
    strides = np.array([ring.stride for ring in rings])
    found: list[tuple[float, Candidate, float, Numbers]] = []
    for candidates, means, spreads in predicted(rings, line, params):
        likely = np.log([_believed(each.ways, params) for each in candidates])
        left = np.empty(means.shape)
        for stride in np.unique(strides):
            at = strides == stride
            error = np.hypot(params.floor_cycles, gaps[:, None, None] * np.hypot(params.relative_error, spreads[at]))
            off = (excess[at, None] - gaps[:, None, None] * means[at]) / error
            by_gap = -((params.tail + 1) / 2 * np.log1p(off**2 / params.tail) + np.log(error)).sum(axis=1)
            likely += special.logsumexp(by_gap, axis=0)
            left[at] = np.abs(off[by_gap.argmax(axis=0), :, np.arange(len(candidates))].T)
        far = np.quantile(left, params.typical, axis=0)
        found += zip(likely.tolist(), candidates, far.tolist(), means.T, strict=True)
    most, _, least, mean = max(found, key=lambda each: each[0])
    # where even the best doesn't quite explain what was measured, errors are larger than thought
    weights = {each: float(np.exp((likely - most) / max(1.0, least) ** 2)) for likely, each, *_ in found}
    total = sum(weights.values())
    kept = {each: value / total for each, value in weights.items() if value > params.unlikely * total}
    missing = mean > mean.max() / 2
    return kept, float(np.median(excess[missing] / mean[missing])) if missing.any() else gap, least


# -- replacement ---------------------------------------------------------------------------------------------------


def _group_of(found: Candidate) -> tuple[int, ...]:
    return next(each for each in _ring_policies() if found.policy in each)


def _places(region: Region, found: Candidate, draws: int, rng: np.random.Generator) -> list[Congruent]:
    """Sets of a first cache whose index is of address bits."""
    stride = max(found.sets * region.line_size, TLB_PAGE_BYTES)
    sets = []
    for _ in range(draws):
        first = int(rng.integers(0, stride // region.line_size)) * region.line_size
        sets.append(Congruent(region.address + first + rng.permutation(region.size // stride) * stride))
    return sets

"""Size and ways of the second and third cache, whose sets are chosen by physical addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setebench.hierarchy.capacities import Capacities
from setebench.hierarchy.filling import third_size, with_ways
from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.kept import first_in_second, second_in_third
from setebench.hierarchy.third_sets import third_sets
from setebench.hierarchy.whole_pages import WholePages, whole_pages, with_pages
from setebench.infer.inclusion import agreed
from setebench.infer.residence import LEAST_SHAPE, Held, plain_sizes, sizes_with_ways
from setebench.machine import Region
from setebench.measure.eviction import PAGE, Congruent, Sets
from setebench.measure.layout import by_windows, lay, span_bytes
from setebench.measure.page_classes import Classes, PageClasses
from setebench.measure.rings import Lines
from setebench.measure.thinning import Latencies
from setebench.scenario import Context

WALK_CAPACITIES, RANDOM_WALK_CAPACITIES, AGED_WALK_CAPACITIES = 2.5, 5.0, 1.6
"""A walk over so many capacities leaves none of the lines from before it to speak of; where replacement is random, one
in 150 if it is the longer one, as may be of known sets if the third cache keeps them. The shorter one does where lines
leave by age, so that a small third cache keeps what left the second: pages are random, so 6 % of sets of 8 ways get
fewer new lines than that, and 1.7 % of sets of 16; their lines are not in the largest group of reads."""

SWEEP_RATIO = 4.0
"""A level holds at least where the sweep leaves its plateau, less this ratio: a replacement that wears off late, or a
next level that keeps what this one gives up, moves that end out to nearly three times the size. It may hold much more:
random pages overfill some sets early, and a shared level has other users."""

POWER_OCTAVES = 0.35
ROOM_RATIO = 1.4
"""Prefetchers and other users take less than a third of a cache, in the better of all walks."""

SLICES = (1, 3, 5, 7)
"""Sets of a shared cache are a power of two or so many times that: it is made of as many parts as there are cores."""

Inclusive = tuple[bool | None, str]
"""Whether lines are taken along, or None and why that isn't told."""

FINDS, FAILURES = 2, 3
"""Searches for a set that have to find one, of the same number of ways; and those that may not."""


@dataclass(frozen=True)
class Outer:
    """What was found of one level, and how: its ways, and its size. `inclusive` says whether it takes lines out of the
    level before, as far as lines of no known set tell that, or why they don't; `by_age` whether its sets surely replace
    their oldest lines; `pages_asked` whether whole pages were already asked for ways and inclusion, or can't be."""

    geometry: Geometry
    method: str
    congruent: Congruent | None = None
    size_method: str = ""
    inclusive: tuple[bool | None, str] | None = None
    blunt: bool = False
    by_age: bool = False
    pages_asked: bool = False


def capacities(context: Context) -> list[float]:
    """Bytes at which the sweep left each level, nearest first."""
    ends: list[float] = context.evidence["sweep"]["boundaries_bytes"]
    return ends


def outer_levels(context: Context, region: Region, first: Geometry, caches: list[str]) -> dict[str, Outer]:
    """The caches behind the first, by name."""
    ends = capacities(context)
    if len(context.evidence["sweep"]["levels"]) - 1 != len(caches):
        ends = ends[:1]  # the sweep passed over a level, so what it says of the one before reaches too far
    found = {}
    for number, name in enumerate(caches[1:], 1):
        end = ends[number] if number < len(ends) else None
        if name == "l2" and first.ways is not None:
            found[name] = _second_level(context, region, first, end)
        else:
            reason = "lines that share a set are only searched for once the capacities of all levels before are known"
            found[name] = Outer(_unknown(None, reason, end), "working-set sweep")
    if first.size is not None and found:
        _add_capacities(context, region, first.size, found)
    return found


HOW_LONG, HOW_FULL = "how long lines of a stream stay", "how many lines an empty cache keeps"
HOW_MANY = "how many whole pages stay at once"
ONE_MORE = "whole pages that share sets: one more than stay"
OVERFULL = "fewest lines that overfill a set: loaded once each, one is missing"


def _add_capacities(context: Context, region: Region, first_bytes: int, found: dict[str, Outer]) -> None:
    """Sizes of the levels of which no sets were found, as far as lines that passed through tell; and inclusion."""
    line, cycles = region.line_size, list(context.known["level_cycles"].values())
    measure = Capacities(context, region, first_bytes // line, cycles)
    evidence = context.evidence["held_lines"] = {}
    size = found["l2"].geometry.size
    lines, by_age = None if size is None else size / line, found["l2"].by_age
    if size is None:
        context.progress("how long lines stay in the second cache")
        second = measure.second()
        if second is not None:
            lines, by_age = second.lines.value, second.shape >= LEAST_SHAPE
            evidence["l2"] = [round(each) for each in second.lines]
            # a line lost to a level that is not known costs less than it would from memory, and would seem kept
            unknown = (None, "a level between the second cache and memory is not known")
            told = unknown if measure.hidden else first_in_second(context, region, first_bytes // line, lines, cycles)
            before = [0.0] if told[0] else [0.0, first_bytes]
            own = with_capacity(found["l2"], second, before, line)
            open_yet = own.geometry.size is None or own.geometry.ways is None
            if open_yet and not measure.hidden:
                wanted = own.geometry.ways is None
                pages = whole_pages(context, region, first_bytes // line, cycles, second.lines.value, ways=wanted)
                told = _of_both(told, pages.inclusive)
                before = [0.0] if told[0] else [0.0, first_bytes]
                own = by_pages(found["l2"], pages, second, before, line)
            found["l2"] = replace(
                own, inclusive=told, blunt=second.blunt, pages_asked=own.pages_asked or measure.hidden
            )
            if found["l2"].geometry.ways is None and not measure.hidden:
                sizes = possible_sizes(second, before, line) if second.blunt else set()
                found["l2"] = _filled(context, region, found["l2"], lines, first_bytes // line, sizes)
    if "l3" in found and lines is not None:
        found["l3"] = _third_level(context, region, measure, found["l3"], first_bytes, lines, by_age)


def _third_level(
    context: Context, region: Region, measure: Capacities, outer: Outer, first_bytes: int, lines: float, by_age: bool
) -> Outer:
    """The third cache, as far as lines that passed through and lines of its sets tell; the second holds `lines`, and
    replaces the oldest or about that if `by_age`."""
    line, cycles = region.line_size, list(context.known["level_cycles"].values())
    context.progress("how long lines stay in the third cache")
    third = measure.third(lines)
    if third is None:
        reason = "no walk shows lines of a stream leaving the third cache: prefetchers, neighbours, or it is too large"
        return replace(outer, geometry=replace(outer.geometry, reason=reason))
    context.evidence["held_lines"]["l3"] = [round(each) for each in third.lines]
    known = (context, region, lines, third.lines.value, cycles, by_age)
    look = second_in_third(*known)
    sets = third_sets(context, region, cycles, lines, third.lines.value, by_age)
    if look.answer and not sets.inclusive[0]:
        look = agreed(look, second_in_third(*known, often=2))
    told = _of_both((look.answer, look.reason), sets.inclusive)
    geometry = replace(outer.geometry, ways=sets.ways, reason=sets.reason)
    victims_only = False if told[0] else sets.victims_only
    before = [] if victims_only else [0.0]
    if victims_only is not False:
        before += [lines * line, lines * line + first_bytes]
    outer = with_capacity(replace(outer, geometry=geometry), third, before, line, shared=True)
    if third.blunt and sets.ways is not None and victims_only is not None:
        sizes = shared_sizes(third, before, line, sets.ways)
        size = third_size(context, region, sets.ways, (lines, third.lines.value), victims_only, sizes)
        outer = replace(outer, geometry=replace(outer.geometry, whole_bytes=size))
    return replace(outer, inclusive=told, method=OVERFULL)


def by_pages(plain: Outer, pages: WholePages, held: Held, before: list[float], line: int) -> Outer:
    """The second cache, `plain` and what a stream told of it, `held`, with what whole pages tell of its size and ways,
    should these be missing; `before` as for `with_capacity`."""
    plain = replace(plain, pages_asked=plain.geometry.ways is None)
    if pages.ways is not None:
        plain = replace(plain, geometry=replace(plain.geometry, ways=pages.ways, reason=""), method=ONE_MORE)
    own = with_capacity(plain, held, before, line)
    if own.geometry.size is not None and own.geometry.size >= pages.least_bytes:
        return own
    if own.geometry.size is not None:
        reason = "more pages stay at once than a stream leaves room for"
        own = replace(own, geometry=replace(own.geometry, whole_bytes=None, reason=reason))
    geometry = with_pages(own.geometry, pages, line)
    return own if geometry is own.geometry else replace(own, geometry=geometry, size_method=HOW_MANY)


def _of_both(by_stream: Inclusive, by_sets: Inclusive) -> Inclusive:
    """Inclusion from a stream, and from lines or pages of the same sets: not told where they contradict."""
    if by_sets[0] is None:
        return by_stream
    if by_stream[0] is not None and by_stream[0] != by_sets[0]:
        return (
            None,
            "lines beside a stream and those of one set tell different things; run again at a quieter time",
        )
    return by_sets


def _filled(context: Context, region: Region, outer: Outer, lines: float, first_lines: int, sizes: set[int]) -> Outer:
    """The second cache with its ways, from how it fills; and with its size, one of `sizes`, where a stream's step was
    only too blunt to tell it: what an empty cache holds doesn't depend on what it replaces."""
    cycles = list(context.known["level_cycles"].values())
    own = with_ways(context, region, outer.geometry, lines, first_lines, cycles, sizes)
    return replace(outer, geometry=own, method=HOW_FULL if own.ways is not None else outer.method)


def shared_sizes(held: Held, before: list[float], line: int, ways: int) -> set[int]:
    """Sizes of a shared cache of so many ways, `before` as for `with_capacity`."""
    spans = ((held.lines.low * line - each, held.lines.high * line - each) for each in before)
    return set().union(*(sizes_with_ways(low, high, ways, line, SLICES) for low, high in spans))


def possible_sizes(held: Held, before: list[float], line: int) -> set[int]:
    """Sizes that caches have, of a level that holds so many lines of a stream, `before` as for `with_capacity`."""
    spans = ((held.lines.low * line - each, held.lines.high * line - each) for each in before)
    return set().union(*(plain_sizes(low, high) for low, high in spans))


def with_capacity(outer: Outer, held: Held, before: list[float], line: int, *, shared: bool = False) -> Outer:
    """A level with its size, if one only is possible; else with what it holds at least. Each of `before` is a number of
    bytes that levels before it may hold in addition, as an exclusive one does. A `shared` one may have lost any part of
    its room to others, so its walks must agree, and its sets may be a few times a power of two (slices)."""
    own = outer.geometry
    spans = [(held.lines.low * line - each, held.lines.high * line - each) for each in before]
    if own.ways is not None and shared:
        sizes = shared_sizes(held, before, line, own.ways) if held.steady else set()
    elif own.ways is not None:
        # room that is lost moves no size to half or twice itself
        sizes = set().union(*(sizes_with_ways(low, ROOM_RATIO * high, own.ways, line) for low, high in spans))
    else:
        sizes = possible_sizes(held, before, line) if held.steady else set()
    if len(sizes) == 1:
        geometry = replace(own, whole_bytes=sizes.pop(), ways_reason=own.reason)
    else:
        low, high = (f"{each * line / 2**20:.3g}" for each in (held.lines.low, held.lines.high))
        why = "several sizes are possible" if held.steady else "walks disagree, or the step is too blunt for a size"
        reason = f"{low} to {high} MiB of a stream stay, with what levels before it may add; {why}"
        least, most = max(int(spans[-1][0]), 0), int(ROOM_RATIO * spans[0][1])
        geometry = replace(own, least_bytes=least, most_bytes=most, reason=reason, ways_reason=own.reason)
    return replace(outer, geometry=geometry, size_method=HOW_LONG)


def _unknown(ways: int | None, reason: str, end: float | None) -> Geometry:
    if end is None:
        return Geometry(ways, None, reason)
    return Geometry(ways, None, reason, end / SWEEP_RATIO)


def _second_level(context: Context, region: Region, first: Geometry, end: float | None) -> Outer:
    """Ways from the lines of two sets; size from them and the number of sets, which is a power of two or not told."""
    context.progress("lines that share a set of the second cache")
    known = context.known["level_cycles"]
    latencies = Latencies(known["l1"], known["l2"], known.get("l3", known["memory"]))
    first_ways, first_way_bytes = first.ways or 0, first.way_bytes or PAGE
    sets = Sets(context, region, first_ways, latencies, first_way_bytes)
    both: list[PageClasses] = []
    failures = 0
    while len(both) < FINDS and failures < FAILURES:
        one = sets.find()
        counted = None if one is None else PageClasses(context, region, first_ways, latencies, one)
        if counted is not None and counted.sure():
            both.append(counted)
        else:
            failures += 1
    if len(both) < FINDS or both[0].found.ways != both[1].found.ways:
        reason = "no lines that clearly share a set: random replacement, or a neighbour; see the sweep"
        return Outer(_unknown(None, reason, end), "eviction sets")
    found, ways = both[0].found, both[0].found.ways
    by_age = all(each.by_age() for each in both)
    if first_way_bytes > PAGE:
        reason = "page classes can't be counted behind a first cache whose ways are larger than a page"
        return Outer(_unknown(ways, reason, end), "eviction sets", found, by_age=by_age)
    context.progress("pages whose lines share sets of the second cache")
    # each count is known to a quarter, which now and then is too little to tell a power of two
    way = next((each for each in (way_bytes(classes.count()) for classes in both) if each is not None), None)
    if way is None:
        return Outer(_unknown(ways, "page classes are no power of two", end), "eviction sets", found, by_age=by_age)
    return Outer(Geometry(ways, way), "eviction sets, and how rare pages with a line of one are", found, by_age=by_age)


def way_bytes(classes: Classes | None) -> int | None:
    """Bytes per way, if the number of page classes is a power of two within its interval, and no other one is; else
    None."""
    if classes is None:
        return None
    power = round(float(np.log2(classes.value)))
    if abs(np.log2(classes.value) - power) > POWER_OCTAVES or not 0.9 * classes.low <= 2**power <= 1.1 * classes.high:
        return None
    if classes.low < 1.05 * 2 ** (power - 1) or classes.high > 2 ** (power + 1) / 1.05:
        return None  # half or twice as many would do as well
    return int(PAGE * 2**power)


def _walk_capacities(outer: dict[str, Outer], size: int) -> float:
    spared = "l3" not in outer or 2 * RANDOM_WALK_CAPACITIES * size < outer["l3"].geometry.held_bytes
    random = outer["l2"].blunt or (outer["l2"].congruent is not None and spared)
    return AGED_WALK_CAPACITIES if outer["l2"].by_age else RANDOM_WALK_CAPACITIES if random else WALK_CAPACITIES


def private_walk(context: Context, region: Region, outer: dict[str, Outer]) -> Lines:
    """Lines to walk over so that a core's private caches lose what they held; none where nothing bounds the second
    cache's size or memory for it isn't to be had, since a walk that is too short would leave lines where nobody else's
    answer is asked for."""
    own = outer["l2"].geometry if "l2" in outer else None
    size = None if own is None else own.size or own.most_bytes
    if own is None or size is None:
        return np.zeros(0, dtype=np.int64)
    rng = np.random.default_rng((context.seed, 61))
    ground = Region(region.address, region.size // 2, region.page_size, region.line_size)
    length = (WALK_CAPACITIES if own.size is None else _walk_capacities(outer, own.size)) * size
    if span_bytes(length, ground.line_size) > ground.size:
        return np.zeros(0, dtype=np.int64)
    return by_windows(lay(ground, length, rng), rng)

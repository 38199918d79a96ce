"""Size and ways of the second and third cache, whose sets are chosen by physical addresses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from setebench.hierarchy.capacities import Capacities
from setebench.hierarchy.filling import third_size, with_ways
from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.kept import first_in_second, second_in_third
from setebench.hierarchy.outer import (
    HOW_FULL,
    OVERFULL,
    Inclusive,
    Outer,
    by_pages,
    possible_sizes,
    shared_holdings,
    with_capacity,
)
from setebench.hierarchy.third_sets import third_sets
from setebench.hierarchy.whole_pages import whole_pages
from setebench.infer.inclusion import agreed
from setebench.infer.residence import LEAST_SHAPE, Held
from setebench.machine import Region
from setebench.measure.eviction import Sets
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.page_classes import Classes, PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context

SWEEP_RATIO = 4.0
"""A level holds at least where the sweep leaves its plateau, less this ratio: a replacement that wears off late, or a
next level that keeps what this one gives up, moves that end out to nearly three times the size. It may hold much more:
random pages overfill some sets early, and a shared level has other users."""

POWER_OCTAVES = 0.35

FINDS, FAILURES = 2, 3
"""Searches for a set that have to find one, of the same number of ways; and those that may not."""


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


def _add_capacities(context: Context, region: Region, first_bytes: int, found: dict[str, Outer]) -> None:
    """Sizes of the levels of which no sets were found, as far as lines that passed through tell; and inclusion."""
    line, cycles = region.line_size, list(context.calibration.level_cycles.values())
    measure = Capacities(context, region, first_bytes // line, cycles)
    context.evidence["held_lines"] = {}
    size = found["l2"].geometry.size
    lines, by_age = None if size is None else size / line, found["l2"].by_age
    if size is None:
        context.progress("how long lines stay in the second cache")
        second = measure.second()
        if second is not None:
            lines, by_age = second.lines.value, second.shape >= LEAST_SHAPE
            found["l2"] = _with_room(context, region, measure, found["l2"], first_bytes, second)
    if "l3" in found and lines is not None:
        found["l3"] = _third_level(context, region, measure, found["l3"], first_bytes, lines, by_age)


def _with_room(
    context: Context, region: Region, measure: Capacities, plain: Outer, first_bytes: int, held: Held
) -> Outer:
    """The second cache, of which no sets were counted, by what a stream leaves there; then by whole pages, and by how
    it fills, as far as that leaves its size or ways open."""
    line, cycles = region.line_size, list(context.calibration.level_cycles.values())
    first_lines, lines = first_bytes // line, held.lines.value
    context.evidence["held_lines"]["l2"] = [round(each) for each in held.lines]
    if measure.hidden:
        # a line lost to a level that is not known costs less than it would from memory, and would seem kept
        unknown = (None, "a level between the second cache and memory is not known")
        own = with_capacity(plain, held, [0.0, first_bytes], line)
        return replace(own, inclusive=unknown, blunt=held.blunt, pages_asked=True)
    told = first_in_second(context, region, first_lines, lines, cycles)
    before = _before(told, first_bytes)
    own = with_capacity(plain, held, before, line)
    if own.geometry.size is None or own.geometry.ways is None:
        pages = whole_pages(context, region, first_lines, cycles, lines, ways=own.geometry.ways is None)
        told = _of_both(told, pages.inclusive)
        before = _before(told, first_bytes)
        own = by_pages(plain, pages, held, before, line)
    own = replace(own, inclusive=told, blunt=held.blunt)
    if own.geometry.ways is not None:
        return own
    sizes = possible_sizes(held, before, line) if held.blunt and not held.tenant else set()
    return _filled(context, region, own, lines, first_lines, sizes)


def _before(inclusive: Inclusive, first_bytes: int) -> list[float]:
    """Bytes that the first cache may hold beside the second."""
    return [0.0] if inclusive[0] else [0.0, first_bytes]


def _third_level(
    context: Context, region: Region, measure: Capacities, outer: Outer, first_bytes: int, lines: float, by_age: bool
) -> Outer:
    """The third cache, as far as lines that passed through and lines of its sets tell; the second holds `lines`, and
    replaces the oldest or about that if `by_age`."""
    line, cycles = region.line_size, list(context.calibration.level_cycles.values())
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
    if outer.geometry.size is None and sets.ways is not None and (third.blunt or third.steady):
        holdings = shared_holdings(third, before, line, sets.ways)
        orders = (True,) if third.blunt else (True, False)
        size = third_size(context, region, sets.ways, (lines, third.lines.value), holdings, orders)
        outer = replace(outer, geometry=replace(outer.geometry, whole_bytes=size))
    return replace(outer, inclusive=told, method=OVERFULL)


def _of_both(by_stream: Inclusive, by_sets: Inclusive) -> Inclusive:
    """Inclusion from a stream, and from lines or pages of the same sets: not told where they contradict."""
    if by_sets[0] is None:
        return by_stream
    if by_stream[0] is not None and by_stream[0] != by_sets[0]:
        return None, "lines beside a stream and those of one set tell different things; run again at a quieter time"
    return by_sets


def _filled(context: Context, region: Region, outer: Outer, lines: float, first_lines: int, sizes: set[int]) -> Outer:
    """The second cache with its ways, from how it fills; and with its size, one of `sizes`, where a stream's step was
    only too blunt to tell it: what an empty cache holds doesn't depend on what it replaces."""
    cycles = list(context.calibration.level_cycles.values())
    own = with_ways(context, region, outer.geometry, lines, first_lines, cycles, sizes)
    return replace(outer, geometry=own, method=HOW_FULL if own.ways is not None else outer.method)


def _unknown(ways: int | None, reason: str, end: float | None) -> Geometry:
    if end is None:
        return Geometry(ways, None, reason)
    return Geometry(ways, None, reason, end / SWEEP_RATIO)


def _second_level(context: Context, region: Region, first: Geometry, end: float | None) -> Outer:
    """Ways from the lines of two sets; size from them and the number of sets, which is a power of two or not told."""
    context.progress("lines that share a set of the second cache")
    known = context.calibration.level_cycles
    latencies = Latencies(known["l1"], known["l2"], known.get("l3", known["memory"]))
    first_ways, first_way_bytes = first.ways or 0, first.way_bytes or TLB_PAGE_BYTES
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
    if first_way_bytes > TLB_PAGE_BYTES:
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
    return int(TLB_PAGE_BYTES * 2**power)

"""Size and ways of the second and third cache, whose sets are chosen by physical addresses, and inclusion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from setebench.eviction import Colours, Congruent, Sets
from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.inclusion import inclusive
from setebench.layout import by_windows, lay
from setebench.machine import Region
from setebench.results import Finding, Outcome
from setebench.rings import Lines
from setebench.scenario import Context

WALK_CAPACITIES = 2.5
"""A walk over so many capacities leaves few of the lines from before it, even where replacement is random."""

SWEEP_RATIO = 1.6
"""A level holds at least where the sweep leaves its plateau, less this ratio for a replacement that wears off late. It
may hold much more: random pages overfill some sets early, and a shared level has other users."""

SWEEP_RANGE = 4.0
"""A size lies within this ratio of where the sweep saw its level end; the two in question differ by sixty-four."""

POWER_OCTAVES = 0.35
PAGE = 4096


@dataclass(frozen=True)
class Outer:
    """What was found of one level, and how."""

    geometry: Geometry
    method: str
    congruent: Congruent | None = None


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
            found[name] = _second_level(context, region, first.ways, end, ends[1:])
        else:
            reason = "lines that share a set were not searched for: there are too many sets for lines of random pages"
            found[name] = Outer(_unknown(None, reason, end), "working-set sweep")
    return found


def _unknown(ways: int | None, reason: str, end: float | None) -> Geometry:
    if end is None:
        return Geometry(ways, None, reason)
    return Geometry(ways, None, reason, end / SWEEP_RATIO)


def _second_level(context: Context, region: Region, first_ways: int, end: float | None, ends: list[float]) -> Outer:
    """Ways from the lines of two sets; size from them and the number of sets, which is a power of two or not told."""
    context.progress("lines that share a set of the second cache")
    sets = Sets(context, region, first_ways)
    both = [found for found in (sets.find(), sets.find()) if found is not None]
    if len(both) < 2 or both[0].ways != both[1].ways:
        reason = "no lines that clearly share a set: a hashed index, or random pages; see the sweep"
        return Outer(_unknown(None, reason, end), "eviction sets")
    found, ways = both[0], both[0].ways
    colours = sets.colours(found)
    way = None if colours is None else way_bytes(colours, lambda each: ways * each, ends, region.line_size)
    if way is None:
        reason = "the number of sets is no clear power of two, or differs from what the sweep tells"
        return Outer(_unknown(ways, reason, end), "eviction sets", found)
    return Outer(Geometry(ways, way), "eviction sets, and how rare lines of a set are among random pages", found)


def way_bytes(
    colours: Colours, size_of: Callable[[int], float], ends_bytes: list[float], line_bytes: int
) -> int | None:
    """Bytes per way, if the number of page classes is within its interval and half an octave of a power of two; else
    None.

    Lines at one offset of their pages reach a share of the sets (those whose index has the offset in it) or, where the
    index is hashed, all of them. No cache behind the first has fewer sets than a page has lines, so few classes mean
    the former; for many, the sweep must tell, in which only one of the two sizes (`size_of` a way) is near an end."""
    power = round(float(np.log2(colours.value)))
    if abs(np.log2(colours.value) - power) > POWER_OCTAVES or not 0.9 * colours.low <= 2**power <= 1.1 * colours.high:
        return None
    if colours.low < 1.05 * 2 ** (power - 1) or colours.high > 2 ** (power + 1) / 1.05:
        return None  # half or twice as many would do as well
    plain: int = PAGE * 2**power
    hashed: int = line_bytes * 2**power
    if hashed < PAGE:
        return plain
    near = [
        way for way in (plain, hashed) if any(1 / SWEEP_RANGE < size_of(way) / end < SWEEP_RANGE for end in ends_bytes)
    ]
    return near[0] if len(near) == 1 else None


def inclusion_finding(context: Context, region: Region, outer: dict[str, Outer]) -> Finding:
    """Whether a line that the second cache evicts leaves the first."""
    parameter, method = "cache.l1.inclusive_in_l2", "a line used all the time, while its set of the second cache fills"
    found = outer["l2"].congruent if "l2" in outer else None
    if found is None:
        reason = "no lines of one set of the second cache were found"
        answer = None
    else:
        context.progress("inclusion")
        answer, reason = inclusive(context, region, found)
    if answer is None:
        return Finding(parameter=parameter, unit="bool", outcome=Outcome.UNRESOLVED, reason=reason, method=method)
    return Finding(parameter=parameter, value=answer, unit="bool", method=method)


def private_walk(context: Context, region: Region, outer: dict[str, Outer]) -> Lines:
    """Lines to walk over so that a core's private caches lose what they held; none where the second cache's size isn't
    known for sure, since a walk that is too short would leave lines where nobody else's answer is asked for."""
    size = outer["l2"].geometry.size if "l2" in outer else None
    if size is None:
        return np.zeros(0, dtype=np.int64)
    rng = np.random.default_rng((context.seed, 61))
    ground = Region(region.address, region.size // 2, region.page_size, region.line_size)
    return by_windows(lay(ground, WALK_CAPACITIES * size, rng), rng)

"""What is told of inclusion, by whichever of several ways tells it: lines of one set, a stream, or whole pages."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.hierarchy.hinted import inclusive_by_hints
from setebench.hierarchy.inclusion import LEAST_MISS_CYCLES, inclusive
from setebench.hierarchy.kept import first_in_second
from setebench.hierarchy.outer import Inclusive, Outer
from setebench.hierarchy.resting import inclusive_at_rest
from setebench.hierarchy.whole_pages import LEAST_LEVELS, whole_pages
from setebench.machine import Region
from setebench.measure.eviction import Congruent
from setebench.results import Finding, Outcome
from setebench.scenario import Context

METHOD = "lines that the inner cache keeps, in use or at rest, while what evicts them from the outer one passes"


def inclusion_findings(
    context: Context, region: Region, first_bytes: int | None, outer: dict[str, Outer]
) -> Iterator[Finding]:
    """Whether a line that the second cache evicts leaves the first, and one that the third evicts the second."""
    context.progress("inclusion")
    yield _finding("cache.l1.inclusive_in_l2", _first_included(context, region, first_bytes, outer.get("l2")))
    if "l3" in outer:
        told = outer["l3"].inclusive or (None, "the third cache's capacity is not known")
        yield _finding("cache.l2.inclusive_in_l3", told)


def _first_included(context: Context, region: Region, first_bytes: int | None, second: Outer | None) -> Inclusive:
    """By lines of one set, by lines of any while a stream passes, or by pages; the first that tells."""
    if second is None:
        return None, "no second cache was found"
    told: Inclusive = (None, "neither lines of one set of the second cache nor its capacity were found")
    cycles, line = list(context.calibration.level_cycles.values()), region.line_size
    if second.congruent is not None:
        told = _by_set(context, region, second.congruent, cycles)
    if told[0] is None and second.inclusive is not None:
        told = second.inclusive
    size = second.geometry.size
    if told[0] is None and second.inclusive is None and size is not None and first_bytes is not None:
        told = first_in_second(context, region, first_bytes // line, size / line, cycles)
    if told[0] is None and not second.pages_asked and first_bytes is not None:
        held = second.geometry.held_bytes / line
        pages = whole_pages(context, region, first_bytes // line, cycles, held, ways=True)
        fit = second.geometry.ways is None or pages.ways in (None, second.geometry.ways)  # else groups miss some pages
        told = pages.inclusive if fit and pages.inclusive[0] is not None else told
    return told


def _by_set(context: Context, region: Region, found: Congruent, cycles: list[float]) -> Inclusive:
    # a third cache that nobody found would answer much sooner than memory
    miss_cycles = cycles[2] - cycles[1] if len(cycles) >= LEAST_LEVELS else LEAST_MISS_CYCLES
    told = inclusive(context, region, found, miss_cycles)
    if told[0] is not None:
        return told
    for way in (inclusive_at_rest, inclusive_by_hints):
        at_rest = way(context, found, cycles[2] - cycles[1])
        if at_rest[0] is not None:
            return at_rest
    return told


def _finding(parameter: str, told: Inclusive) -> Finding:
    answer, reason = told
    if answer is None:
        return Finding(parameter=parameter, unit="bool", outcome=Outcome.UNRESOLVED, reason=reason, method=METHOD)
    return Finding(parameter=parameter, value=answer, unit="bool", method=METHOD)

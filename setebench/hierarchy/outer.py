"""What is known of a cache behind the first, and how its size follows from what it holds of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.whole_pages import WholePages, with_pages
from setebench.infer.filling import Holding
from setebench.infer.residence import Held, plain_sizes, sizes_with_ways
from setebench.measure.eviction import Congruent

ROOM_RATIO = 1.4
"""Prefetchers and other users take less than a third of a cache, in the better of all walks."""

UNSTEADY_SHARE = 0.95
"""Of what stays at least, so much is sure where walks disagree or the step is blunt: such a step's place is known less
well than one walk's loads, drawn anew, tell."""

SLICES = (1, 3, 5, 7)
"""Sets of a shared cache are a power of two or so many times that: it is made of as many parts as there are cores."""

Inclusive = tuple[bool | None, str]
"""Whether lines are taken along, or None and why that isn't told."""

HOW_LONG, HOW_FULL = "how long lines of a stream stay", "how many lines an empty cache keeps"
HOW_MANY = "how many whole pages stay at once"
ONE_MORE = "whole pages that share sets: one more than stay"
OVERFULL = "fewest lines that overfill a set: loaded once each, one is missing"


@dataclass(frozen=True)
class Outer:
    """What was found of one level, and how: its ways, and its size. `inclusive` says whether it takes lines out of the
    level before, as far as lines of no known set tell that, or why they don't; `by_age` whether its sets surely replace
    their oldest lines; `pages_asked` whether whole pages were already asked for ways and inclusion, or can't be."""

    geometry: Geometry
    method: str
    congruent: Congruent | None = None
    size_method: str = ""
    inclusive: Inclusive | None = None
    blunt: bool = False
    by_age: bool = False
    pages_asked: bool = False


def by_pages(plain: Outer, pages: WholePages, held: Held, before: list[float], line: int) -> Outer:
    """The second cache, `plain` and what a stream told of it, `held`, with what whole pages tell of its size and ways,
    should these be missing; `before` as for `with_capacity`."""
    plain = replace(plain, pages_asked=plain.geometry.ways is None)
    if pages.ways is not None:
        plain = replace(plain, geometry=replace(plain.geometry, ways=pages.ways, reason=""), method=ONE_MORE)
    own = with_capacity(plain, held, before, line)
    if held.tenant:  # how many pages find room tells of the tenant as well
        return own
    if own.geometry.size is not None and own.geometry.size >= pages.least_bytes:
        return own
    if own.geometry.size is not None:
        reason = "more pages stay at once than a stream leaves room for"
        own = replace(own, geometry=replace(own.geometry, whole_bytes=None, reason=reason))
    geometry = with_pages(own.geometry, pages, line)
    return own if geometry is own.geometry else replace(own, geometry=geometry, size_method=HOW_MANY)


def shared_sizes(held: Held, before: list[float], line: int, ways: int) -> set[int]:
    """Sizes of a shared cache of so many ways, `before` as for `with_capacity`."""
    return {each.lines * line for each in shared_holdings(held, before, line, ways)}


def shared_holdings(held: Held, before: list[float], line: int, ways: int) -> set[Holding]:
    """The same with what the levels before then hold in addition."""
    spans = ((each, held.lines.low * line - each, held.lines.high * line - each) for each in before)
    return {
        Holding(size // line, each / line)
        for each, low, high in spans
        for size in sizes_with_ways(low, high, ways, line, SLICES)
    }


def possible_sizes(held: Held, before: list[float], line: int) -> set[int]:
    """Sizes that caches have, of a level that holds so many lines of a stream, `before` as for `with_capacity`."""
    spans = ((held.lines.low * line - each, held.lines.high * line - each) for each in before)
    return set().union(*(plain_sizes(low, high) for low, high in spans))


def _beside_tenant(own: Geometry, held: Held, before: list[float], line: int) -> Geometry:
    """A level of which a tenant of the core had a part: what a stream kept there is what it holds at least."""
    least = held.lines.low * line * (1.0 if held.steady else UNSTEADY_SHARE) - max(before)
    reason = "another thread of this core, maybe unseen by this system, used the cache; run again at a quieter time"
    return replace(own, least_bytes=max(int(least), 0), reason=reason, ways_reason=own.reason)


def with_capacity(outer: Outer, held: Held, before: list[float], line: int, *, shared: bool = False) -> Outer:
    """A level with its size, if one only is possible; else with what it holds at least. Each of `before` is a number of
    bytes that levels before it may hold in addition, as an exclusive one does. A `shared` one may have lost any part of
    its room to others, so its walks must agree, and its sets may be a few times a power of two (slices)."""
    own = outer.geometry
    if held.tenant:
        return replace(outer, geometry=_beside_tenant(own, held, before, line), size_method=HOW_LONG)
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
        begin, end = (f"{each * line / 2**20:.3g}" for each in (held.lines.low, held.lines.high))
        why = "several sizes are possible" if held.steady else "walks disagree, or the step is too blunt for a size"
        reason = f"{begin} to {end} MiB of a stream stay, with what levels before it may add; {why}"
        low = spans[-1][0] * (1.0 if held.steady else UNSTEADY_SHARE)
        least, most = max(int(low), 0), int(ROOM_RATIO * spans[0][1])
        geometry = replace(own, least_bytes=least, most_bytes=most, reason=reason, ways_reason=own.reason)
    return replace(outer, geometry=geometry, size_method=HOW_LONG)

"""The second cache's size and ways from whole pages: how many stay at once, and how many of those share their sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.hinted import NO_HINT, inclusive_by_groups
from setebench.hierarchy.page_inclusion import page_in_use
from setebench.hierarchy.page_room import PageRoom
from setebench.hierarchy.page_sets import PageSets
from setebench.infer.page_inclusion import Inclusive, included
from setebench.infer.page_room import Packed, least_pages, whole_size
from setebench.infer.residence import sizes_with_ways
from setebench.machine import Region
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.scenario import Context

LEAST_LEVELS = 4
"""The first level to memory."""


@dataclass(frozen=True)
class WholePages:
    """Sets of pages that were `found` to stay together, behind a first cache of so many pages, and the `ways` of the
    sets that they share, if they were looked for and told; `inclusive`: whether lines that leave the cache leave the
    first one, or why that isn't told. `all_levels`: whether a third cache is known; one that nobody found would answer
    most of what is missing, too soon to show, so that more pages seem to stay."""

    found: tuple[Packed, ...]
    first_pages: float
    all_levels: bool
    ways: int | None = None
    inclusive: Inclusive = (None, "")

    @property
    def least_bytes(self) -> int:
        """Bytes of pages that surely found room together; 0 where a third cache may be behind that."""
        return int(least_pages(self.found, self.first_pages) * TLB_PAGE_BYTES) if self.all_levels else 0


def whole_pages(
    context: Context, region: Region, first_lines: int, cycles: Sequence[float], held: float, *, ways: bool
) -> WholePages:
    """What pages tell of a second cache that lies behind a first one of `first_lines` and holds about `held` lines, or
    more; its `ways` too if they are asked for. `cycles` are latencies, nearest first."""
    room = PageRoom(context, region, first_lines, cycles[1], cycles[2], held)
    all_levels = len(cycles) >= LEAST_LEVELS
    first_pages = first_lines * region.line_size / TLB_PAGE_BYTES
    if not room.possible or not (ways or all_levels):
        return WholePages((), first_pages, all_levels)
    context.progress("how many pages find room in the second cache")
    sets = PageSets(context, room, first_pages, cycles[2] - cycles[1])
    found = [room.packed()]
    if ways:
        sets.search()
    share_sets = ways and (found[0].sound or bool(sets.groups))
    tell_size = all_levels and (found[0].full or not found[0].sound or not context.fast)
    if sets.ways is None and (share_sets or tell_size):
        found.append(room.packed())
        if share_sets:
            sets.search()
    levels = list(cycles[:3])
    in_use = [page_in_use(context, room, each, levels) for each in sets.groups]
    groups = [each.told for each in sets.groups]
    seen = {
        "page_sets": [[each.pages, round(each.missing, 1), round(each.left, 1)] for each in groups],
        "pages_in_use": [[round(each, 1) for each in astuple(use)] for use in in_use],
        "page_room": [
            [each.pages, round(each.missing, 4), round(each.refused, 3), round(each.excess, 3)] for each in found
        ],
    }
    for name, rows in seen.items():
        context.evidence[name] = [*context.evidence.get(name, []), *rows]
    alike = len({each.pages for each in groups}) == 1
    told = included(in_use if alike else [])
    if told[0] is None and alike:
        hinted = inclusive_by_groups(context, region, sets.groups, cycles[2] - cycles[1])
        told = told if hinted == (None, NO_HINT) else hinted
    return WholePages(tuple(found), first_pages, all_levels, sets.ways, told)


def with_pages(own: Geometry, pages: WholePages, line_bytes: int) -> Geometry:
    """The second cache's geometry with its size, where it was full of pages twice, with others each time; or with what
    pages that stay tell it holds at least, if that is more than is known."""
    if not pages.all_levels:
        return own
    least, known = pages.least_bytes, own.least_bytes or 0
    size = whole_size(pages.found, TLB_PAGE_BYTES, pages.first_pages)
    ways = own.ways and sizes_with_ways(size or 0, size or 0, own.ways, line_bytes)
    if size is not None and size >= known and (own.ways is None or ways):
        return replace(own, whole_bytes=size)
    if least <= known:
        return own
    reason = f"pages of {least / 2**20:.3g} MiB stay at once; {own.reason}"
    return replace(own, least_bytes=least, most_bytes=max(own.most_bytes or 0, least), reason=reason)

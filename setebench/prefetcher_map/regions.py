"""Region prefetchers: they remember, over visits to other pages, which lines followed a first access."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.table_size import bisect
from setebench.prefetcher_map.visit import BLOCK_PAGES, Access, Kind, Visit

ROUNDS = 4
"""Visits to every page of a lesson in one round of it; prefetchers that want the same footprint twice see it."""

TAUGHT_PAGES = 100
"""Pages of a lesson, and of what follows it: more than are watched at once, so that all of it has been learnt."""

FIRST, SECOND = 0x2A00, 0x3B55
"""Instruction addresses of the first and of later accesses of a lesson."""

LARGEST_TABLE = 60


@dataclass
class Region:
    """What was found of a region prefetcher."""

    present: bool | None = None
    active: int | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def lesson(
    lab: Laboratory, follower: int, how: Kind = "load", first: int = FIRST, start: int = 2
) -> tuple[Access, ...]:
    """Accesses to line `start` and then to `follower`, one page after the other."""
    size = lab.line_size
    return tuple(
        access
        for page in range(1, TAUGHT_PAGES + 1)
        for access in (Access(start * size, how, first, page), Access(follower * size, how, SECOND, page))
    )


def alone(lab: Laboratory, how: Kind = "load", first: int = FIRST, start: int = 2) -> tuple[Access, ...]:
    """The same without what follows the first access: the lesson that teaches nothing."""
    return tuple(Access(start * lab.line_size, how, first, page) for page in range(1, TAUGHT_PAGES + 1))


def test_visit(lab: Laboratory, taught: tuple[Access, ...], first: int = FIRST, start: int = 2) -> Visit:
    """A lesson, then the first access alone in a fresh page."""
    return Visit((Access(start * lab.line_size, "load", first),), lessons=taught)


def recalls(lab: Laboratory, follower: int, **how: object) -> bool | None:
    """Whether a first access brings what followed it in the lesson, and nothing of the kind without the lesson."""
    taught = lab.brings(test_visit(lab, lesson(lab, follower)), follower)
    if not taught:
        return taught
    control = lab.brings(test_visit(lab, alone(lab)), follower)
    return None if control is None else not control


def find_region(lab: Laboratory) -> Region:
    """Whether there is a region prefetcher; sets what the laboratory does to keep it quiet."""
    found = Region()
    near = [recalls(lab, follower) for follower in (7, 12)]
    found.present = True if True in near else (None if None in near else False)
    if found.present:
        found.active = active_regions(lab, 7 if near[0] else 12)
        lab.known.forget = min(2 * (found.active or LARGEST_TABLE) + 6, BLOCK_PAGES - 4)
    return found


def _watched(lab: Laboratory, follower: int, pages: int) -> Visit:
    """So many pages whose footprints are to be recorded at once: all are opened before any is continued. Then the first
    access alone, which brings the follower if they were."""
    size = lab.line_size
    one = [Access(2 * size, "load", FIRST, page) for page in range(1, pages + 1)]
    one += [Access(follower * size, "load", SECOND, page) for page in range(1, pages + 1)]
    # other pages, with other keys, until all of it has been learnt
    others = [Access(9 * size, "load", SECOND + 0x155, page) for page in range(pages + 1, BLOCK_PAGES)]
    return replace(test_visit(lab, ()), lessons=tuple([*one, *others] * ROUNDS))


def active_regions(lab: Laboratory, follower: int) -> int | None:
    """Regions whose footprints are recorded at once; None where there is no clear limit."""
    return bisect(
        lambda pages: lab.brings(_watched(lab, follower, pages), follower),
        LARGEST_TABLE,
        lambda pages: lab.plainly(_watched(lab, follower, pages), follower),
    )

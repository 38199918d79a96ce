"""How many ways a cache has, from groups of whole pages that share its sets. Knows no machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAGE_SETS = 64
"""Sets of a page's lines."""

OVERFULL_LINES = 0.5 * PAGE_SETS
"""Lines that miss per round from which on a group is taken for one page too many: that makes a line of every one of its
sets miss, at least; prefetchers hide some."""

CLEAR_LINES, LEFT_LINES = 0.7 * PAGE_SETS, 0.3 * PAGE_SETS
"""Lines that miss at least of a group that is told, and at most when one page is left out, whichever it is. In between
something else takes a part of the sets, or the first cache keeps some lines: then the group may be one too large or too
small."""

AGREEING = 3
"""Groups that must be of the same number of pages."""

LEAST_WAYS = 2


@dataclass(frozen=True)
class Group:
    """So many pages, of whose lines so many are `missing` per round, and at most so many are `left` missing when one
    page less is walked over."""

    pages: int
    missing: float = 0.0
    left: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether all of them are needed for that."""
        return self.missing > CLEAR_LINES and self.left < LEFT_LINES and self.pages > LEAST_WAYS


def same_ways(groups: Sequence[Group]) -> int | None:
    """Ways of a cache of which these groups of pages were found; None if they are too few or
    differ."""
    pages = {each.pages for each in groups}
    return pages.pop() - 1 if len(groups) >= AGREEING and len(pages) == 1 else None

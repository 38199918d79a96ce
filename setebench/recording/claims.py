"""What a recording may claim of its machine and of memory. A scenario takes memory in proportion to both (a word for
each line of a region, one for each pair of CPUs), so they are checked before it is asked."""

from __future__ import annotations

import math

from setebench.errors import UsageError
from setebench.machine import Facts

MOST_REGION_BYTES = 1 << 36
"""Of one region: 64 GiB, four times what the largest last-level cache of today (1.1 GiB) makes the streams ask for."""

MOST_MEMORY_BYTES = 1 << 46
"""Of a machine: 64 TiB, what the largest servers of today hold."""

MOST_CPUS = 1 << 13
"""What Linux is built for at most."""

MOST_LINE_BYTES, MOST_PAGE_BYTES = 1 << 12, 1 << 34
"""Powers of two above any that an architecture has had (256 bytes of a line, 16 GiB of a page)."""


def check_facts(facts: Facts) -> None:
    """Raise `UsageError` for a machine that there can't be."""
    sizes = (*_bounded(facts.line_size, MOST_LINE_BYTES), *(_page(each) for each in facts.page_sizes))
    cpus = max(len(facts.cpus), sum(map(len, facts.siblings)), len(facts.nodes))
    rates = (facts.ticks_per_second, facts.lines_per_second)
    possible = (
        all(sizes)
        and bool(facts.cpus)
        and cpus <= MOST_CPUS
        and 0 <= facts.memory_bytes <= MOST_MEMORY_BYTES
        and all(math.isfinite(rate) and rate > 0 for rate in rates)
    )
    if not possible:
        raise UsageError("the recording is damaged: its machine is impossible")


def check_regions(regions: list[list[int]]) -> None:
    """Raise `UsageError` for regions that no machine gives: each is [asked bytes, page bytes, address, bytes]."""
    for region in regions:
        if len(region) != 4:
            raise UsageError("the recording is damaged: its parts don't fit together")
        asked, page, address, size = region
        refused = address < 0
        # a machine gives what was asked for, rounded up to its pages; a plug-in may give more, but why twice as much?
        fits = refused or asked <= size <= 2 * asked + page
        if not (0 <= asked <= MOST_REGION_BYTES and _page(page) and fits):
            raise UsageError(f"the recording is damaged: a region of {size} bytes for {asked} is impossible")


def _page(size: int) -> bool:
    return all(_bounded(size, MOST_PAGE_BYTES))


def _bounded(size: int, most: int) -> tuple[bool, bool]:
    return 0 < size <= most, size & (size - 1) == 0

"""Visits: a few chosen accesses to a fresh page, with everything around them controlled, as data.

What keeps other prefetchers out of a question is part of the visit: accesses from instruction addresses of their own
silence what is indexed by instruction address, lines that are in level 1 already silence requests for them, lines that
level 2 holds keep prefetchers that wait for its misses asleep, and a walk over other pages between two accesses makes
level 1's tables forget the page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

PAGE_BYTES = 4096

BLOCK_PAGES = 128
"""Pages of a block of other pages, as crowds and walks use; more than any table of pages is thought to have."""

FRESH_STEP = 65
"""Instruction addresses this far apart differ in their low six bits, up to 64 of them, and don't overlap."""

OWN_INSTRUCTIONS = 64

Kind = Literal["load", "store", "flush", "demote", "thrash", "t0", "t1", "t2", "nta", "w"]


def fresh(number: int) -> int:
    """Low bits of the instruction address of access `number`, unlike those of all others below `OWN_INSTRUCTIONS`."""
    return number * FRESH_STEP + 0x11


def own_instruction(number: int) -> int:
    """The same for any number: instruction addresses are used again in turn."""
    return fresh(number % OWN_INSTRUCTIONS)


@dataclass(frozen=True)
class Access:
    """One access: bytes from the page's beginning, how, from which instruction address (low bits; None: one of its
    own), and in which page (0: the visited one; else a page of the crowd)."""

    at: int
    how: Kind = "load"
    ip: int | None = None
    page: int = 0


@dataclass(frozen=True)
class Visit:
    """Accesses to a page, all of whose lines in `window` (first, end; in lines) are flushed first.

    `warm` lines are in level 1 before the first access, `demoted` ones in level 2 alone. `thrash`: level 1's tables are
    made to forget the page before every access. `forget`: every access is made on its own beforehand, in other pages,
    and so many regions are opened then that those pages are watched no longer: a region prefetcher remembers nothing
    else of the access. `lessons`: accesses to pages
    of the crowd, before everything else. `anchor`: a line in level 1 that is loaded before every software prefetch,
    because some cores drop those to another page than the latest load's. `chained`: each access's address depends on
    the value of the one before, and no fence stands between them: some prefetchers of level 1 are quiet while a fence
    waits. For loads alone. `burst`: so many loads (or prefetches, which
    block no core) of lines that level 2 holds and level 1 lacks stand right before the
    last access, without a fence, so that level 1 has no miss entry left for what its prefetchers ask then, and level 2
    has."""

    steps: tuple[Access, ...]
    warm: tuple[int, ...] = ()
    demoted: tuple[int, ...] = ()
    thrash: bool = False
    forget: int = 0
    window: tuple[int, int] = (0, 64)
    lessons: tuple[Access, ...] = ()
    anchor: int | None = None
    chained: bool = False
    burst: int = 0
    burst_how: Literal["load", "t0"] = "load"

    def untrained(self) -> Visit:
        """The same without its accesses: what the page's lines are like anyway."""
        return replace(self, steps=())

"""Prefetchers that bring one neighbouring line: next line, line pair, up/down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.visit import Access, Kind, Visit

BURSTS: tuple[tuple[int, Literal["load", "t0"]], ...] = (
    *((count, "load") for count in (16, 32, 64, 128)),
    *((count, "t0") for count in (16, 32, 64, 128)),
)
"""Loads that may use up level 1's miss entries, from some of the counts that CPUs have to more; most likely first."""

MOST_REPEATED = 6
"""Accesses to one line after which a next-line prefetcher is no longer waited for."""


@dataclass
class Neighbours:
    """What was found; None where it stays unclear. `next_trigger` counts accesses to one line; `flushed` says that they
    had to miss each time; `up_down_seen` that what going down brings was there, or may have been, whatever explains it;
    `hidden` that level 1 brings the next line on every access, so that level 2's prefetcher of it hardly shows."""

    next_line: bool | None = None
    next_trigger: int | None = None
    next_level: str | None = None
    flushed: bool = False
    pair: bool | None = None
    l2_next_line: bool | None = None
    hidden: bool = False
    up_down: bool | None = None
    up_down_seen: bool = False


def odd_line(lab: Laboratory) -> int:
    """An odd line amid the page."""
    return lab.page_lines // 2 - 3


def even_line(lab: Laboratory) -> int:
    """An even line amid the page."""
    return lab.page_lines // 2 + 4


def repeated(lab: Laboratory, count: int, flushed: bool, how: Kind = "load", at: int | None = None) -> Visit:
    """`count` accesses to one line, flushed in between or not."""
    line = (odd_line(lab) if at is None else at) * lab.line_size
    steps: list[Access] = []
    for number in range(count):
        if number and flushed:
            steps.append(Access(line, "flush"))
        steps.append(Access(line, how))
    return Visit(tuple(steps))


def find_neighbours(lab: Laboratory) -> Neighbours:
    """Look for all of them."""
    found = Neighbours()
    _next_line(lab, found)
    _pair(lab, found)
    _level_two(lab, found)
    return found


def _next_line(lab: Laboratory, found: Neighbours) -> None:
    """The next line in level 1 after some accesses to one line: no other prefetcher sees several accesses in that."""
    target = odd_line(lab) + 1
    told = []
    for flushed in (False, True):
        told.append(lab.in_l1(repeated(lab, MOST_REPEATED, flushed), target))
        if told[-1]:
            found.next_line, found.flushed, found.next_level = True, flushed, "l1"
            found.next_trigger = _first(lab, flushed, target)
            return
    if None not in told:
        found.next_line = False


def _first(lab: Laboratory, flushed: bool, target: int) -> int | None:
    for count in range(1, MOST_REPEATED):
        inner = lab.in_l1(repeated(lab, count, flushed), target)
        if inner is None:
            return None
        if inner:
            return count
    return MOST_REPEATED


def _pair(lab: Laboratory, found: Neighbours) -> None:
    """One access to an odd line brings the even one before it; the line before an even one stays away."""
    odd, even = odd_line(lab), even_line(lab)
    before_odd = lab.brings(repeated(lab, 1, False), odd - 1)
    before_even = lab.brings(repeated(lab, 1, False, at=even), even - 1)
    if before_odd is not None and before_even is not None:
        found.pair = before_odd and not before_even


def downwards(lab: Laboratory, line: int) -> Visit:
    """An access to a line after one further up, which level 2 hears of and which starts none of its streams: it hits
    there. What a next-line prefetcher of level 1 would ask for is there already. No walk over other pages in between:
    level 2 would forget which way the page's accesses went."""
    above = line + 10
    steps = (Access(above * lab.line_size), Access(line * lab.line_size))
    warm = (above + 1,) if lab.known.next_after_hits else ()
    return Visit(steps, warm=warm, demoted=(above,))


def _level_two(lab: Laboratory, found: Neighbours) -> None:
    """The next line after one access to an odd line, where level 1's own prefetcher doesn't hide it; and whether the
    line before an even one comes when the page's accesses went downwards."""
    odd, even = odd_line(lab), even_line(lab)
    lab.known.next_after_hits = found.next_line is not False
    found.up_down = lab.brings(downwards(lab, even), even - 1)
    found.up_down_seen = found.up_down is not False
    if found.next_line is not False and found.next_trigger in (None, 1):
        found.hidden, found.l2_next_line = True, _without_entries(lab, found)
        return
    after = lab.brings(repeated(lab, 1, False), odd + 1)
    found.l2_next_line = after if not after else lab.brings(downwards(lab, odd), odd + 1)


def _without_entries(lab: Laboratory, found: Neighbours) -> bool | None:
    """Whether level 2 brings the next line where level 1 does after every access, too: behind a burst of misses, level
    1 may have no entry left for its own request, and drop it. Then the line is in an outer cache, or nowhere; if it
    still is in level 1, nothing follows. Nor does anything from its being nowhere if others that level 2 is known to
    have bring nothing behind a burst either: some cores pause all their prefetchers then."""
    odd = odd_line(lab)
    for burst, how in BURSTS:
        if how != "load" and how not in lab.context.machine.facts.prefetch_hints:
            continue
        visit = replace(downwards(lab, odd), burst=burst, burst_how=how)
        level = lab.level(visit, odd + 1)
        if level in (None, "l1"):
            continue
        if level == "memory" and (found.pair or found.up_down) and not lab.brings(visit, odd - 1):
            return None
        return level != "memory"
    return None

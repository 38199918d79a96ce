"""What prefetchers do, described: lines that come after canonical sequences of accesses.

The prefetchers' own rules are run, interpreted, in a level of endless size where everything arrives at once, so that
nothing but the rules decides, but for what a prefetcher drops when an access has it ask for more lines than there are
miss entries. Every sequence is seen after SCATTERED accesses to scattered lines, from which there is
nothing to be learned, as the start is not what a long-running machine shows, and after it was repeated; runs once more
after further such accesses, which leave what was learned for good: whoever asks again can't see what was before that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Space
from setebench.sim.build_prefetchers import lay_out_prefetchers
from setebench.sim.prefetchers import KINDS

SCATTERED = 5300
"""More than two of the longest learning phases that a best-offset prefetcher has within a page (26 offsets, 100
rounds): what it uses in one was learned in the one before."""

REPEATED, LEAST_COUNTED = 2600, 4
"""Accesses of a sequence in other pages until it counts as practised, where those to one page count as four at least:
as many as a learning phase of a best-offset prefetcher has at most; an offset's score of 31 takes 2015 where two of
five accesses score."""

LEAD_ACCESSES, LEAD_FROM = 16, 4
"""Accesses of the run whose lead is described, and the line of the page at which it begins, off the page's ends."""

PAGES = 2048
SPREAD = 3
"""Sequences lie in every third page, so that what goes over a page's end doesn't meet the next one."""

SCATTER_LINES, SCATTER_INSTRUCTIONS, SCATTER_IP = 1 << 24, 1000, 0x100000
AGAIN = 2
"""Seed of further scattered accesses, to other lines than the first."""
MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407
"""Of the linear congruential generator that scatters (Knuth, MMIX)."""

SEQUENCE_IP = 0x4000
Access = tuple[int, int]
"""(line, instruction address)."""


class Accessed(Protocol):
    """Something whose lines can be accessed, and that says which others come by it."""

    page_lines: int

    @property
    def there(self) -> set[int]:
        """Lines that are there."""

    def access(self, line: int, ip: int) -> list[int]:
        """Lines that weren't there and come because of an access."""

    def fresh_page(self) -> int:
        """First line of a page that nothing was accessed in or beside."""


@dataclass
class Level:
    """Prefetchers of one level, alone, and the lines that are there.

    `trains`: kind, configuration and state of each prefetcher, whether it fills this level or one below, and how many
    lines may be on their way for it at once;
    `page_lines`: lines of a 4 KiB page; `there`: lines in this level or one below, `here`: in this level."""

    trains: list[tuple[int, int, int, bool, int]]
    c: list[int]
    s: list[int]
    page_lines: int
    there: set[int] = field(default_factory=set)
    here: set[int] = field(default_factory=set)
    next_page: int = SPREAD

    def copy(self) -> Level:
        """The same state once more."""
        return Level(self.trains, self.c, self.s[:], self.page_lines, set(self.there), set(self.here), self.next_page)

    def access(self, line: int, ip: int) -> list[int]:
        """Lines that weren't there and come because of an access."""
        s = self.s
        s[at.S_SEEN_ADDRESS], s[at.S_SEEN_LINE] = line << self.c[at.C_LINE_BITS], line
        s[at.S_SEEN_IP], s[at.S_SEEN_MISSES] = ip, int(line not in self.here)
        s[at.S_SEEN_SOURCE] = at.BY_LOAD
        misses = line not in self.there
        self.there.add(line)
        self.here.add(line)
        out, asked, fresh = self.c[at.C_OUT], 0, []
        for number, p, q, fills_here, most in self.trains:
            before, asked = asked, KINDS[number].train(self.c, s, p, q, asked)
            lines = dict.fromkeys(each for each in s[out + before : out + asked] if each >= 0)
            came = [each for each in lines if each not in self.there][: max(most - misses, 0)]
            fresh += came
            self.there.update(came)
            if fills_here:
                self.here.update(each for each in lines if each in self.there)
        return fresh

    def fresh_page(self) -> int:
        """First line of a page that nothing was accessed in or beside."""
        self.next_page += SPREAD
        return self.next_page * self.page_lines


def level_of(
    prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, huge: bool = False, entries: Sequence[int] = ()
) -> Level:
    """A level with these prefetchers and nothing learned; `huge`: all pages are parts of 2 MiB pages; `entries`: miss
    entries that prefetches may have, by level (0, or none given: no limit)."""
    plain = spec.Level(sets=64, ways=8, latency_cycles=4.0)
    alone = tuple(msgspec.structs.replace(each, shared_by_smt=True) for each in prefetchers)
    line: Any = line_size
    machine = spec.Machine(name="", levels=(plain, plain), line_size_bytes=line, prefetchers=alone)
    c, space = [0] * at.C_WORDS, Space()
    c[at.C_LINE_BITS] = line_size.bit_length() - 1
    c[at.C_PAGE_LINES_BITS] = at.PAGE_BITS - c[at.C_LINE_BITS]
    c[at.C_PAGES] = PAGES
    c[at.C_OUT] = space.take(at.MAX_OUT)
    c[at.C_PAGE_TABLE], c[at.C_FRAME_TABLE] = space.take(PAGES), space.take(PAGES)
    lay_out_prefetchers(c, machine, space)
    s = [0] * space.words
    for page in range(PAGES):
        s[c[at.C_PAGE_TABLE] + page] = at.PRESENT | (at.HUGE if huge else 0) | page << at.FRAME_BITS
        s[c[at.C_FRAME_TABLE] + page] = page + 1
    places = [at.C_PREFETCHER + index * at.P_WORDS for index in range(len(alone))]
    trains = [
        (c[p + at.P_KIND], p, c[p + at.P_STATE], each.fills == f"l{each.level}", _most(each, entries))
        for p, each in zip(places, alone, strict=True)
    ]
    return Level(trains, c, s, (1 << at.PAGE_BITS) // line_size)


def _most(prefetcher: spec.AnyPrefetcher, entries: Sequence[int]) -> int:
    """How many lines it may fetch at once, the one accessed among them: one that waits for entries gets all."""
    level = int(prefetcher.fills[1])
    limit = entries[level - 1] if len(entries) >= level and prefetcher.when_full == "drops" else 0
    return limit or at.MAX_OUT + 1


def scatter(level: Level, seed: int = 1) -> Level:
    """Accesses to lines in no order, so far apart that no two are a page apart but by accident."""
    state, first = seed, PAGES * level.page_lines
    for number in range(SCATTERED):
        state = (state * MULTIPLIER + INCREMENT) % 2**64
        level.access(first + (state >> 33) % SCATTER_LINES, SCATTER_IP + 4 * (number % SCATTER_INSTRUCTIONS))
    return level


# -- sequences -------------------------------------------------------------------------------------------------------


def _up(page: int, lines: int) -> list[Access]:
    return [(page + line, SEQUENCE_IP) for line in range(LEAD_FROM, lines)]


def _down(page: int, lines: int) -> list[Access]:
    return [(page + line, SEQUENCE_IP) for line in range(lines - 1 - LEAD_FROM, -1, -1)]


def _stride(page: int, lines: int) -> list[Access]:
    return [(page + line, SEQUENCE_IP + 4) for line in range(0, lines, 3)]


SEQUENCES = {
    "up": _up,
    "down": _down,
    "stride": _stride,
}
"""Sequences of accesses to a page by one instruction: lines up or down to its end, and every third line."""


@dataclass(frozen=True)
class Visit:
    """One sequence in a page: which accesses found their line there, for each access where the lines lay that came by
    it, in lines from it, and whether any came into another page."""

    found: tuple[bool, ...]
    brought: tuple[tuple[int, ...], ...]
    crossed: bool

    def furthest(self, step: int) -> int:
        """How many lines ahead of an access the furthest line came, where the sequence goes up (1) or down (-1)."""
        return max((distance * step for each in self.brought for distance in each), default=0)

    @property
    def covered(self) -> bool:
        """Whether at least half of the accesses of the second half found their lines there."""
        late = self.found[len(self.found) // 2 :]
        return 2 * sum(late) >= len(late)


def visit(level: Accessed, sequence: Sequence[Access], page: int) -> Visit:
    """Go through one page."""
    found, brought, crossed = [], [], False
    for line, ip in sequence:
        found.append(line in level.there)
        fresh = level.access(line, ip)
        brought.append(tuple(each - line for each in fresh))
        crossed = crossed or any(each // level.page_lines != page // level.page_lines for each in fresh)
    return Visit(tuple(found), tuple(brought), crossed)


def practised(level: Level, name: str) -> Visit:
    """The last of so many visits that they make REPEATED accesses."""
    made = 0
    while True:
        page = level.fresh_page()
        sequence = SEQUENCES[name](page, level.page_lines)
        seen = visit(level, sequence, page)
        made += max(len(sequence), LEAST_COUNTED)
        if made >= REPEATED:
            return seen


# -- descriptions ----------------------------------------------------------------------------------------------------


def lead(level: Accessed, step: int = 1) -> tuple[list[int], int]:
    """A run of LEAD_ACCESSES lines in a fresh page: how many lines ahead of it have come after each access, and how far
    ahead the furthest lies of those that came by an access."""
    page = level.fresh_page()
    first = page + LEAD_FROM if step > 0 else page + level.page_lines - 1 - LEAD_FROM
    ahead: set[int] = set()
    counts, furthest = [], 0
    for number in range(min(LEAD_ACCESSES, level.page_lines - LEAD_FROM)):
        line = first + number * step
        ahead.update(level.access(line, SEQUENCE_IP))
        distances = [(each - line) * step for each in ahead]
        counts.append(sum(distance > 0 for distance in distances))
        furthest = max([furthest, *distances])
    return counts, furthest


@dataclass(frozen=True)
class Description:
    """What prefetchers of a level do together, in the words of `prefetcher.LEVEL.other.*` of docs/parameters.md."""

    patterns: tuple[str, ...]
    lead: tuple[int, ...]
    max_distance: int
    crosses_4k: bool

    @property
    def directions(self) -> str | None:
        """Ways of runs whose lines come, None where none do."""
        ways = [way for way in ("up", "down") if way in self.patterns]
        return "both" if len(ways) == 2 else ways[0] if ways else None

    @property
    def trigger(self) -> int | None:
        """The access of a run by which the first line comes, None where none does."""
        return next((number for number, lines in enumerate(self.lead, 1) if lines), None)


@functools.lru_cache(maxsize=512)
def described(
    prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, huge: bool = False, entries: tuple[int, ...] = ()
) -> Description:
    """What these prefetchers of one level do together; see `level_of`."""
    start = scatter(level_of(prefetchers, line_size, huge, entries))
    seen: dict[str, Visit] = {}
    after: dict[str, Level] = {}
    for name in SEQUENCES:
        after[name] = start.copy()
        seen[name] = practised(after[name], name)
    patterns = tuple(name for name, visited in seen.items() if visited.covered)
    step = -1 if "up" not in patterns and "down" in patterns else 1
    way = "up" if step > 0 else "down"
    first, furthest = lead(scatter(after[way], AGAIN), step)
    return Description(
        patterns=patterns,
        lead=tuple(first),
        max_distance=max(furthest, seen[way].furthest(step)),
        crosses_4k=any(each.crossed for each in seen.values()),
    )


@functools.lru_cache(maxsize=512)
def lead_of(prefetcher: spec.AnyPrefetcher, line_size: int, step: int = 1) -> tuple[int, ...]:
    """The lead of a run in a prefetcher that has learned nothing."""
    return tuple(lead(level_of((prefetcher,), line_size), step)[0])

"""What prefetchers do, described: lines that come ahead of a run of accesses.

The prefetchers' own rules are run, interpreted, in a level of endless size where everything arrives at once, so that
nothing but the rules decides, but for what a prefetcher drops when an access has it want more lines than there are miss
entries. A run comes after SCATTERED accesses to scattered lines, as the start is not what a long-running machine shows,
after others like it, and after further such accesses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Space
from setebench.sim.build_prefetchers import lay_out_prefetchers
from setebench.sim.prefetchers import KINDS

SCATTERED = 5300
"""More than two of the longest learning phases of a best-offset prefetcher within a page (26 offsets, 100 rounds): what
it uses in one was learned in the one before."""

REPEATED, LEAST_COUNTED = 2600, 4
"""Accesses of runs in other pages before, as many as such a phase has; those to one page count as four at least."""

LEAD_ACCESSES, LEAD_FROM = 16, 4
"""Accesses of the run whose lead is described, and the line of the page at which it begins, off the page's ends."""

PAGES, SPREAD = 2048, 3  # a run lies in every third page, so that what goes over a page's end meets no other
SCATTER_LINES, SCATTER_INSTRUCTIONS, SCATTER_IP, SEQUENCE_IP = 1 << 24, 1000, 0x100000, 0x4000
MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407  # of the generator that scatters (Knuth, MMIX)


@dataclass
class Level:
    """Prefetchers of one level, alone, and the lines that are there.

    `trains`: kind, configuration and state of each prefetcher, whether it fills this level or one below, and how many
    lines may be on their way for it at once; `there`: lines in this level or one below, `here`: in this level."""

    trains: list[tuple[int, int, int, bool, int]]
    c: list[int]
    s: list[int]
    page_lines: int
    there: set[int] = field(default_factory=set)
    here: set[int] = field(default_factory=set)
    next_page: int = SPREAD

    def access(self, line: int, ip: int) -> list[int]:
        """Lines that weren't there and come because of an access."""
        s = self.s
        s[at.S_SEEN_ADDRESS], s[at.S_SEEN_LINE] = line << self.c[at.C_LINE_BITS], line
        s[at.S_SEEN_IP], s[at.S_SEEN_MISSES] = ip, int(line not in self.here)
        s[at.S_SEEN_SOURCE] = at.BY_LOAD
        misses = line not in self.there
        self.there.add(line)
        self.here.add(line)
        out, wanted, fresh = self.c[at.C_OUT], 0, []
        for number, p, q, fills_here, most in self.trains:
            before, wanted = wanted, KINDS[number].train(self.c, s, p, q, wanted)
            lines = dict.fromkeys(each for each in s[out + before : out + wanted] if each >= 0)
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

    def scatter(self, seed: int = 1) -> Level:
        """Access lines in no order, so far apart that no two are a page apart but by accident."""
        state, first = seed, PAGES * self.page_lines
        for number in range(SCATTERED):
            state = (state * MULTIPLIER + INCREMENT) % 2**64
            self.access(first + (state >> 33) % SCATTER_LINES, SCATTER_IP + 4 * (number % SCATTER_INSTRUCTIONS))
        return self


def level_of(prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, entries: Sequence[int] = ()) -> Level:
    """A level with these prefetchers and nothing learned; `entries`: miss entries that prefetches may have, by level
    (0, or none given: no limit)."""
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
        s[c[at.C_PAGE_TABLE] + page] = at.PRESENT | page << at.FRAME_BITS
        s[c[at.C_FRAME_TABLE] + page] = page + 1
    trains = []
    for index, each in enumerate(alone):
        p, fills = at.C_PREFETCHER + index * at.P_WORDS, int(each.fills[1])
        limit = entries[fills - 1] if len(entries) >= fills and each.when_full == "drops" else 0
        trains.append((c[p + at.P_KIND], p, c[p + at.P_STATE], fills == each.level, limit or at.MAX_OUT + 1))
    return Level(trains, c, s, (1 << at.PAGE_BITS) // line_size)


def _run(level: Level, accesses: int) -> tuple[list[int], int]:
    """A run up a fresh page: how many lines ahead of it have come after each access, and how far ahead the furthest of
    them lay."""
    first = level.fresh_page() + LEAD_FROM
    return _lead(level, range(first, first + min(accesses, level.page_lines - LEAD_FROM)))


def _lead(level: Level, lines: range) -> tuple[list[int], int]:
    ahead: set[int] = set()
    counts, furthest = [], 0
    for line in lines:
        ahead.update(level.access(line, SEQUENCE_IP))
        distances = [(each - line) * lines.step for each in ahead]
        counts.append(max([0, *distances]))
        furthest = max([furthest, *distances])
    return counts, furthest


@functools.lru_cache(maxsize=512)
def described(
    prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, entries: tuple[int, ...] = ()
) -> tuple[tuple[int, ...], int]:
    """What these prefetchers of one level do together in a run after many others: how many lines ahead have come after
    each of its accesses, and how far ahead lines come."""
    level = level_of(prefetchers, line_size, entries).scatter()
    furthest, made = 0, 0
    while made < REPEATED:
        counts, furthest = _run(level, level.page_lines)
        made += max(len(counts), LEAST_COUNTED)
    counts, ahead = _run(level.scatter(2), LEAD_ACCESSES)
    return tuple(counts), max(ahead, furthest)


@functools.lru_cache(maxsize=512)
def lead_of(prefetcher: spec.AnyPrefetcher, line_size: int, step: int = 1) -> tuple[int, ...]:
    """How many lines ahead have come after each access of a run in a prefetcher that has learned nothing."""
    level = level_of((prefetcher,), line_size)
    number = min(LEAD_ACCESSES, level.page_lines - LEAD_FROM)
    first = level.fresh_page() + (LEAD_FROM if step > 0 else level.page_lines - 1 - LEAD_FROM)
    return tuple(_lead(level, range(first, first + number * step, step))[0])

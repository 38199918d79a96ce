"""What prefetchers do, described: lines that come after canonical sequences of accesses.

The prefetchers' own rules are run, interpreted, in a level of endless size where everything arrives at once, so that
nothing but the rules decides, but for what a prefetcher drops when an access has it ask for more lines than there are
miss entries. Every sequence is seen after SCATTERED accesses to scattered lines, from which there is
nothing to be learned, as the start is not what a long-running machine shows, and after it was repeated; runs once more
after further such accesses, which leave what was learned for good: whoever asks again can't see what was before that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
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
FOOTPRINT = (0, 5, 11, 3, 14)
"""Lines of a block of 16 in an order without a stride; each is accessed by an instruction of its own. Five of them, and
an odd number of alternating distances, because a best-offset prefetcher tests its 7, 12, 19 or 26 offsets in turn: they
must not meet the same places of every page."""

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


def _deltas(page: int, lines: int) -> list[Access]:
    chosen = [line for line in range(lines) if line % 5 in (0, 2)]
    return [(page + line, SEQUENCE_IP + 8) for line in chosen[: len(chosen) - 1 + len(chosen) % 2]]


def _footprint(page: int, _lines: int) -> list[Access]:
    return [(page + line, SEQUENCE_IP + 16 * (1 + number)) for number, line in enumerate(FOOTPRINT)]


def _single(page: int, lines: int) -> list[Access]:
    return [(page + lines // 2, SEQUENCE_IP + 12)]


SEQUENCES = {
    "up": _up,
    "down": _down,
    "stride": _stride,
    "deltas": _deltas,
    "footprint": _footprint,
    "single": _single,
}
"""Sequences of accesses to a page: lines up or down to its end, every third line, steps of two and three lines in turn,
some lines in no order (the same ones in every page), and one line alone."""


@dataclass(frozen=True)
class Visit:
    """One sequence in a page: which accesses found their line there, and for each access where the lines lay that came
    by it, in lines from it. `came`: any came; `crossed`: into another page."""

    found: tuple[bool, ...]
    brought: tuple[tuple[int, ...], ...]
    crossed: bool
    into_next: bool

    @property
    def came(self) -> bool:
        """Whether any access brought a line."""
        return any(self.brought)

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
    return Visit(tuple(found), tuple(brought), crossed, page + level.page_lines in level.there)


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
    lead_after_runs: tuple[int, ...]
    max_distance: int
    crosses_4k: bool
    stopped_by: tuple[str, ...] | None

    @property
    def directions(self) -> str | None:
        """Ways of runs whose lines come, None where none do."""
        ways = [way for way in ("up", "down") if way in self.patterns]
        return "both" if len(ways) == 2 else ways[0] if ways else None

    @property
    def trigger(self) -> int | None:
        """The access of a run by which the first line comes, None where none does."""
        for led in (self.lead, self.lead_after_runs):
            if any(led):
                return next(number for number, lines in enumerate(led, 1) if lines)
        return None


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
    patterns = list(_patterns(seen))
    step = -1 if "up" not in patterns and "down" in patterns else 1
    way = "up" if step > 0 else "down"
    later, far = lead(after[way].copy(), step)
    first, near = lead(scatter(after[way].copy(), AGAIN), step)
    whole = seen[way]
    return Description(
        patterns=tuple(patterns),
        lead=tuple(first),
        lead_after_runs=tuple(later),
        max_distance=max(near, far, whole.furthest(step)),
        crosses_4k=any(each.crossed for each in seen.values()),
        stopped_by=_stopped_by(after["up"]) if "up" in patterns else None,
    )


def _patterns(seen: dict[str, Visit]) -> Iterator[str]:
    """Sequences whose lines come before they are accessed; a single access has any line come, and after a run to a
    page's end the next page's first line is there."""
    for name in ("up", "down", "stride", "deltas", "footprint"):
        if seen[name].covered:
            yield name
    if seen["up"].into_next:
        yield "next_page"
    if seen["single"].came:
        yield "single"


STOPS = ("skip", "repeat", "other_instruction", "page")


def _stopped_by(level: Level) -> tuple[str, ...] | None:
    """After what a run's next two accesses bring nothing, where otherwise they do: a line left out, its last line
    accessed twice again, a change of instruction, the page's end."""
    if not goes_on(level.copy(), ""):
        return None
    return tuple(event for event in STOPS if not goes_on(level.copy(), event))


def goes_on(level: Accessed, event: str) -> bool:
    """Whether the two accesses after an event (one of STOPS, "" for none) bring lines."""
    page = level.fresh_page()
    run = _up(page, level.page_lines)
    reached = len(run) if event == "page" else 8
    for line, ip in run[:reached]:
        level.access(line, ip)
    line, ip = run[reached - 1]
    if event == "repeat":
        level.access(line, ip)
        level.access(line, ip)
    line += 1 if event == "skip" else 0
    ip += 4096 if event == "other_instruction" else 0
    return any([level.access(line + 1, ip), level.access(line + 2, ip)])


@functools.lru_cache(maxsize=512)
def lead_of(prefetcher: spec.AnyPrefetcher, line_size: int, step: int = 1) -> tuple[int, ...]:
    """The lead of a run in a prefetcher that has learned nothing."""
    return tuple(lead(level_of((prefetcher,), line_size), step)[0])

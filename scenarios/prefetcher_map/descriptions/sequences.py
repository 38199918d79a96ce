"""Sequences of accesses that were made often, and which lines are there after some of them in a fresh page.

Every repetition makes a sequence in other pages, then begins it in a fresh one. Lines that came stay there, so the
access by which one came is a threshold: it is there after that one, and not after the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from setebench.experiments.visits import LAYOUT, Access, Visit, instruction

from ..found import Answer, some
from ..lab import Lab


@dataclass(frozen=True, kw_only=True)
class Practice:
    """learned: accesses of a sequence before its questions, more than a learning phase of best-offset prefetching has
    (26 offsets, 100 rounds). each, pages: accesses of it before every repetition, in so many pages at least and at
    most: many against those of the page in question, which ends early, and against the load that asks.
    scattered: accesses to scattered lines after which what has to learn was to learn anew, more than such a phase.
    reached: accesses of a run before what may end it. footprint: lines in an order without a stride. ip_step: bytes
    between the instructions of sequences, so that what learns by instruction learns each apart; other_ip: another
    instruction, with other low six bits, that goes on with a run."""

    learned: int = 2600
    scattered: int = 5300
    reached: int = 8
    footprint: tuple[int, ...] = (0, 5, 11, 3, 14)
    ip_step: int = 128
    other_ip: int = 0x3D40


P = Practice()
Arrivals = dict[int, int]
"""By line the number of the access by which it came, 0 where it did not."""
Comes = Callable[[Visit, int], Answer]
"""Whether a visit brings a line to the caches in question."""


@dataclass(frozen=True)
class AccessSequence:
    """Accesses to lines of a page. ip: their one instruction; None: each has its own. pages: others in which they are
    made first, in every repetition."""

    lines: tuple[int, ...]
    ip: int | None
    pages: int

    def accesses(self, lab: Lab, page: int = 0) -> tuple[Access, ...]:
        """All of them, in a page."""
        ips = [instruction(number) if self.ip is None else self.ip for number in range(len(self.lines))]
        places = zip(self.lines, ips, strict=True)
        return tuple(Access(line * lab.line_size, ip=ip, page=page) for line, ip in places)

    def practice(self, lab: Lab) -> tuple[Access, ...]:
        """All of them in other fresh pages, one after the other."""
        return tuple(access for page in range(1, self.pages + 1) for access in self.accesses(lab, -page))


def sequences(lab: Lab) -> dict[str, AccessSequence]:
    """Those by which prefetchers are described, by name (docs/parameters.md), and in how many pages they are made
    before every repetition. That many, because the page in question ends early, with the load that asks: what foresees
    any line that came next once in four times would foresee that one, and be less sure of all behind it."""
    lines, start = lab.page_lines, lab.params.lead_from
    deltas = [line for line in range(lines) if line % 5 in (0, 2)]
    table: dict[str, tuple[Sequence[int], int]] = {
        "up": (range(start, lines), 4),
        "down": (range(lines - 1 - start, -1, -1), 4),
        "stride": (range(0, lines, 3), 4),
        "deltas": (deltas[: len(deltas) - 1 + len(deltas) % 2], 4),
        "footprint": (P.footprint, 64),
        "single": ((lines // 2,), 16),
    }
    ips = {name: lab.params.same_ip + P.ip_step * number for number, name in enumerate(table)}
    return {
        name: AccessSequence(tuple(chosen), None if name == "footprint" else ips[name], pages)
        for name, (chosen, pages) in table.items()
    }


class Watched:
    """A sequence that was made often, and what is there after its accesses. comes: whether a visit brings a line, to
    the caches in question. beyond: the next page is watched as well. scattered: accesses to scattered lines follow
    those in other pages, in every repetition."""

    def __init__(
        self,
        lab: Lab,
        sequence: AccessSequence,
        comes: Comes,
        *,
        beyond: bool = False,
        scattered: bool = False,
    ) -> None:
        self.lab, self.sequence, self.comes, self.beyond = lab, sequence, comes, beyond
        self.lines = sequence.lines
        self.steps = sequence.accesses(lab)
        self.practice = sequence.practice(lab)
        self.rounds = -(-P.scattered // LAYOUT.scattered) if scattered else 0
        self.window = (0, lab.page_lines * (2 if beyond else 1))
        if not scattered:
            lab.samples(self.visit(1), self.lines[:1], -(-P.learned // len(self.practice)))

    def visit(self, count: int, after: Iterable[Access] = ()) -> Visit:
        """The first so many accesses in a fresh page, and others after them."""
        steps = (*self.steps[:count], *after)
        return Visit(steps, window=self.window, practice=self.practice, scattered=self.rounds)

    def there(self, count: int, line: int) -> Answer:
        """Whether a line is there after so many accesses."""
        return self.comes(self.visit(count), line)

    def came(self, visit: Visit, lines: Sequence[int]) -> dict[int, Answer]:
        """Whether lines are there after a visit of this sequence; those that come to no cache are asked together."""
        cached = self.lab.scan(visit, lines)
        return {line: self.comes(visit, line) if cached[line] else cached[line] for line in lines}

    def any_comes(self, count: int, lines: Sequence[int]) -> Answer:
        """Whether any of many lines is there after so many accesses. They are asked all at once, and only those that
        often come again: a prefetcher that recalls accesses recalls what asked for one line alone."""
        visit, params = self.visit(count), self.lab.params
        cached = 1.0 - self.lab.shares_after(visit, lines, params.first).of("memory")
        often = [line for line, share in zip(lines, cached, strict=True) if share > params.not_brought]
        return some(self.came(visit, often).values())

    def beyond_page(self) -> dict[int, Answer]:
        """Whether lines of the next page are there after all of it."""
        return self.came(self.visit(len(self.lines)), range(self.lab.page_lines, self.window[1]))

    def forgotten(self) -> Watched:
        """The same, each time after accesses to scattered lines."""
        return Watched(self.lab, self.sequence, self.comes, beyond=self.beyond, scattered=True)

    def foreseen(self) -> Answer:
        """Whether at least half of the lines of the second half are there before they are accessed."""
        late = range(len(self.lines) // 2, len(self.lines))
        there = {True: 0, False: 0, None: 0}
        for number in late:
            there[self.there(number, self.lines[number])] += 1
            if 2 * there[True] >= len(late):
                return True
            if 2 * there[False] > len(late):
                return False
        return None

    def arrivals(self, lines: Iterable[int], most: int, guesses: Arrivals | None = None) -> Arrivals | None:
        """By line the number of the access, up to `most`, by which it comes before it is accessed itself, 0 where it
        doesn't; None where that stays unclear of one. Without `guesses` a line is expected as far ahead as the one
        before."""
        came: Arrivals = {}
        ahead = 0
        for line in lines:
            at = self.lines.index(line) if line in self.lines else len(self.lines)
            by = self._arrival(line, min(at, most), (guesses or {}).get(line) or at - ahead)
            if by is None:
                return None
            came[line], ahead = by, at - (by or at)
        return came

    def _arrival(self, line: int, last: int, guess: int) -> int | None:
        """The access from 1 to `last` by which a line comes, 0 for none: looked for at a guess first."""
        before, by = 0, last + 1
        for tried in (min(guess, last), min(guess, last) - 1, last):
            if before < tried < by:
                if (there := self.there(tried, line)) is None:
                    return None
                before, by = (before, tried) if there else (tried, by)
        while by - before > 1:
            middle = (before + by) // 2
            if (there := self.there(middle, line)) is None:
                return None
            before, by = (before, middle) if there else (middle, by)
        return by if by <= last else 0


def lead(lines: Sequence[int], arrivals: Arrivals, accesses: int) -> list[int]:
    """How many lines further on have come after each of the first accesses of a run."""
    step = lines[1] - lines[0]
    ahead = [(line, came) for line, came in arrivals.items() if came]
    return [
        sum(came <= number and (line - lines[number - 1]) * step > 0 for line, came in ahead)
        for number in range(1, min(accesses, len(lines)) + 1)
    ]


def max_distance(lines: Sequence[int], arrivals: Arrivals) -> int:
    """How many lines ahead of the access by which it came the furthest line lies."""
    step = lines[1] - lines[0]
    return max(((line - lines[came - 1]) * step for line, came in arrivals.items() if came), default=0)

"""Thresholds and tables: the fewest accesses that do, how many entries, which one is given up, which bits matter.

Every question is a family's own (`GoesOn`, or a function of a number); what is done with the answers is the same for
all families.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from setebench.experiments.visits import LAYOUT, Access, instruction

from .found import Answer
from .report import UNCLEAR, Report

METHOD = "runs in many pages, the first continued"
REPLACED = "a full table whose oldest runs were used again before new ones came: which runs still go on"
NO_SIZE = "how many runs the table holds is not known, see streams"
ONE = "a table of one run gives up that one, whatever its rule"
NEITHER = "neither the run unused longest nor the oldest is given up each time, or lines came in some repetitions only"


@dataclass(frozen=True, kw_only=True)
class Bits:
    """far: the highest bit of an instruction address that a probe can place; changed, it keeps two from overlapping.
    low: bits that are asked one by one in any case; those above first all together.
    distinct: low bits in which the instructions of a visit's accesses differ.
    beyond: low bits of instruction addresses above those of accesses."""

    far: int = 25
    low: int = 16
    distinct: int = 6
    beyond: int = 14


BITS = Bits()
FAR_BITS_MATTER = (
    f"instructions whose addresses differ in bit {BITS.far} may be distinguished, and lower bits are only asked with a "
    "change of that one"
)


def edge(holds: Callable[[int], Answer], low: int, high: int) -> int | None:
    """The largest number below `high` for which something holds that holds for `low` and not for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        answers = holds(middle)
        if answers is None:
            return None
        low, high = (middle, high) if answers else (low, middle)
    return low


def largest(holds: Callable[[int], Answer], low: int, high: int) -> tuple[int, bool] | None:
    """The largest number up to `high` for which something holds that holds for `low`, and whether the next one was seen
    not to."""
    if holds(low) is not True:
        return None
    if high <= low or holds(high):
        return max(low, high), False
    found = edge(holds, low, high)
    return None if found is None else (found, holds(found + 1) is False)


def size(holds: Callable[[int], Answer], most: int, plainly: Callable[[int], Answer] | None = None) -> int | None:
    """Size of a table: the largest number up to `most` for which something holds that holds for few and not for many.

    Doubled at first, as long visits cost most and are disturbed most. Halving finds an edge in anything, also where a
    table forgets now and then, so numbers on both sides are asked as well; so near to `most` that none could be asked
    beyond, there is no answer either. `plainly` asks the edge again, for nearly always and nearly never: a table that
    forgets now and then has no size, and a co-runner decides where it seems to end."""
    if holds(1) is not True:
        return None
    low, high = 1, 2
    while (answers := holds(high)) is True and high < most:
        low, high = high, min(2 * high, most)
    found = edge(holds, low, high) if answers is False else None
    if found is None:
        return None
    beyond = (found + 2, found + max(found // 4, 3))
    sure = all(holds(max(few, 1)) for few in (found - 1, found - 2, found * 3 // 4, found // 2))
    if not sure or beyond[1] > most or not all(holds(many) is False for many in beyond):
        return None
    if plainly is not None and not (plainly(found) is True and plainly(found + 1) is False):
        return None
    return found


# -- replacement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """What a table went through: `entries` runs begun in order, the `again` oldest used once more, `new` ones begun.
    Then run number `asked` is taken up, unless it was used again: then its last use is what is asked for."""

    entries: int
    again: int = 0
    new: int = 0
    asked: int = 0

    @property
    def runs(self) -> int:
        """All runs."""
        return self.entries + self.new

    def page(self, run: int) -> int:
        """The page of a run: the visited one for the run that is asked for, another one for every other."""
        return 0 if run == self.asked else run + 1

    def steps(
        self, begin: Callable[[Sequence[int]], list[Access]], use: Callable[[Sequence[int]], list[Access]]
    ) -> list[Access]:
        """The accesses, from those that begin runs and those that use them."""
        steps = begin(range(self.entries)) + use(range(self.again)) + begin(range(self.entries, self.runs))
        return steps + (use([self.asked]) if self.asked >= self.again else [])

    def in_pages(
        self, begun: list[int], used: list[int], line_size: int, ip: Callable[[int], int | None] = lambda _run: None
    ) -> tuple[Access, ...]:
        """The accesses of runs in a page each, by an instruction of their own (None) or each run by one: lines that
        begin a run, and lines that use it."""

        def accesses(lines: list[int]) -> Callable[[Sequence[int]], list[Access]]:
            return lambda runs: [Access(n * line_size, ip=ip(run), page=self.page(run)) for run in runs for n in lines]

        return tuple(self.steps(accesses(begun), accesses(used)))


GoesOn = Callable[[History], Answer]
"""Whether the asked run goes on after this history; None where that stays unclear."""


def replacement(goes_on: GoesOn, entries: int, most: int) -> str | None:
    """`lru` or `fifo` where all that is asked fits that rule, else None. `most` runs can be distinguished in all.

    After `k` runs were used again, the least recently used is run `k`, and the oldest is still the first. A use that
    the table doesn't notice would make any rule look like `fifo`, so uses must be seen to go on."""
    numbers = sorted({1, min(entries // 2, most - entries - 1)})
    if numbers[0] < 1:
        return None
    first = goes_on(History(entries, 1, 1, 1))
    if first is None:
        return None
    for k in numbers:
        expected = [(History(entries, k, 0, k - 1), True), (History(entries, k, 0, k), True)]
        if first:  # those used again go first all the same, one for each new run
            expected += [(History(entries, k, 1, k), True), (History(entries, k, k, k), True)]
            expected.append((History(entries, k, k + 1, k), False))
        else:  # the first that was not used again goes; the next one stays
            expected.append((History(entries, k, 1, k), False))
            if k + 1 < entries:
                expected.append((History(entries, k, 1, k + 1), True))
        if any(goes_on(history) is not answers for history, answers in expected):
            return None
    return "fifo" if first else "lru"


def report_table(goes_on: GoesOn, report: Report, most: int, runs: int = LAYOUT.block_pages - 2) -> None:
    """Report how many runs, up to `most`, a table holds and which it gives up, where so many `runs` can be made that
    are not alike."""
    entries = size(lambda count: goes_on(History(count)), most)
    report.value("streams", entries, METHOD, UNCLEAR)
    report_replacement(goes_on, entries, report, runs)


def report_replacement(goes_on: GoesOn, entries: int | None, report: Report, most: int) -> None:
    """Report which entry a table gives up, where its size is known."""
    if entries is None or entries < 2:
        report.unresolved("replacement", NO_SIZE if entries is None else ONE, REPLACED)
    else:
        report.value("replacement", replacement(goes_on, entries, most), REPLACED, NEITHER)


def others_first(runs: int, at: int) -> tuple[Access, ...]:
    """One access each of many instructions, none of which resembles one of the runs': more than any table holds whose
    size is asked for.

    Before every repetition: the same instructions made the same runs in the one before, and a table that gives up its
    oldest entry would still hold some of them, older than the runs that they now belong to. Tables that go by eight
    bits distinguish four with the same low six: each round through the free ones begins at another of the four."""
    low = 1 << BITS.distinct
    taken = {instruction(run) % low for run in range(runs)}
    free = [bits for bits in range(low) if bits not in taken] or [0]
    shift = 1 - len(free) % 2
    rounds = [(free[number % len(free)], number + number // len(free) * shift) for number in range(low)]
    addresses = [(1 << BITS.beyond) + bits + 3 * low * place for bits, place in rounds]
    return tuple(Access(at, ip=ip, page=runs + 1 + number) for number, ip in enumerate(addresses))


# -- bits of instruction addresses ---------------------------------------------------------------------------------


def bits_that_matter(same: int, followed: Callable[[int], Answer]) -> tuple[int, ...] | None:
    """The bits that, changed in the address `same` of an access, end what followed. None where one is unclear, or where
    the far bit itself may matter. Bits above the low ones are asked one by one only if they matter all together."""
    far = same ^ (1 << BITS.far)
    if followed(far) is not True:
        return None
    low = _mattering(range(BITS.low), far, followed)
    if low is None:
        return None
    above = range(BITS.low, BITS.far)
    together = followed(far ^ sum(1 << bit for bit in above))
    if together is None:
        return None
    high = () if together else _mattering(above, far, followed)
    return None if high is None or (not together and not high) else (*low, *high)


def _mattering(bits: range, far: int, followed: Callable[[int], Answer]) -> tuple[int, ...] | None:
    answers = {}
    for bit in bits:
        answers[bit] = followed(far ^ (1 << bit))
        if answers[bit] is None:
            return None
    return tuple(bit for bit, value in answers.items() if not value)

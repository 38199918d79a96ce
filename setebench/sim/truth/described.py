"""What prefetchers do, described: lines that come ahead of a run of accesses.

Nothing but the prefetchers' own rules decides, so a quiet machine of its own runs them: large caches, small pages, each
access done before the next, and no limit but the miss entries that prefetches of the described machine have. A run
comes after SCATTERED accesses to scattered lines, as the start is not what a long-running machine shows, and after
others like it.
"""

from __future__ import annotations

import functools

import numpy as np
from msgspec.structs import replace

from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.inspect import cached_lines
from setebench.sim.machine import open_machine_file

SCATTERED = 5376
"""More than two of the longest learning phases of a best-offset prefetcher within a page (26 offsets, 100 rounds): what
it uses in one was learned in the one before."""
REPEATED = 2600
"""Accesses of runs in other pages before, as many as such a phase has."""
LEAD_ACCESSES, LEAD_FROM = 16, 4
"""Accesses of the run whose lead is described, and the line of the page at which it begins, off the page's ends."""
PAGE, SPREAD = 4096, 3  # a run lies in every third page, so that what leaves a page meets no other
RUNS, SCATTER, HUGE = 1 << 21, 1 << 28, 1 << 21  # bytes
INSTRUCTIONS = 128  # that scattered accesses come from
LINE = Base("line")


class Watched:
    """A machine with these prefetchers, and what comes into its caches. `levels` limit what prefetches may have in
    flight; without any nothing does."""

    def __init__(
        self, prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, levels: tuple[spec.Level, ...] = ()
    ) -> None:
        free = spec.Level(sets=1024, ways=16, latency_cycles=4.0, mshr_entries=0)
        caches = tuple(
            replace(free, mshr_entries=each.mshr_entries, mshr_hardware_limit=each.mshr_hardware_limit)
            for each in (*levels, free, free, free)[:3]
        )
        plain = spec.Machine(name="watched", levels=caches, prefetchers=prefetchers)
        self._machine = open_machine_file(replace(plain, line_size_bytes=line_size))
        self._region = self._machine.allocate(RUNS, PAGE)
        self._line_size, self._page = line_size, SPREAD
        self.page_lines = PAGE // line_size
        self._there: set[int] = set()

    def fresh_page(self) -> int:
        """First line of a page that nothing was accessed in or beside."""
        self._page += SPREAD
        return self._page * self.page_lines

    def access(self, line: int, ip: int) -> list[int]:
        """Lines of this page and the next ones that weren't there and come because of an access."""
        first = line // self.page_lines * self.page_lines
        self._run(Probe().load(LINE, ip="own", ip_bits=ip).fence().wait(2000), [line])
        begin = self._region.address // self._line_size
        cached = np.concatenate([cached_lines(self._machine, level) for level in (1, 2, 3)]) - begin
        near = set(cached[(cached >= first - self.page_lines) & (cached < first + 2 * self.page_lines)].tolist())
        fresh = sorted(near - self._there - {line})
        self._there |= {*fresh, line}
        return fresh

    def lead(self, lines: range) -> tuple[int, ...]:
        """How many lines ahead of a run have come after each of its accesses."""
        ahead, counts = set[int](), list[int]()
        for line in lines:
            ahead.update(self.access(line, 0))
            counts.append(max([0, *((each - line) * lines.step for each in ahead)]))
        return tuple(counts)

    def scatter(self, seed: int) -> None:
        """Access lines in no order, by many instructions."""
        region, probe = self._machine.allocate(SCATTER, HUGE), Probe()
        for number in range(INSTRUCTIONS):
            probe = probe.load(Base(f"at{number}")).fence()
        lines = np.random.default_rng(seed).integers(
            0, SCATTER // self._line_size, (INSTRUCTIONS, SCATTERED // INSTRUCTIONS)
        )
        where = {Base(f"at{number}"): region.address + each * self._line_size for number, each in enumerate(lines)}
        self._machine.run(probe.wait(2000), where)

    def repeat(self) -> None:
        """Runs up whole pages."""
        lines = range(LEAD_FROM, self.page_lines)
        for _ in range(REPEATED // len(lines)):
            first = self.fresh_page()
            self._run(Probe().load(LINE, ip="own", ip_bits=0).fence().wait(2000), [first + line for line in lines])

    def _run(self, probe: Probe, lines: list[int]) -> None:
        self._machine.run(probe, {LINE: self._region.address + np.array(lines) * self._line_size})


@functools.lru_cache(maxsize=512)
def described(
    prefetchers: tuple[spec.AnyPrefetcher, ...], line_size: int, levels: tuple[spec.Level, ...] = ()
) -> tuple[tuple[int, ...], int]:
    """What these prefetchers of one level do together in a run after many others: how many lines ahead have come after
    each of its accesses, and how far ahead lines come."""
    watched = Watched(prefetchers, line_size, levels)
    watched.scatter(1)
    watched.repeat()
    first = watched.fresh_page()
    whole = watched.lead(range(first + LEAD_FROM, first + watched.page_lines))
    watched.scatter(2)
    first = watched.fresh_page() + LEAD_FROM
    lead = watched.lead(range(first, first + min(LEAD_ACCESSES, watched.page_lines - LEAD_FROM)))
    return lead, max(*lead, *whole)


@functools.lru_cache(maxsize=512)
def lead_of(prefetcher: spec.AnyPrefetcher, line_size: int, step: int = 1) -> tuple[int, ...]:
    """How many lines ahead have come after each access of a run in a prefetcher that has learned nothing."""
    watched = Watched((prefetcher,), line_size)
    number = min(LEAD_ACCESSES, watched.page_lines - LEAD_FROM)
    first = watched.fresh_page() + (LEAD_FROM if step > 0 else watched.page_lines - 1 - LEAD_FROM)
    return watched.lead(range(first, first + number * step, step))

"""Turns visits into probes: places lines, silences prefetchers that are not asked, makes the accesses, times a load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from setebench.prefetcher_map.visit import BLOCK_PAGES, PAGE_BYTES, Access, Visit, own_instruction
from setebench.probe import HINTS, Base, Operand, Probe

PAGE, PROBED, CROWD, DUMMY, BESIDE = (Base(name) for name in ("page", "probed", "crowd", "dummy", "beside"))
ALONE = Base("alone")
"""Pages in which accesses are made alone (`Visit.forget`): a line of any other kind there would be remembered."""

SETTLE_CYCLES = 2500
"""Time between the last flush or access and the next thing: longer than a batch of prefetches from memory takes, so
that none is dropped for want of a miss entry, and a flush under way slows nothing that is timed."""

STEP_CYCLES = 1500

CONFLICT_PAGES, CONFLICT_LOADS = 20, 40
"""Lines of other pages at the same page offset that push a line out of level 1: more than any level 1 has ways, and so
few that they and the line stay in most level 2; see `pushing_out` for those that hold fewer. They are loaded in rounds,
so many times at least in all: a level 1 that replaces at random gives a line up only after many misses."""

FORGET_ALONE, FORGET_AGAIN = 4, 2
"""Pages opened by each access alone, more than the visits after which a footprint is believed; and once more after
lines of the visited page were placed, which taught something."""

TOUCHED_LINE = 20
"""A line of a page that opens it and is on no walk, nor next to a line that is."""

UNWATCH_LINE, UNWATCH_IP = 9, 0x3CAA
"""The access that opens further regions: none of a visit, so what it recalls disturbs nothing."""

ANCHOR_IP = 0x10F5

THRASH_PAGES, THRASH_LINES = 60, (52, 56, 60, 54, 58, 62, 50)
"""Pages walked over, at least, to make level 1's prefetchers forget a page, and the page offsets of the lines that are
loaded there. At each offset more lines than level 1 has ways, so that they miss it again in every round, while level 2
holds them."""

THRASH_FIRST_PAGE = 60
"""In a block of other pages, the first of those."""

BURST_FIRST_PAGE = 100
"""In a block of other pages, the first of those."""

BURST_PAGES, PUSHING_PAGES = 2, 14
"""Pages whose lines a burst loads, and pages that push those out of level 1: with them, more lines per page offset than
any level 1 has ways, and together no more than a small level 2 holds."""


def _act(probe: Probe, access: Access, where: Operand, number: int) -> Probe:
    bits = own_instruction(number) if access.ip is None else access.ip
    name = f"i{bits}"
    if access.how == "flush":
        return probe.flush(where)
    if access.how == "store":
        return probe.store(where, ip=name, ip_bits=bits)
    if access.how in HINTS:
        return probe.prefetch(where, access.how, ip=name, ip_bits=bits)
    return probe.load(where, ip=name, ip_bits=bits)


KEPT_PROBES, KEPT_PIECES = 256, 512
"""Probes, and pieces that many of them share, which are kept: half of all visits are made more than once, and putting
one together takes as long as running it."""


class Builder:
    """Turns visits into probes for a line size. `order` is a random order of a block's pages, fixed for its lifetime:
    an even walk over pages would itself be a stride."""

    def __init__(self, line_size: int, rng: np.random.Generator) -> None:
        self.line_size = line_size
        self.conflict_pages = CONFLICT_PAGES
        self._order: NDArray[np.int64] = rng.permutation(BLOCK_PAGES)
        self._kept = lru_cache(KEPT_PROBES)(self._put_together)
        self._demoting = lru_cache(KEPT_PIECES)(self._pushed_out)
        self._walking = lru_cache(1)(self._walked)
        self._unwatching = lru_cache(1)(self._unwatched)

    def other(self, base: Base, number: int, at: int) -> Operand:
        """Byte `at` of the `number`th page of a block."""
        return base + (int(self._order[number % BLOCK_PAGES]) * PAGE_BYTES + at)

    def place_of(self, access: Access) -> Operand:
        return self.other(CROWD, access.page, access.at) if access.page else PAGE + access.at

    def probe(self, visit: Visit, loaded: bool = False) -> Probe:
        """The whole visit and one timed load of `PROBED`; `loaded`: of that line when it was just loaded."""
        return self._kept(visit, loaded, self.conflict_pages)

    def _put_together(self, visit: Visit, loaded: bool, _conflict_pages: int) -> Probe:
        probe = self.prelude(visit)
        if visit.chained:
            probe = self._chain(probe, visit)
        else:
            for number, access in enumerate(visit.steps):
                if visit.burst and number == len(visit.steps) - 1:
                    probe = self._loaded(probe, self._burst_lines()[: visit.burst], visit.burst_how)
                probe = self.step(probe, visit, access, number)
        return self.ending(probe.fence().wait(SETTLE_CYCLES).load(PROBED) if loaded else probe)

    def _chain(self, probe: Probe, visit: Visit) -> Probe:
        """The visit's loads, one after the other by their addresses alone; the first depends on one elsewhere, so that
        all are alike."""
        probe = probe.load(BESIDE)
        for number, access in enumerate(visit.steps):
            bits = own_instruction(number) if access.ip is None else access.ip
            probe = probe.load(self.place_of(access), ip=f"i{bits}", ip_bits=bits, after=-1)
        return probe

    def split(self, visit: Visit, makers: Sequence[int], threads: int) -> list[Probe]:
        """The visit for several threads of a core: `makers` says which of them makes each access, one after the other;
        the first one times."""
        probes = [self.prelude(visit), *(Probe() for _ in range(threads - 1))]
        latest = 0
        for number, access in enumerate(visit.steps):
            if makers[number] != latest:
                probes, latest = [probe.barrier() for probe in probes], makers[number]
            probes[latest] = self.step(probes[latest], visit, access, number)
        if latest:
            probes = [probe.barrier() for probe in probes]
        return [self.ending(probes[0]), *probes[1:]]

    def continued(self, visit: Visit, first: int, middle: int, last: int) -> tuple[Probe, Probe]:
        """The visit for CPUs of two cores: the other one makes the accesses from `first` to `middle`, then this one
        those up to `last`, and times."""
        one, other = self.prelude(visit).barrier().barrier(), Probe()
        if visit.thrash:  # its own caches lack the pages of the walk, whose misses would be a run of their own
            other = self._thrash(self._thrash(other))
        other = other.barrier()
        for number in range(first, middle):
            other = self.step(other, visit, visit.steps[number], number)
        for number in range(middle, last):
            one = self.step(one, visit, visit.steps[number], number)
        return self.ending(one), other.barrier()

    def step(self, probe: Probe, visit: Visit, access: Access, number: int) -> Probe:
        """One access of the visit, done and its prefetches settled before the next."""
        if access.how == "thrash":
            return self._thrash(probe)
        if access.how == "demote":
            return self._demote(probe, [access.at // self.line_size])
        if visit.thrash:
            probe = self._thrash(probe)
        if visit.anchor is not None and access.how in HINTS:
            probe = probe.load(PAGE + visit.anchor * self.line_size, ip=f"i{ANCHOR_IP}", ip_bits=ANCHOR_IP).fence()
        return _act(probe, access, self.place_of(access), number).fence().wait(STEP_CYCLES).fence("l")

    @staticmethod
    def ending(probe: Probe) -> Probe:
        """The timed load, as references are timed (`serving.timed`): behind a load that hits and a fence."""
        settled = probe.fence().wait(SETTLE_CYCLES).fence()
        return settled.load(BESIDE).fence().start().load(PROBED).stop()

    def prelude(self, visit: Visit) -> Probe:
        """Everything before the first access."""
        # first, because a region prefetcher fills level 1 with what it still remembers, and because this opens pages at
        # the very offsets of demoted lines, which level 2 may not hold as well
        probe = Probe()
        if visit.forget:
            probe = self._forget(probe, visit, FORGET_ALONE) + self._unwatching(visit.forget)
        probe = self._lessons(probe, visit)
        probe = self._loads(probe, self._kept_warm(visit))
        probe = self._demote(self._loads(probe, visit.demoted), visit.demoted)
        # what pushed a line out may have had its next line brought as well, which pushed out the one kept warm
        probe = self._loads(probe, [line for line in visit.warm if line - 1 in visit.demoted])
        # lines demoted between accesses: what pushes them out must be in level 2, or it would train its streams
        pushed = sorted({a.at // self.line_size for a in visit.steps if a.how == "demote"})
        probe = self._loads(self._demote(probe, pushed), [line for line in visit.warm if line in pushed])
        probe = self._flushes(probe, visit)
        if (
            visit.warm or visit.demoted or visit.anchor is not None
        ):  # the page has been seen: its entries must go, by misses of other pages
            # not by lines that are kept in level 1, which so many others at their page offset would push out
            if visit.forget:
                probe = self._forget(probe, visit, FORGET_AGAIN, but=self._kept_warm(visit))
            probe = probe + self._misses
        if visit.thrash or any(
            access.how == "thrash" for access in visit.steps
        ):  # bring the pages of the walk to level 2
            probe = self._thrash(probe)
        if visit.burst:
            probe = self._loaded(self._loaded(probe, self._burst_lines()).fence(), self._pushing_lines())
        return probe.fence().wait(SETTLE_CYCLES).fence()

    def _burst_lines(self) -> list[Operand]:
        return self._shuffled(0, BURST_PAGES)

    def _pushing_lines(self) -> list[Operand]:
        return self._shuffled(BURST_PAGES, PUSHING_PAGES)

    def _shuffled(self, first: int, pages: int) -> list[Operand]:
        """All lines of some other pages, those next to each other far apart: neither a run nor equal distances. Lines
        around each are among them, so that what prefetchers bring in addition is there as well."""
        lines = PAGE_BYTES // self.line_size
        places = [(page, line) for page in range(first, first + pages) for line in range(lines)]
        order = np.random.default_rng(first).permutation(len(places))
        return [self.other(DUMMY, BURST_FIRST_PAGE + places[n][0], places[n][1] * self.line_size) for n in order]

    @staticmethod
    def _loaded(probe: Probe, places: Iterable[Operand], how: Literal["load", "t0"] = "load") -> Probe:
        for place in places:
            probe = probe.load(place) if how == "load" else probe.prefetch(place, how)
        return probe

    @staticmethod
    def _kept_warm(visit: Visit) -> tuple[int, ...]:
        return visit.warm if visit.anchor is None else (*visit.warm, visit.anchor)

    def _loads(self, probe: Probe, lines: Iterable[int]) -> Probe:
        for line in lines:
            probe = probe.load(PAGE + line * self.line_size).fence()
        return probe

    def _lessons(self, probe: Probe, visit: Visit) -> Probe:
        for number, access in enumerate(visit.lessons):
            probe = _act(probe, access, self.place_of(access), number).fence()
        return probe

    def _demote(self, probe: Probe, lines: Iterable[int]) -> Probe:
        for line in lines:
            probe = probe + self._demoting(line, self.conflict_pages)
        return probe

    def _pushed_out(self, line: int, pages: int) -> Probe:
        lines = [self.other(DUMMY, page, line * self.line_size) for page in range(pages)]
        return self._loaded(Probe(), lines * -(-CONFLICT_LOADS // pages)).fence()

    def _flushes(self, probe: Probe, visit: Visit) -> Probe:
        kept = {*self._kept_warm(visit), *visit.demoted}
        for line in range(*visit.window):
            if line not in kept:
                probe = probe.flush(PAGE + line * self.line_size)
        crowd = {a.at // self.line_size * self.line_size + (a.page << 20) for a in visit.steps if a.page}
        for word in sorted(crowd):
            probe = probe.flush(self.other(CROWD, word >> 20, word & 0xFFFFF))
        return probe.fence()

    @cached_property
    def _misses(self) -> Probe:
        """One miss in each of many other pages: tables of pages forget the visited one."""
        where = [self.other(DUMMY, page, (5 + 7 * page) % 48 * self.line_size) for page in range(24, 24 + 72)]
        probe = Probe()
        for operand in where:
            probe = probe.flush(operand)
        probe = probe.fence().wait(SETTLE_CYCLES).fence()
        return self._loaded(probe, where).fence()

    def walk(self) -> list[Operand]:
        """The lines, each in a page of its own, that make level 1 forget what it knows of other pages."""
        offsets = THRASH_LINES[: -(-THRASH_PAGES // self.conflict_pages)]
        lines = [offsets[number % len(offsets)] for number in range(len(offsets) * self.conflict_pages)]
        return [self.other(DUMMY, THRASH_FIRST_PAGE + n, line * self.line_size) for n, line in enumerate(lines)]

    def _thrash(self, probe: Probe) -> Probe:
        return probe + self._walking(self.conflict_pages)

    def _walked(self, _conflict_pages: int) -> Probe:
        return self._loaded(Probe(), self.walk()).fence()

    def walked(self, most: int) -> tuple[Probe, Operand]:
        """Two walks, then the first `most` lines of a third one, and the next of its lines timed; and that line. Its
        page is touched elsewhere right before, for a TLB miss looks like a further level."""
        lines = self.walk()
        probe = self._loaded(self._thrash(self._thrash(Probe())), lines[:most])
        touched = self.other(DUMMY, THRASH_FIRST_PAGE + most, TOUCHED_LINE * self.line_size)
        return self.ending(probe.load(touched)), lines[most]

    def _opening(self, visit: Visit) -> list[tuple[int, Access]]:
        """Accesses that may open the visited page, with their numbers: the visit's own and its anchor."""
        numbered = list(enumerate(visit.steps))
        if visit.anchor is not None:
            numbered.append((0, Access(visit.anchor * self.line_size, ip=ANCHOR_IP)))
        return numbered

    def _forget(self, probe: Probe, visit: Visit, pages: int, but: tuple[int, ...] = ()) -> Probe:
        """Make every access, `but` those to some lines, alone in so many pages: nothing then follows it in a region
        prefetcher's memory, once the pages are watched no longer."""
        keys: set[tuple[int, int]] = set()
        for number, access in self._opening(visit):
            bits = own_instruction(number) if access.ip is None else access.ip
            if access.at // self.line_size in but and bits != ANCHOR_IP:
                continue
            if access.how in ("flush", "demote", "thrash") or (access.at, bits) in keys:
                continue
            # each in pages of its own: one opened by the access before, and still watched, would teach the very run
            # that is to be forgotten
            first = pages * len(keys)
            keys.add((access.at, bits))
            for page in range(first, first + pages):
                # of the access's own kind: accesses that share an instruction address must be alike
                probe = _act(probe, access, self.other(ALONE, page, access.at), number)
            probe = probe.fence()
        return probe

    def _unwatched(self, regions: int) -> Probe:
        """Open so many further regions that none of those before is watched any longer: downwards from the block's last
        page, for the accesses alone go upwards from its first."""
        opening, probe = Access(UNWATCH_LINE * self.line_size, ip=UNWATCH_IP), Probe()
        for page in range(regions):
            probe = _act(probe, opening, self.other(ALONE, BLOCK_PAGES - 1 - page, opening.at), 0)
        return probe.fence()

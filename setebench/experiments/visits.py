"""Visits: a few chosen accesses to a fresh page, with everything around them controlled, then one timed load.

What keeps other prefetchers out of a question is part of the visit: accesses from instruction addresses of their own
silence what is indexed by instruction address, lines in level 1 silence requests for them, lines that level 2 holds
silence prefetchers that wait for its misses, and a traversal of other pages between two accesses makes level 1's tables
forget the page. `Visit` is data, `Builder` turns it into probes; nothing here runs or decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from setebench.probe import HINTS, Base, Operand, Probe

PAGE_BYTES = 1 << 12
"""The smallest page, within which prefetchers of physical addresses stay."""

PAGE, PROBED, OTHERS, FILLER, BESIDE = (Base(name) for name in ("page", "probed", "others", "filler", "beside"))
ALONE = Base("alone")
"""Pages in which accesses are made alone (`Visit.forget`): a line of any other kind there would be remembered."""


def fresh_page(number: int) -> Base:
    """A page that has not been visited for as long as the visited one."""
    return Base(f"fresh {number}")


Kind = Literal["load", "store", "flush", "demote", "thrash", "t0", "t1", "t2", "nta", "w"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where lines beside the visited page lie, and how long is waited; all pages are numbers within a block.

    block_pages: pages of a block of other pages, more than any table of pages is thought to have.
    settle_cycles, step_cycles: waits after the last flush or access, and between accesses: longer than a batch of
      prefetches from memory takes, so that none is dropped for want of a miss entry.
    conflict_pages: evictor lines at the same page offset that push a line out of level 1, more than any level 1 has
      ways and few enough to stay in most level 2; loaded in rounds, twice as many times at least, as a random
      replacement gives a line up only after many misses.
    forget_alone, forget_again: pages opened by each access, more than the visits after which a footprint is believed,
      and so many that the visit before is less than a fifth of them (the vote of Bingo); and once more after lines of
      the visited page were placed. Each page's line beside the access (`Visit.beside`), as bits of its number that
      change: within regions of 16 lines, and another one each time, or that line would be what visits agree on.
    thrash_pages: pages traversed to make level 1's prefetchers forget a page, mostly at least: more than the 64 streams
      of the largest tables, with a third for lines that level 1 still holds.
    burst_pages, pushing_pages: pages whose lines a burst loads, and pages that push those out of level 1.
    missed_pages: pages of which one line each misses, so that tables of pages forget the visited one.
    scattered, scattered_ip, scattered_apart, scattered_line: instructions, each with a page of its own, that make
      scattered loads in turn, the address of the first, bytes between them (their low seven bits differ), and the line
      that all of them load: lines of a page apart are no distance that prefetchers learn.
    unwatch_line, unwatch_ip: the access that opens further regions; none of a visit, so what it recalls disturbs none.
    anchor_ip: instruction that loads the visit's anchor.
    instructions: instruction addresses that accesses have of their own, one byte further apart than there are: their
      low six bits differ and the instructions don't overlap.
    first_ip: low bits of the first of them."""

    block_pages: int = 128
    settle_cycles: int = 2500
    step_cycles: int = 1500
    conflict_pages: int = 20
    forget_alone: tuple[int, ...] = (8, 11, 13, 14, 9, 10)
    forget_again: tuple[int, ...] = (12, 15)
    thrash_pages: int = 100
    burst_pages: int = 2
    pushing_pages: int = 14
    missed_pages: int = 72
    scattered: int = 128
    scattered_ip: int = 0x8000
    scattered_apart: int = 129
    scattered_line: int = 2
    unwatch_line: int = 9
    unwatch_ip: int = 0x3CAA
    anchor_ip: int = 0x10F5
    instructions: int = 64
    first_ip: int = 0x11


LAYOUT = Layout()


def instruction(number: int) -> int:
    """Low bits of the instruction address of access `number`; addresses are used again in turn."""
    return number % LAYOUT.instructions * (LAYOUT.instructions + 1) + LAYOUT.first_ip


@dataclass(frozen=True)
class Access:
    """One access: bytes from the page's beginning, how, from which instruction address (low bits; None: one of its
    own), and in which page (0: the visited one; below: one that is as fresh; above: another one)."""

    at: int
    how: Kind = "load"
    ip: int | None = None
    page: int = 0


@dataclass(frozen=True)
class Visit:
    """Accesses to a page, all of whose lines (or those in `window`: first, end; in lines) are flushed first.

    warm, demoted: lines in level 1 before the first access, and in level 2 alone.
    thrash: level 1's tables are made to forget the page before every access.
    forget: every access is made on its own beforehand, in other pages, and so many regions are opened then that those
      pages are watched no longer: a region prefetcher remembers nothing else of the access.
    beside: each of those accesses has one more in its page, for prefetchers that remember no region of which one line
      alone was accessed.
    training: accesses to other pages, before everything else.
    practice: accesses to flushed lines of fresh pages, right before the steps and made as these are.
    scattered: rounds of loads of scattered lines (`Layout.scattered`) between those and the steps: what learns forgets.
    anchor: a line in level 1 that is loaded before every software prefetch, because some cores drop those to another
      page than the latest load's.
    chained: each load's address depends on the value of the one before, and no fence stands between them: some
      prefetchers of level 1 are quiet while a fence waits.
    burst, burst_how: so many loads (or prefetches, which block no core) of lines that level 2 holds and level 1 lacks
      stand right before the last access, without a fence: level 1 then has no miss entry for its prefetchers."""

    steps: tuple[Access, ...]
    warm: tuple[int, ...] = ()
    demoted: tuple[int, ...] = ()
    thrash: bool = False
    forget: int = 0
    beside: bool = False
    window: tuple[int, int] | None = None
    training: tuple[Access, ...] = ()
    anchor: int | None = None
    chained: bool = False
    burst: int = 0
    burst_how: Literal["load", "t0"] = "load"
    practice: tuple[Access, ...] = ()
    scattered: int = 0

    def untrained(self) -> Visit:
        """The control: the same without its accesses."""
        return replace(self, steps=(), practice=(), scattered=0)


def _act(probe: Probe, access: Access, where: Operand, number: int) -> Probe:
    bits = instruction(number) if access.ip is None else access.ip
    name = f"i{bits}"
    if access.how == "flush":
        return probe.flush(where)
    if access.how == "store":
        return probe.store(where, ip=name, ip_bits=bits)
    if access.how in HINTS:
        return probe.prefetch(where, access.how, ip=name, ip_bits=bits)
    return probe.load(where, ip=name, ip_bits=bits)


class Builder:
    """Turns visits into probes for a line size. The order of a block's pages is random and fixed for its lifetime: an
    even traversal would itself be a stride. Probes, and pieces that many share, are kept: half of all visits are made
    more than once, and putting one together takes as long as running it."""

    def __init__(self, line_size: int, rng: np.random.Generator) -> None:
        self.line_size, self.page_lines = line_size, PAGE_BYTES // line_size
        self.conflict_pages = LAYOUT.conflict_pages
        self._order: NDArray[np.int64] = rng.permutation(LAYOUT.block_pages)
        self._kept = lru_cache(256)(self._put_together)
        self._demoting = lru_cache(512)(self._pushed_out)
        self._flushing = lru_cache(64)(self._flushed)
        self._practising = lru_cache(16)(self._practised)
        self._traversing = lru_cache(1)(self._traversed)
        self._unwatching = lru_cache(1)(self._unwatched)

    def other(self, base: Base, number: int, at: int) -> Operand:
        """Byte `at` of the `number`th page of a block."""
        return base + (int(self._order[number % LAYOUT.block_pages]) * PAGE_BYTES + at)

    def place_of(self, access: Access) -> Operand:
        """Where an access goes."""
        if access.page > 0:
            return self.other(OTHERS, access.page, access.at)
        return (fresh_page(-access.page) if access.page else PAGE) + access.at

    # -- whole probes ----------------------------------------------------------------------------------------------

    def probe(self, visit: Visit, loaded: bool = False) -> Probe:
        """The whole visit and one timed load of `PROBED`; `loaded`: of that line when it was just loaded."""
        return self._kept(visit, loaded, self.conflict_pages)

    def _put_together(self, visit: Visit, loaded: bool, _conflict_pages: int) -> Probe:
        probe = self._prelude(visit)
        if visit.practice:
            probe = probe + self._practising(visit.practice, visit.anchor)
        if visit.scattered:
            probe = probe.repeat(visit.scattered, self._scattering).fence()
        if visit.chained:
            probe = self._chain(probe, visit)
        else:
            for number, access in enumerate(visit.steps):
                if visit.burst and number == len(visit.steps) - 1:
                    probe = _loaded(probe, self._burst_lines[: visit.burst], visit.burst_how)
                probe = self._step(probe, visit, access, number)
        return self._ending(probe.fence().wait(LAYOUT.settle_cycles).load(PROBED) if loaded else probe)

    def split(self, visit: Visit, makers: Sequence[int | None], cpus: int, *, apart: bool = False) -> list[Probe]:
        """The visit for several CPUs: `makers` says which of them makes each access (None: it is left out), one after
        the other; the first one times. Caches of cores `apart` lack the pages of traversals, whose misses would be a
        run of their own, so those make traversals beforehand."""
        other = self._thrash(self._thrash(Probe())) if apart and visit.thrash else Probe()
        probes = [probe.barrier() for probe in (self._prelude(visit), *(other,) * (cpus - 1))]
        latest = 0
        for number, maker in enumerate(makers):
            if maker is None:
                continue
            if maker != latest:
                probes, latest = [probe.barrier() for probe in probes], maker
            probes[latest] = self._step(probes[latest], visit, visit.steps[number], number)
        if latest:
            probes = [probe.barrier() for probe in probes]
        return [self._ending(probes[0]), *probes[1:]]

    def traversed(self, most: int) -> tuple[Probe, Operand]:
        """Two traversals, then the first `most` lines of a third one, and the next of its lines timed; and that line.
        Its page is touched elsewhere right before (`ALONE`), for a TLB miss resembles a further level."""
        lines = self.traversal()
        probe = _loaded(self._thrash(self._thrash(Probe())), lines[:most])
        return self._ending(probe.load(ALONE)), lines[most]

    def traversal(self) -> list[Operand]:
        """The lines, each in a page of its own, that make level 1 forget what it knows of other pages: near the pages'
        ends, at each offset as many as push a line out of level 1, and no two offsets next to each other as far as
        there are others."""
        end, apart = self.page_lines, self.page_lines // 16
        near = [*range(end - 4 * apart, end, apart), *range(end - 4 * apart + apart // 2, end, apart)]
        offsets = near[: -(-LAYOUT.thrash_pages // self.conflict_pages)]
        lines = [offsets[number % len(offsets)] for number in range(len(offsets) * self.conflict_pages)]
        first = LAYOUT.block_pages - LAYOUT.thrash_pages
        return [self.other(FILLER, first + n, line * self.line_size) for n, line in enumerate(lines)]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _chain(self, probe: Probe, visit: Visit) -> Probe:
        """The visit's loads, one after the other by their addresses alone; the first depends on one elsewhere, so that
        all are alike."""
        probe = probe.load(BESIDE)
        for number, access in enumerate(visit.steps):
            bits = instruction(number) if access.ip is None else access.ip
            probe = probe.load(self.place_of(access), ip=f"i{bits}", ip_bits=bits, after=-1)
        return probe

    def _step(self, probe: Probe, visit: Visit, access: Access, number: int) -> Probe:
        """One access of the visit, done and its prefetches settled before the next."""
        if access.how == "thrash":
            return self._thrash(probe)
        if access.how == "demote":
            return self._demote(probe, [access.at // self.line_size])
        if visit.thrash:
            probe = self._thrash(probe)
        if visit.anchor is not None and access.how in HINTS:
            bits = LAYOUT.anchor_ip
            probe = probe.load(PAGE + visit.anchor * self.line_size, ip=f"i{bits}", ip_bits=bits).fence()
        return _act(probe, access, self.place_of(access), number).fence().wait(LAYOUT.step_cycles).fence("l")

    def _practised(self, practice: tuple[Access, ...], anchor: int | None) -> Probe:
        """Accesses made as those of a visit are."""
        probe, visit = Probe(), Visit((), anchor=anchor)
        for number, access in enumerate(practice):
            probe = self._step(probe, visit, access, number)
        return probe

    @cached_property
    def _scattering(self) -> Probe:
        """A round of scattered loads, all of which miss."""
        probe, at = Probe(), LAYOUT.scattered_line * self.line_size
        for page in range(LAYOUT.scattered):
            probe = probe.flush(self.other(OTHERS, page, at))
        probe = probe.fence()
        for page in range(LAYOUT.scattered):
            bits = LAYOUT.scattered_ip + page * LAYOUT.scattered_apart
            probe = probe.load(self.other(OTHERS, page, at), ip=f"i{bits}", ip_bits=bits)
        return probe

    @staticmethod
    def _ending(probe: Probe) -> Probe:
        """The timed load, as references are timed (`serving.timed`): behind a load that hits and a fence."""
        settled = probe.fence().wait(LAYOUT.settle_cycles).fence()
        return settled.load(BESIDE).fence().start().load(PROBED).stop()

    def _prelude(self, visit: Visit) -> Probe:
        """Everything before the first access.

        Forgetting comes first, because a region prefetcher fills level 1 with what it still remembers, and because it
        opens pages at the very offsets of demoted lines, which level 2 may not hold as well. What pushes a line out may
        have its next line brought, which pushes out the one kept warm, so those are loaded again. Once the page has
        been seen, tables must forget it, by misses of other pages."""
        probe, kept = Probe(), _kept_warm(visit)
        if visit.forget:
            probe = self._forget(probe, visit, LAYOUT.forget_alone) + self._unwatching(visit.forget)
        for number, access in enumerate(visit.training):
            probe = _act(probe, access, self.place_of(access), number).fence()
        probe = self._demote(self._loads(self._loads(probe, kept), visit.demoted), visit.demoted)
        again = self._warmed_again(visit)
        if visit.forget and again:
            probe = self._alone(probe, again, LAYOUT.forget_alone, visit.beside) + self._unwatching(visit.forget)
        for number, access in again:
            probe = _act(probe, access, self.place_of(access), number).fence()
        # lines demoted between accesses: what pushes them out must be in level 2, or it would train its streams
        pushed = sorted({a.at // self.line_size for a in visit.steps if a.how == "demote"})
        probe = self._loads(self._demote(probe, pushed), [line for line in visit.warm if line in pushed])
        probe = self._flushes(probe, visit)
        if visit.warm or visit.demoted or visit.anchor is not None:
            if visit.forget:
                probe = self._forget(probe, visit, LAYOUT.forget_again, but=kept)
            probe = probe + self._misses
        if visit.thrash or any(access.how == "thrash" for access in visit.steps):
            probe = self._thrash(probe)  # bring its lines to level 2
        if visit.burst:
            pushing = self._shuffled(LAYOUT.burst_pages, LAYOUT.pushing_pages)
            probe = _loaded(_loaded(probe, self._burst_lines).fence(), pushing)
        return probe.fence().wait(LAYOUT.settle_cycles).fence()

    @cached_property
    def _burst_lines(self) -> list[Operand]:
        return self._shuffled(0, LAYOUT.burst_pages)

    def _shuffled(self, first: int, pages: int) -> list[Operand]:
        """All lines of some other pages, those next to each other far apart: neither a run nor equal distances. Lines
        around each are among them, so that what prefetchers bring in addition is there as well."""
        places = [(page, line) for page in range(first, first + pages) for line in range(self.page_lines)]
        order = np.random.default_rng(first).permutation(len(places))
        start = LAYOUT.block_pages - 2 * LAYOUT.pushing_pages
        return [self.other(FILLER, start + places[n][0], places[n][1] * self.line_size) for n in order]

    def _loads(self, probe: Probe, lines: Iterable[int]) -> Probe:
        for line in lines:
            probe = probe.load(PAGE + line * self.line_size).fence()
        return probe

    def _demote(self, probe: Probe, lines: Iterable[int]) -> Probe:
        for line in lines:
            probe = probe + self._demoting(line, self.conflict_pages)
        return probe

    def _pushed_out(self, line: int, pages: int) -> Probe:
        lines = [self.other(FILLER, page, line * self.line_size) for page in range(pages)]
        return _loaded(Probe(), lines * max(-(-2 * LAYOUT.conflict_pages // pages), 2)).fence()

    def _flushes(self, probe: Probe, visit: Visit) -> Probe:
        probe = probe + self._flushing(
            visit.window or (0, self.page_lines), frozenset((*_kept_warm(visit), *visit.demoted))
        )
        for page, line in sorted({(a.page, a.at // self.line_size) for a in (*visit.practice, *visit.steps) if a.page}):
            probe = probe.flush(self.place_of(Access(line * self.line_size, page=page)))
        return probe.fence()

    def _flushed(self, window: tuple[int, int], kept: frozenset[int]) -> Probe:
        probe = Probe()
        for line in range(*window):
            if line not in kept:
                probe = probe.flush(PAGE + line * self.line_size)
        return probe

    def _warmed_again(self, visit: Visit) -> list[tuple[int, Access]]:
        """The lines kept warm behind demoted ones, and which instruction loads them again: of all those numbers that
        accesses have, the last. They open regions that were seen whole, demoted lines among them, so region prefetchers
        must have forgotten what followed."""
        lines = [line for line in visit.warm if line - 1 in visit.demoted]
        return [(LAYOUT.instructions - 1 - n, Access(line * self.line_size)) for n, line in enumerate(lines)]

    @cached_property
    def _misses(self) -> Probe:
        """One miss in each of many other pages: tables of pages forget the visited one."""
        pages = range(LAYOUT.conflict_pages, LAYOUT.conflict_pages + LAYOUT.missed_pages)
        lines = self.page_lines * 3 // 4  # traversals have the others
        where = [self.other(FILLER, page, 7 * page % lines * self.line_size) for page in pages]
        probe = Probe()
        for operand in where:
            probe = probe.flush(operand)
        return _loaded(probe.fence().wait(LAYOUT.settle_cycles).fence(), where).fence()

    def _thrash(self, probe: Probe) -> Probe:
        return probe + self._traversing(self.conflict_pages)

    def _traversed(self, _conflict_pages: int) -> Probe:
        # what it has prefetched must not take the miss entries that the next access's prefetches need
        return _loaded(Probe(), self.traversal()).fence().wait(LAYOUT.step_cycles).fence("l")

    def _forget(self, probe: Probe, visit: Visit, pages: tuple[int, ...], but: tuple[int, ...] = ()) -> Probe:
        """Make every access that may open the page, `but` those to some lines, alone in some pages of its own."""
        opening = [each for each in enumerate(visit.steps) if each[1].at // self.line_size not in but]
        if visit.anchor is not None:
            opening.append((0, Access(visit.anchor * self.line_size, ip=LAYOUT.anchor_ip)))
        return self._alone(probe, opening, pages, visit.beside)

    def _alone(
        self, probe: Probe, opening: Iterable[tuple[int, Access]], pages: tuple[int, ...], beside: bool
    ) -> Probe:
        """Make each of these accesses in `pages` of its own, alone or with the line beside it: nothing else then
        follows it in a region prefetcher's memory, once the pages are watched no longer."""
        keys: set[tuple[int, int]] = set()
        for number, access in opening:
            bits = instruction(number) if access.ip is None else access.ip
            if access.how in ("flush", "demote", "thrash") or (access.at, bits) in keys:
                continue
            first = len(pages) * len(keys)
            keys.add((access.at, bits))
            for page, bit in enumerate(pages, first):
                accesses = [access]
                if beside:
                    accesses.append(replace(access, at=access.at ^ bit * self.line_size, ip=LAYOUT.unwatch_ip))
                for each in accesses:  # of the access's own kind: those that share an instruction address must be alike
                    probe = _act(probe, each, self.other(ALONE, page, each.at), number)
            probe = probe.fence()
        return probe

    def _unwatched(self, regions: int) -> Probe:
        """Open so many further regions that none of those before is watched any longer: downwards from the block's last
        page, for the accesses alone go upwards from its first."""
        opening, probe = Access(LAYOUT.unwatch_line * self.line_size, ip=LAYOUT.unwatch_ip), Probe()
        for page in range(regions):
            probe = _act(probe, opening, self.other(ALONE, LAYOUT.block_pages - 1 - page, opening.at), 0)
        return probe.fence()


def _kept_warm(visit: Visit) -> tuple[int, ...]:
    return visit.warm if visit.anchor is None else (*visit.warm, visit.anchor)


def _loaded(probe: Probe, places: Iterable[Operand], how: Literal["load", "t0"] = "load") -> Probe:
    for place in places:
        probe = probe.load(place) if how == "load" else probe.prefetch(place, how)
    return probe

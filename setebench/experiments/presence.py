"""Which lines come after some accesses to a fresh page: the accesses, then one timed line a repetition.

The controls are repetitions of the very same program that differ in placements alone, interleaved at random with the
questions, so that drift, frequency and co-runners fall on all alike: a line that was flushed, one that was just loaded,
and one that others pushed out of level 1. How many accesses a repetition makes is a placement too: those left out go to
a line of another page. So one program answers for every line of a page after every number of accesses.

It returns samples with their controls, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.probe import HINTS, Base, Operand, Probe
from setebench.scenario import Context

Ticks = NDArray[np.int64]
Whole = NDArray[np.int64]
Kind = Literal["load", "store", "t0", "t1", "t2", "nta", "w", "flush", "leave"]
Order = Literal["fenced", "chained", "free"]

PAGE_BYTES = 1 << 12
"""The smallest page, within which prefetchers of physical addresses stay."""

MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class PresenceParams:
    """How trials are made."""

    settle: int = 2500  # cycles: what flushes and prefetches take from memory; longer costs time alone
    step: int = 600  # cycles after each access: a batch of prefetches arrives; more lets some prefetchers fall asleep
    apart: int = 4  # pages between pages of trials: what runs past the end of one isn't in the next
    pool_bytes: int = 48 << 20  # of which pages are taken; none is used again before all were
    evictors: int = 4096  # pages whose lines evict others: enough for any level 2 of 16 ways
    first_level: tuple[int, ...] = (12, 16, 20, 24, 32, 48, 64)  # lines at one page offset that may evict from level 1
    outer: tuple[int, ...] = (768, 1536, 3072, 4000)  # lines that may evict from level 2
    samples: int = 96  # repetitions of each such number, a third for those of level 2
    controls: int = 12  # one repetition in so many is a control, of each kind
    kept: int = 480  # latest controls of a kind that count: a second's worth
    forgotten: int = 40  # pages opened so that those before are no longer watched
    scrub: int = 3  # loads at random places by each shared instruction before the accesses: its entry forgets
    other_ip: int = 0x155  # low bits of the first instruction with an address of its own, and how far they are apart
    ip_apart: int = 131
    shared_ip: int = 0x40155  # low bits of the first shared instruction
    salt: int = 0x7A53  # instruction addresses of one program after another: tables by address begin anew


PARAMS = PresenceParams()

PROBED, HELD, EVICTOR, EVICTORS, LATEST, BESIDE, TOUCHED = (
    Base(name) for name in ("probed", "held", "evictor", "evictors", "latest", "beside", "touched")
)
IP_SPAN = 1 << 23
"""Low bits of instruction addresses that are used."""


@dataclass(frozen=True)
class Access:
    """One access of a trial, `at` so many bytes from the beginning of its `page` (page 0 holds the timed line).
    Accesses of one number `ip` are made by one instruction, with None by an instruction of their own; `flip` has the
    bits by which its address differs. `maker` is the SMT thread or core. The kind `leave` opens so many other pages
    that prefetchers follow no page from before."""

    at: int
    kind: Kind = "load"
    ip: int | None = None
    flip: int = 0
    page: int = 0
    maker: int = 0


@dataclass(frozen=True)
class Trial:
    """Accesses to fresh pages in their order: `fenced` (each done before the next), `chained` (ordered by address
    dependence alone) or `free`. `held`: lines of page 0 are in level 2 beforehand, and not in level 1. `window`: lines
    of page 0 that are flushed (first, end). `opened`: pages that are opened by each access alone before and left, so
    that what remembers footprints of pages has seen nothing follow. `practised`: nothing is done to make an instruction
    forget the trials before, which made as many accesses but for one at most."""

    accesses: tuple[Access, ...]
    order: Order = "fenced"
    held: tuple[int, ...] = ()
    window: tuple[int, int] | None = None
    opened: int = 0
    practised: bool = False


@dataclass(frozen=True)
class Samples:
    """Ticks of the timed loads: `ticks[i]` of line `lines[i]` after the last `counts[i]` accesses of the trial, shapes
    (n,); and of the controls, nearest level first."""

    lines: Whole
    counts: Whole
    ticks: Ticks
    controls: Mapping[str, Ticks]


class Trials:
    """Runs trials in pages of a region of small pages, and keeps the latest controls."""

    def __init__(self, context: Context, region: Region, turn: int = 0) -> None:
        self.context, self.region, self.line_size = context, region, region.line_size
        self.page_lines = PAGE_BYTES // region.line_size
        self.rng = context.rng(f"trials {turn}")
        self._idle = [region.address + (self.page_lines // 2 + far) * self.line_size for far in (3, 9)]
        pages = region.size // PAGE_BYTES
        self.evictors = min(PARAMS.evictors, pages // 3)
        self._pages = np.arange(self.evictors + PARAMS.apart, pages - PARAMS.apart, PARAMS.apart, dtype=np.int64)
        self._next, self._programs = len(self._pages), turn * 100
        self.controls: dict[str, Ticks] = {}
        self.evict = 0
        self._find_controls()

    # -- questions ------------------------------------------------------------------------------------------------

    def sample(self, trial: Trial, cells: Sequence[tuple[int, int]], repetitions: int) -> Samples:
        """Time lines of page 0: of each cell (line, number of the trial's last accesses that are made) so often."""
        (probe,) = self._make(trial)
        cell = np.repeat(np.asarray(cells, dtype=np.int64).reshape(-1, 2), repetitions, axis=0)
        number = max(len(cell) // PARAMS.controls, 2)
        kinds = np.repeat(np.arange(len(self.controls) + 1), [len(cell)] + [number] * len(self.controls))
        cell = np.concatenate([cell, cell[self.rng.integers(0, len(cell), len(kinds) - len(cell))]])
        order = self.rng.permutation(len(kinds))
        if trial.practised:
            order = order[np.argsort(cell[order, 1], kind="stable")]
        kinds, cell = kinds[order], cell[order]
        placed = self._placements(trial, cell, kinds)
        ticks = self._run(probe, placed)
        for kind, level in enumerate(self.controls, 1):
            if level in ("l1", "l2", MEMORY):
                self.controls[level] = np.concatenate([self.controls[level], ticks[kinds == kind]])[-PARAMS.kept :]
        own = kinds == 0
        return Samples(cell[own, 0], cell[own, 1], ticks[own], dict(self.controls))

    def makers(self, trial: Trial, cpus: Sequence[int], cells: Sequence[tuple[int, int]], repetitions: int) -> Samples:
        """As `sample`, but several CPUs make the accesses: each that of its place in `cpus` (`Access.maker`), in the
        trial's order. The first one times lines; the controls are those that it took alone."""
        cell = self.rng.permutation(np.repeat(np.asarray(cells, dtype=np.int64).reshape(-1, 2), repetitions, axis=0))
        probes = self._make(trial, len(cpus))
        placed = self._placements(trial, cell, np.zeros(len(cell), dtype=np.int64))
        bases = {base for probe in probes for base in probe.bases}
        together = dict(zip(cpus, probes, strict=True))
        ticks = self.context.machine.run_together(together, {b: p for b, p in placed.items() if b in bases})
        return Samples(cell[:, 0], cell[:, 1], ticks[cpus[0]][:, 0], dict(self.controls))

    # -- programs -------------------------------------------------------------------------------------------------

    def _make(self, trial: Trial, makers: int = 1) -> list[Probe]:
        """A program for each CPU that makes accesses: those of one wait for the accesses of others before them."""
        self._programs += 1
        latest, probes = 0, [self._prelude(trial), *(Probe(),) * (makers - 1)]
        if makers > 1:
            probes = [probe.barrier() for probe in probes]
        for slot, access in enumerate(trial.accesses):
            if access.maker != latest:
                probes, latest = [probe.barrier() for probe in probes], access.maker
            probes[latest] = self._step(probes[latest], trial, access, slot)
        if latest:
            probes = [probe.barrier() for probe in probes]
        return [self._ending(probes[0]), *probes[1:]]

    def _prelude(self, trial: Trial) -> Probe:
        """Everything before the first access."""
        probe = Probe()
        for line in range(*(trial.window or (0, self.page_lines))):
            probe = probe.flush(_page(0) + line * self.line_size)
        for page, at in sorted({(a.page, a.at) for a in trial.accesses if a.page}):
            probe = probe.flush(_page(page) + at)
        probe = probe.flush(PROBED).fence().load(HELD).fence()
        probe = self._holding(probe, trial)
        probe = self._evicted(probe, EVICTOR)
        probe = self._opening(probe, trial)
        shared = {a.ip: a for a in trial.accesses if a.ip is not None}
        for number in range(0 if trial.practised else PARAMS.scrub):
            for access in shared.values():
                probe = self._act(probe, replace(access, flip=0), Base(f"scrub {number}") + 0, 0).fence()
        return probe.fence().wait(PARAMS.settle).fence()

    def _holding(self, probe: Probe, trial: Trial) -> Probe:
        """Lines of page 0 in level 2 alone. Their loads may have trained what goes by pages, so misses in other pages
        follow, and whatever lines they brought are flushed."""
        if not trial.held:
            return probe
        for line in self.rng.permutation(trial.held):
            probe = probe.load(_page(0) + int(line) * self.line_size).fence()
        for page in range(100):
            probe = probe.load(Base("missed") + (3 * page * PAGE_BYTES + 7 * page % self.page_lines * self.line_size))
        for line in sorted({*range(*(trial.window or (0, self.page_lines)))} - {*trial.held}):
            probe = probe.flush(_page(0) + line * self.line_size)
        for line in trial.held:
            probe = self._evicted(probe, EVICTORS, line * self.line_size)
        return probe

    def _opening(self, probe: Probe, trial: Trial) -> Probe:
        """What remembers by a page's first access which lines followed sees each access alone."""
        if not trial.opened:
            return probe
        for slot, access in enumerate(trial.accesses):
            alone = self._act(Probe(), access, Base(f"opened {slot}") + 0, slot)
            probe = probe.repeat(trial.opened, alone, advance=PAGE_BYTES)
        return _leaving(probe)

    def _evicted(self, probe: Probe, base: Base, offset: int = 0) -> Probe:
        """Twice as many lines as evict one: a level that replaces at random keeps some from one turn."""
        for _ in range(2 if self.evict else 0):
            probe = probe.repeat(self.evict, Probe().load(base + offset), advance=PAGE_BYTES).fence()
        return probe

    def _step(self, probe: Probe, trial: Trial, access: Access, slot: int) -> Probe:
        probe = self._act(probe, access, Base(f"access {slot}") + 0, slot, trial.order == "chained")
        if trial.order != "fenced":
            return probe
        return probe.fence("l" if access.kind == "load" else "m").wait(PARAMS.step).fence("l")

    def _act(self, probe: Probe, access: Access, where: Operand, slot: int, chained: bool = False) -> Probe:
        if access.kind == "flush":
            return probe.flush(where)
        if access.kind == "leave":
            return _leaving(probe)
        if access.ip is None:
            bits = PARAMS.other_ip + PARAMS.ip_apart * (slot + 1)
        else:
            bits = PARAMS.shared_ip + PARAMS.ip_apart * access.ip
        bits = (bits + PARAMS.salt * self._programs) % IP_SPAN ^ access.flip
        name = f"i{bits}"
        if access.kind == "store":
            return probe.store(where, ip=name, ip_bits=bits)
        if access.kind in HINTS:
            return probe.prefetch(where, access.kind, ip=name, ip_bits=bits)
        return probe.load(where, ip=name, ip_bits=bits, after=-1 if chained else None)

    def _ending(self, probe: Probe) -> Probe:
        """The timed load. The flush of another line of its page brings its translation, and trains nothing."""
        probe = probe.fence().wait(PARAMS.settle).fence().flush(TOUCHED).fence().wait(PARAMS.step).fence()
        return probe.load(LATEST).load(BESIDE).fence().start().load(PROBED).stop()

    # -- placements -----------------------------------------------------------------------------------------------

    def _placements(self, trial: Trial, cell: Whole, kinds: Whole) -> dict[Base, Whole]:
        """`cell`: line and accesses made of each repetition, shape (n, 2); `kinds`: 0 or the number of a control."""
        number, line, first = len(cell), self.line_size, self.region.address
        pages = {page: self._fresh(number) for page in {0, *(access.page for access in trial.accesses)}}
        placed = {_page(page): where for page, where in pages.items()}
        idle, beside = (np.full(number, each) for each in self._idle)
        slots, made = len(trial.accesses), cell[:, 1]
        at = np.array([access.at for access in trial.accesses])
        page = np.array([access.page for access in trial.accesses])
        everywhere = np.stack([pages[each] for each in range(max(pages) + 1)]) if slots else np.zeros((0, number))
        for slot in range(slots):
            which = np.clip(slot - (slots - made), 0, slots - 1)
            where = everywhere[page[which], np.arange(number)] + at[which]
            if trial.opened:
                blocks = self.rng.integers(0, self.evictors - trial.opened, number) * PAGE_BYTES
                placed[Base(f"opened {slot}")] = first + blocks + np.where(slot >= slots - made, at[which], 2 * line)
            placed[Base(f"access {slot}")] = np.where(slot >= slots - made, where, idle)
        levels = np.array(["", *self.controls])[kinds]
        other = self._fresh(number) + self.rng.integers(2, self.page_lines - 2, number) * line
        probed = np.where(kinds > 0, other, pages[0] + cell[:, 0] * line)
        in_page = probed % PAGE_BYTES
        edge = np.where(in_page == 0, PAGE_BYTES - line, 0)
        placed |= {
            PROBED: probed,
            HELD: np.where(levels == "l2", probed, idle),
            LATEST: np.where(levels == "l1", probed, idle),
            TOUCHED: probed - in_page + edge,
            EVICTOR: first + np.where(levels == "l2", in_page, 2 * line),
            EVICTORS: np.full(number, first),
            BESIDE: beside,
            Base("missed"): first + self.rng.integers(0, max(self.evictors - 304, 1), number) * PAGE_BYTES,
        }
        for scrub in range(PARAMS.scrub):
            placed[Base(f"scrub {scrub}")] = self._fresh(number) + self.rng.integers(0, self.page_lines, number) * line
        return placed

    def _run(self, probe: Probe, placed: Mapping[Base, Whole]) -> Ticks:
        """Ticks of each repetition, behind two that warm up."""
        warmed = {base: np.concatenate([placed[base][:2], placed[base]]) for base in probe.bases}
        return self.context.machine.run(probe, warmed, cpu=self.context.cpu, warmup=2)[:, 0]

    def _fresh(self, count: int) -> Whole:
        """Addresses of pages in random order, each used once before any is used again."""
        taken: list[Whole] = []
        while count:
            if self._next >= len(self._pages):
                self._pages, self._next = self.rng.permutation(self._pages), 0
            part = self._pages[self._next : self._next + count]
            taken.append(self.region.address + part * PAGE_BYTES)
            self._next += len(part)
            count -= len(part)
        return np.concatenate(taken)

    # -- controls -------------------------------------------------------------------------------------------------

    def _find_controls(self) -> None:
        """How many lines at one page offset evict a line from level 1, and what loads take behind as many as evict it
        from level 2: of a level 3, if any, no repetition of another program can be a control, as that takes thousands
        of loads."""
        sizes = [0, *PARAMS.first_level, *(each for each in PARAMS.outer if each <= self.evictors)]
        times = {size: self._after_evictors(size) for size in sizes}
        memory = self._after_evictors(None)
        self.evict = _enough(times)
        self.controls = {"l1": times[0], **({"l2": times[self.evict]} if self.evict else {})}
        inner, outer = np.quantile([*self.controls.values()][-1], 0.95), np.quantile(memory, 0.05)
        beyond = np.concatenate([times[size] for size in sizes if size >= PARAMS.outer[0]])
        between = beyond[(beyond > inner) & (beyond < outer)]
        if len(between) > PARAMS.samples // 4 and outer > 1.5 * inner:
            self.controls["l3"] = between
        self.controls[MEMORY] = memory

    def _after_evictors(self, size: int | None) -> Ticks:
        """Loads of a line after so many others at the same page offset; None: after its flush."""
        probe = Probe().flush(PROBED).fence()
        if size is not None:
            probe = probe.load(PROBED).fence()
            for _ in range(2 if size else 0):
                probe = probe.repeat(size, Probe().load(EVICTOR), advance=PAGE_BYTES).fence()
        number = PARAMS.samples // 3 if size in PARAMS.outer else PARAMS.samples
        at = self.rng.integers(2, self.page_lines - 2, number) * self.line_size
        pages, first = self._fresh(number), self.region.address
        idle, beside = (np.full(number, each) for each in self._idle)
        placed = {PROBED: pages + at, TOUCHED: pages, EVICTOR: first + at, LATEST: idle, BESIDE: beside}
        return self._run(self._ending(probe), placed)


def _enough(times: Mapping[int, Ticks]) -> int:
    """How many lines evict one from level 1, or 0 if none do: one size more than the first behind which loads are no
    slower for two more. Only the faster half of the loads is looked at, and not all sizes: 64 lines at one page offset
    evict some from a small level 2 as well."""
    means = {size: float(np.mean(np.sort(each)[: len(each) // 2])) for size, each in times.items()}
    sizes, near = PARAMS.first_level, means[0]
    for number, size in enumerate(sizes):
        farther = max(means[each] for each in sizes[number : number + 3]) - near
        if farther > 0.5 and means[size] - near > 0.85 * farther:
            return sizes[min(number + 1, len(sizes) - 1)]
    return 0


def _leaving(probe: Probe) -> Probe:
    return probe.repeat(PARAMS.forgotten, Probe().load(EVICTORS), advance=PAGE_BYTES).fence()


def _page(number: int) -> Base:
    return Base(f"page {number}")

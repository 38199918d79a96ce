"""Measure which lines a prefetcher fetches after some accesses to a fresh page, by one timed load per repetition.

A trial makes its accesses to fresh pages and then times the load of one line, which shows the cache level that the line
is in. Controls are repetitions of the same program with other addresses (placements): their timed line was flushed,
just loaded, or evicted from level 1. They are mixed in at random, so that drift and co-runners affect all alike. The
number of accesses is chosen by placements, too (accesses that are left out go to another page), so one program covers
every line and every number of accesses.
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
"""Bytes of the smallest page; prefetchers that see physical addresses don't cross its end."""

MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class PresenceParams:
    """Waits, numbers of lines, pages and repetitions, and instruction addresses of trials and controls."""

    settle: int = 2500  # cycles of waiting until flushes and prefetches from memory are done; more only costs time
    step: int = 600  # cycles of waiting after each access, for prefetches to arrive; more lets some prefetchers stop
    apart: int = 4  # distance of the pages of trials, in pages: prefetches beyond a page's end don't reach the next one
    pool_bytes: int = 48 << 20  # bytes of the memory for all pages; each page is used once before any is used again
    evictors: int = 4096  # pages whose lines evict others: enough for any level 2 of 16 ways
    first_level: tuple[int, ...] = (12, 16, 20, 24, 32, 48, 64)  # tried numbers of lines to evict one from level 1
    outer: tuple[int, ...] = (768, 1536, 3072, 4000)  # tried numbers of lines to evict one from level 2
    samples: int = 96  # loads timed for each number tried, a third of that for `outer`
    controls: int = 12  # repetitions of a trial for which one control of each kind is run
    kept: int = 480  # number of the latest controls of a kind that are used: those of about a second
    forgotten: int = 40  # pages accessed by `leave`, so that prefetchers stop tracking earlier pages
    scrub: int = 3  # random loads by each shared instruction before a trial, to reset its prefetcher entry
    other_ip: int = 0x155  # low bits of the first address of instructions that are not shared
    ip_apart: int = 131  # distance of the low bits of two instructions
    shared_ip: int = 0x40155  # low bits of the first shared instruction
    salt: int = 0x7A53  # added to instruction addresses by program, so that each program uses other prefetcher entries


PARAMS = PresenceParams()

PROBED, HELD, EVICTOR, EVICTORS, LATEST, BESIDE, TOUCHED = (
    Base(name) for name in ("probed", "held", "evictor", "evictors", "latest", "beside", "touched")
)
IP_SPAN = 1 << 23
"""Instruction addresses are taken modulo this, as only low bits can be chosen."""


@dataclass(frozen=True)
class Access:
    """One access of a trial: its kind, the offset `at` in bytes, and the number of its fresh `page` (page 0 has the
    timed line). Accesses with the same number `ip` share an instruction, whose address bits in `flip` are inverted;
    with None the access has its own. `maker` is the index of the CPU that makes the access. The kind `leave` loads from
    so many other pages that prefetchers stop tracking earlier ones; "t0" to "w" are prefetch hints."""

    at: int
    kind: Kind = "load"
    ip: int | None = None
    flip: int = 0
    page: int = 0
    maker: int = 0


@dataclass(frozen=True)
class Trial:
    """A trial: accesses to fresh pages, after which one line of page 0 is timed. Their `order` is `fenced` (each
    completes before the next), `chained` (by address dependence) or `free`. Before them, lines of page 0 with numbers
    in `window` (first, end; None: all) are flushed, those with numbers in `held` are brought to level 2 only, and each
    access is made alone in `opened` other pages, where prefetchers that learn pages' footprints learn that nothing
    follows it. If `practised`, prefetcher entries of shared instructions are not reset, and repetitions run in the
    order of their number of accesses."""

    accesses: tuple[Access, ...]
    order: Order = "fenced"
    held: tuple[int, ...] = ()
    window: tuple[int, int] | None = None
    opened: int = 0
    practised: bool = False


@dataclass(frozen=True)
class Samples:
    """Result of n runs of a trial. Run i makes the last `counts[i]` of the trial's accesses and no others, then times a
    load of line `lines[i]` of page 0: `ticks[i]`; shapes (n,). `controls` has the ticks of loads of lines that lie in a
    known level, by level, nearest first."""

    lines: Whole
    counts: Whole
    ticks: Ticks
    controls: Mapping[str, Ticks]


class Trials:
    """Runs trials, each in fresh pages of a region of small pages, among controls: loads of lines of which the level is
    known. The ticks of the latest `controls` show by comparison the levels of other lines."""

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

    def sample(
        self, trial: Trial, cells: Sequence[tuple[int, int]], repetitions: int, controls: int = PARAMS.controls
    ) -> Samples:
        """Run a trial and controls in random order, and return their times. A cell is a pair: the number of the timed
        line in page 0, and how many of the trial's accesses (its last ones) are made before; each cell is timed
        `repetitions` times. Per `controls` repetitions one control of each kind (but level 3's) is run, and added to
        the latest ones, which are returned; with 1, controls of this program soon replace all older ones."""
        (probe,) = self._make(trial)
        cell = np.repeat(np.asarray(cells, dtype=np.int64).reshape(-1, 2), repetitions, axis=0)
        number = max(len(cell) // controls, 2)
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
        """Run a trial as `sample` does (arguments as there), with accesses by several CPUs: `Access.maker` is an index
        into `cpus`. The first CPU times the lines. No controls are run; those from calls of `sample` are returned."""
        cell = self.rng.permutation(np.repeat(np.asarray(cells, dtype=np.int64).reshape(-1, 2), repetitions, axis=0))
        probes = self._make(trial, len(cpus))
        placed = self._placements(trial, cell, np.zeros(len(cell), dtype=np.int64))
        bases = {base for probe in probes for base in probe.bases}
        together = dict(zip(cpus, probes, strict=True))
        ticks = self.context.machine.run_together(together, {b: p for b, p in placed.items() if b in bases})
        return Samples(cell[:, 0], cell[:, 1], ticks[cpus[0]][:, 0], dict(self.controls))

    def _make(self, trial: Trial, makers: int = 1) -> list[Probe]:
        """Return a program for each of `makers` CPUs. Barriers keep the trial's order of accesses."""
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
        """Return the program before the trial's accesses: flushes, controls' loads, evictions, opened pages, resets."""
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
        """Append to `probe` loads and evictions that bring the trial's `held` lines to level 2 alone. As the loads may
        train a prefetcher, misses in other pages follow, and lines that may have been prefetched are flushed."""
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
        """Append each access of the trial alone, in `trial.opened` other pages. Prefetchers that learn which lines of a
        page follow its first access thus learn that no line follows."""
        if not trial.opened:
            return probe
        for slot, access in enumerate(trial.accesses):
            alone = self._act(Probe(), access, Base(f"opened {slot}") + 0, slot)
            probe = probe.repeat(trial.opened, alone, advance=PAGE_BYTES)
        return _leaving(probe)

    def _evicted(self, probe: Probe, base: Base, offset: int = 0) -> Probe:
        """Append loads of lines from `base` + `offset` on that evict one from level 1, twice for random replacement."""
        for _ in range(2 if self.evict else 0):
            probe = probe.repeat(self.evict, Probe().load(base + offset), advance=PAGE_BYTES).fence()
        return probe

    def _step(self, probe: Probe, trial: Trial, access: Access, slot: int) -> Probe:
        """Append access number `slot` of the trial to `probe`; if accesses are fenced, also a fence and a wait."""
        probe = self._act(probe, access, Base(f"access {slot}") + 0, slot, trial.order == "chained")
        if trial.order != "fenced":
            return probe
        return probe.fence("l" if access.kind == "load" else "m").wait(PARAMS.step).fence("l")

    def _act(self, probe: Probe, access: Access, where: Operand, slot: int, chained: bool = False) -> Probe:
        """Append one access, of operand `where`, to `probe`, by an instruction at the address for `access.ip`."""
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
        """Append the timed load. A flush in the load's page first loads the translation, and trains no prefetcher."""
        probe = probe.fence().wait(PARAMS.settle).fence().flush(TOUCHED).fence().wait(PARAMS.step).fence()
        return probe.load(LATEST).load(BESIDE).fence().start().load(PROBED).stop()

    def _placements(self, trial: Trial, cell: Whole, kinds: Whole) -> dict[Base, Whole]:
        """Return by base the addresses of each repetition, shape (n,). `cell`, shape (n, 2), has each one's line number
        and number of accesses; `kinds`, shape (n,), is 0 for a trial, else the number of the control's kind."""
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
        """Run the program, and return the ticks of each repetition, shape (n,); two more come first, for warm-up."""
        warmed = {base: np.concatenate([placed[base][:2], placed[base]]) for base in probe.bases}
        return self.context.machine.run(probe, warmed, cpu=self.context.cpu, warmup=2)[:, 0]

    def _fresh(self, count: int) -> Whole:
        """Return the addresses of `count` pages in random order; each page is used once before any is used again."""
        taken: list[Whole] = []
        while count:
            if self._next >= len(self._pages):
                self._pages, self._next = self.rng.permutation(self._pages), 0
            part = self._pages[self._next : self._next + count]
            taken.append(self.region.address + part * PAGE_BYTES)
            self._next += len(part)
            count -= len(part)
        return np.concatenate(taken)

    def _find_controls(self) -> None:
        """Choose the number of lines that evict a line from level 1, and time the first controls. Those of level 3, if
        there is one, are timed only here, as thousands of evictors are too many for trials."""
        sizes = [0, *PARAMS.first_level, *(each for each in PARAMS.outer if each <= self.evictors)]
        times = {size: self._after_evictors(size) for size in sizes}
        memory = self._after_evictors(None)
        self.evict = _fewest_evictors(times)
        self.controls = {"l1": times[0], **({"l2": times[self.evict]} if self.evict else {})}
        inner, outer = np.quantile([*self.controls.values()][-1], 0.95), np.quantile(memory, 0.05)
        beyond = np.concatenate([times[size] for size in sizes if size >= PARAMS.outer[0]])
        between = beyond[(beyond > inner) & (beyond < outer)]
        if len(between) > PARAMS.samples // 4 and outer > 1.5 * inner:
            self.controls["l3"] = between
        self.controls[MEMORY] = memory

    def _after_evictors(self, size: int | None) -> Ticks:
        """Return the ticks of loads of a line, shape (n,): each after loads of `size` other lines at the same offset in
        their pages, or (None) after a flush of the line."""
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


def _fewest_evictors(times: Mapping[int, Ticks]) -> int:
    """Return the number of lines to use for evicting one from level 1, or 0 if none of the numbers tried does. `times`
    has the ticks of loads after each number. Of the numbers tried, the one after the first at which loads are about as
    slow as at the next two is used. Only the faster half of loads counts, as many lines may evict some from level 2."""
    means = {size: float(np.mean(np.sort(each)[: len(each) // 2])) for size, each in times.items()}
    sizes, near = PARAMS.first_level, means[0]
    for number, size in enumerate(sizes):
        farther = max(means[each] for each in sizes[number : number + 3]) - near
        if farther > 0.5 and means[size] - near > 0.85 * farther:
            return sizes[min(number + 1, len(sizes) - 1)]
    return 0


def _leaving(probe: Probe) -> Probe:
    """Append loads from `PARAMS.forgotten` other pages, so many that prefetchers stop tracking earlier ones."""
    return probe.repeat(PARAMS.forgotten, Probe().load(EVICTORS), advance=PAGE_BYTES).fence()


def _page(number: int) -> Base:
    return Base(f"page {number}")

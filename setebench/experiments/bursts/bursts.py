"""Bursts of misses: many accesses at once to lines that no cache holds, and times until they are done. Ticks in, cycles
out; what limits them is for the caller to find.

The lines are laid so that no hardware prefetcher can fetch them, follow them, or be woken by them:

* Each target is the only line of its page that ever misses, in random order of random pages. Odd and even lines take
  turns, for some cores keep the entries for either apart: bursts on even lines alone find half of them.
* The other line of a target's pair is in a cache before, and what else a prefetcher brings beside a target stays there
  from the first repetition on: it finds its lines there and takes no miss entry.
* Within a burst's repetitions a page sees the same line again and again. A stream needs two lines of a page, a stride
  prefetcher a stride, and a region prefetcher a second line to remember; none gets that.
* No target lies at the ends of a page, where streamers may start after one miss.

A flush warms the TLB entry of its page and trains nothing, so targets are flushed right before they are wanted, the
one that is wanted first last. In the order of use, a TLB that holds one page less than a burst has would lose each
page right before it is wanted: from that number on all of them would be missing, which resembles a full queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY
from setebench.experiments.alone import Alone
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.lines.layout import TLB_PAGE_BYTES, by_windows, lay, span_bytes
from setebench.machine import Region
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

Times = NDArray[np.float64]

TARGETS, NEAR, EVICTORS = Base("targets"), Base("near"), Base("evictors")


@dataclass(frozen=True, kw_only=True)
class BurstParams:
    """How a burst is laid and run.

    No target lies in the `edge_lines` at either end of a page. Between flushing a line and asking for it again, and for
    what was fetched to come, pass `settle_cycles`, longer than any memory takes: a flush under way makes memory look
    slower. A burst is repeated on the same lines; the first `warmup` of them fetch the probe's code and are left out.
    The chase in level 1 goes round on `cycle_lines`; a load that is to set out behind all misses waits for
    `behind_hits` of its steps, as a core that takes three loads a cycle, in any order, has then begun all of a queue's.
    A line that is only flushed, to warm a TLB entry, lies `far_lines` from the one whose page it is."""

    edge_lines: int = 2
    settle_cycles: int = 2000
    repetitions: int = 8
    warmup: int = 2
    cycle_lines: int = 8
    behind_hits: int = 3
    far_lines: int = 20

    @property
    def runs(self) -> int:
        """Repetitions with those that are left out."""
        return self.repetitions + self.warmup


@dataclass(frozen=True)
class Spread:
    """Where the targets of a burst lie, as offsets in bytes from the base, in the order of use; and the other line of
    each one's pair. Offsets, not addresses: they are part of the probe, so no address is fetched or computed while time
    runs."""

    targets: tuple[int, ...]
    beside: tuple[int, ...] = ()

    def one(self, number: int) -> Spread:
        """One of them."""
        return Spread((self.targets[number],), (self.beside[number],))


def requested(probe: Probe, place: Spread, hint: str = "", *, warmed: bool = False, base: Base = TARGETS) -> Probe:
    """`probe`, then loads of all targets, or prefetches with a `hint`, each right behind a load of the line beside if
    `warmed`."""
    for target, beside in zip(place.targets, place.beside, strict=True):
        probe = probe.load(base + beside) if warmed else probe
        probe = probe.prefetch(base + target, hint) if hint else probe.load(base + target)
    return probe


class Bursts:
    """Times of bursts on one machine, in core cycles with the bracket's overhead in them; each call draws new lines.

    They run while no SMT co-runner is seen on the core, as far as that can be had (`alone`): it takes entries."""

    def __init__(
        self, context: Context, region: Region, rng: np.random.Generator, params: BurstParams | None = None
    ) -> None:
        self.params = params or BurstParams()
        self._context, self._region, self._rng = context, region, rng
        self._evictors_from = region.size // 2
        self._evictors: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._evictor_bytes = 0.0
        self.alone = Alone(context, question="bursts")
        self.refresh()

    def refresh(self) -> None:
        """Find out anew how many cycles a tick has."""
        self.cycles_per_tick = quick_cycles_per_tick(self._context)

    # -- bursts ------------------------------------------------------------------------------------------------------

    def loads(self, count: int) -> Times:
        """Loads of `count` lines in memory, all independent; shape (repetitions,)."""
        place = self.spread(count)
        return self._run(requested(self.flushed(place).start(), place).stop(), place)[:, 0]

    def stores(self, count: int) -> Times:
        """Stores to `count` lines in memory, until all are written; shape (repetitions,)."""
        place = self.spread(count)
        probe = self.flushed(place).start()
        for target in place.targets:
            probe = probe.store(TARGETS + target)
        return self._run(probe.fence().stop(), place)[:, 0]

    def prefetches(self, count: int, hint: str, *, delayed: bool, groups: int = 1, warmed: bool = False) -> Times:
        """Software prefetches of `count` lines in memory; and then a load of the last of them at once, or (`delayed`)
        of all of them once nothing is under way any more. Shape (repetitions, 2).

        The last one alone comes when all have come, and its load needs no entry that the prefetches hold. Of those that
        were dropped it says nothing: later ones may find entries free again, so then all are asked for. In more than
        one group the lines of one are there before the next sets out, so fewer are in flight at once, of as many lines.
        `warmed`: each right behind a load of its page that hits, as some machines drop a prefetch that leaves the page
        of the access before it, or whose page the first TLB lacks."""
        place = self.spread(max(count, 1))
        probe = self.warm_beside(self.flushed(place), place, count, warmed=warmed).start(0)
        pauses = {group * count // groups for group in range(1, groups)}
        for number in range(count):
            probe = self.settled(probe, count) if number in pauses else probe
            probe = requested(probe, place.one(number), hint, warmed=warmed)
        probe = probe.stop(0)
        if delayed:
            probe = self.settled(probe, count) + self.pages_warmed(place)
        # no dither between the two: what was asked for comes in while it lasts
        probe = probe.start(1, dither=delayed)
        # in the same order: what was dropped are the last ones, and no loads behind them hide that they take longer
        return self._run(requested(probe, place if delayed else place.one(-1)).stop(1), place)

    def hit_behind(self, count: int, steps: int, evictor_bytes: float, hint: str = "") -> Times:
        """Loads (or prefetches of a `hint`) of `count` lines in memory; right behind them a load that level 2 serves,
        and when that is there a chase of `steps` in level 1; shape (repetitions,).

        Of all that the misses hold, the load can lack but an entry of level 1, and the chase lacks nothing. So all
        takes as long as the misses or as the chase, until the misses hold all entries: then the load waits for the
        first miss, and the chase comes after that. A limit of the rate, or of level 2, makes the misses slower but
        not the load. Evictor lines bring the line out of level 1 before; `evictor_bytes` 0 leaves it there."""
        place, line = self.spread(count), self._region.line_size
        # another page every time: what shares its set of level 2 with evictors is pushed out further, again and again
        pages = [self.base(2) for _ in range(self.params.runs)]
        # in the next page, where nothing that the chase in level 1 wakes can bring it nearer
        beyond = TLB_PAGE_BYTES * 3 // 2
        for page in pages:
            self._context.machine.link(self._region, page + np.array(self._cycle(), dtype=np.int64))
        probe = self.evicted(Probe().load(NEAR + beyond).load(NEAR + beyond + line).fence(), evictor_bytes)
        for offset in self._cycle():
            probe = probe.load(NEAR + offset)
        # last, so that the page's TLB entry is there: after a traversal a load that lacks it takes longer than level 2
        probe = (probe + self.flushed(place, NEAR + (beyond + self.params.far_lines * line))).start()
        probe = requested(probe, place, hint)
        # behind a few hits, or a core that takes loads out of order lets it pass the last misses
        first = NEAR + self._cycle()[0]
        probe = probe.chase(first, self.params.behind_hits, self._load_bytes()).load(NEAR + beyond, after=-1)
        probe = probe.chase(first, steps, self._load_bytes(), after=-1).stop()
        return self._run(probe, place, {NEAR: pages, **self.evictor_placement()})[:, 0]

    def chase_in_level_one(self, steps: int) -> Times:
        """A chase of `steps` in level 1 alone; shape (repetitions,)."""
        base = self.base(1)
        self._context.machine.link(self._region, base + np.array(self._cycle(), dtype=np.int64))
        probe = Probe().fence().start().chase(NEAR + self._cycle()[0], steps, self._load_bytes()).stop()
        return self._run(probe, Spread(()), {NEAR: base})[:, 0]

    def landing(self, lines: int, hint: str | None, *, first: bool = False, warmed: bool = False) -> Times:
        """A chase of `lines` that were in memory and were then prefetched one by one, or not (`hint` None), or loaded
        (`first`); shape (repetitions,)."""
        place, base = self.spread(lines), self.base(lines)
        self._context.machine.link(self._region, base + np.array(place.targets, dtype=np.int64))
        probe = self.flushed(place)
        for number in range(lines):
            if warmed:
                probe = probe.load(TARGETS + place.beside[number]).fence()
            if hint is not None:
                probe = self.settled(requested(probe, place.one(number), hint, warmed=warmed))
            if first:
                probe = requested(probe, place.one(number))
        probe = self.settled(probe).start().chase(TARGETS + place.targets[0], lines).stop()
        return self._run(probe, place, {TARGETS: base})[:, 0]

    # -- parts, for experiments that are made of bursts ----------------------------------------------------------------

    def spread(self, count: int) -> Spread:
        """`count` random targets in as many neighbouring pages, in random order."""
        line, edge = self._region.line_size, self.params.edge_lines
        odd = np.arange(edge + 1, TLB_PAGE_BYTES // line - 2 * edge + 1, 2)
        # balanced, not random: no set of any cache gets more of them than it must. Odd ones first: an even line that
        # is asked for behind a burst is the next in turn
        turns = np.stack([self._rng.permutation(odd), self._rng.permutation(odd - 1)], axis=1).ravel()
        targets = self._rng.permutation(count) * TLB_PAGE_BYTES + np.resize(turns, count) * line
        return Spread(tuple(targets.tolist()), tuple((targets ^ line).tolist()))

    def base(self, pages: int, part: tuple[int, int] = (0, 1)) -> int:
        """A random page of the region's first half, or of a (number, count) part of that, with so many pages of it
        behind."""
        number, count = part
        size = self._evictors_from // TLB_PAGE_BYTES // count
        page = number * size + self._rng.integers(0, size - pages + 1)
        return int(self._region.address + page * TLB_PAGE_BYTES)

    def settled(self, probe: Probe, misses: int = 1) -> Probe:
        """`probe`, and nothing timed begins before all of it is done, though of so many `misses`, for which no fence
        waits, each may have to wait for the one before."""
        memory = int(self._context.calibration.level_cycles.get(MEMORY, 0.0))
        return probe.fence().wait(max(self.params.settle_cycles, misses * memory)).fence()

    def flushed(self, place: Spread, *others: Operand, base: Base = TARGETS) -> Probe:
        """All targets flushed, the first of them last, then `others`: a flush warms the TLB entry of its page."""
        probe = Probe()
        for target in reversed(place.targets):
            probe = probe.flush(base + target)
        for other in others:
            probe = probe.flush(other)
        return self.settled(probe)

    def pages_warmed(self, place: Spread, base: Base = TARGETS) -> Probe:
        """The TLB entries of all targets warmed, by flushing another line of each page."""
        far = self.params.far_lines * self._region.line_size
        pages = [target - target % TLB_PAGE_BYTES for target in place.targets]
        lines = [(target + far) % TLB_PAGE_BYTES for target in place.targets]
        return self.flushed(Spread(tuple(page + line for page, line in zip(pages, lines, strict=True))), base=base)

    def warm_beside(self, probe: Probe, place: Spread, count: int, *, warmed: bool, base: Base = TARGETS) -> Probe:
        """`probe`, then, if `warmed`, loads of the lines beside the first `count` targets."""
        if not warmed:
            return probe
        for beside in reversed(place.beside[:count]):
            probe = probe.load(base + beside)
        return probe.fence()

    def evicted(self, probe: Probe, evictor_bytes: float) -> Probe:
        """`probe`, then, unless `evictor_bytes` is 0, a traversal of so many bytes of evictor lines in the region's
        second half, apart from all targets; laid once for all bursts of one size."""
        if not evictor_bytes:
            return probe
        if evictor_bytes != self._evictor_bytes:
            self._evictor_bytes = evictor_bytes
            size = min(self._region.size - self._evictors_from, 2 * span_bytes(evictor_bytes, self._region.line_size))
            start = self._region.address + self._evictors_from
            ground = Region(start, size, self._region.page_size, self._region.line_size)
            self._evictors = by_windows(lay(ground, evictor_bytes, self._rng), self._rng)
            self._context.machine.link(self._region, self._evictors)
        return probe.chase(EVICTORS, len(self._evictors)).fence()

    def evictor_placement(self) -> dict[Base, int]:
        """Where a traversal begins."""
        return {EVICTORS: int(self._evictors[0])} if len(self._evictors) else {}

    def bring_beside(self, place: Spread, start: int, base: Base = TARGETS, cpu: int | None = None) -> None:
        """Load the lines beside the targets, so that no prefetcher need fetch them."""
        probe = Probe()
        for offset in place.beside:
            probe = probe.load(base + offset)
        if place.beside:
            self._context.machine.run(probe.fence(), {base: np.array([start])}, cpu=cpu)

    # -- alone ---------------------------------------------------------------------------------------------------------

    def _cycle(self) -> tuple[int, ...]:
        """Lines of the chase in level 1, as offsets: odd ones, where no target comes into the same set, up and down."""
        count = self.params.cycle_lines
        lines = [2 * (number if number % 2 else count - number) + 1 for number in range(count)]
        return tuple(line * self._region.line_size for line in lines)

    def _load_bytes(self) -> int:
        """Bytes that the chase loads: by way of a vector register steps take longer, so fewer of them fill queues."""
        return max(size for size in self._context.machine.facts.access_sizes if size <= 32)

    def _run(self, probe: Probe, place: Spread, others: Mapping[Base, int | list[int]] | None = None) -> Times:
        """Cycles of all repetitions, shape (repetitions, intervals)."""
        bases: dict[Base, int | list[int]] = {TARGETS: 0, **(others or {})}
        start = bases[TARGETS] = bases[TARGETS] or self.base(len(place.targets))
        assert isinstance(start, int)
        machine, cpu = self._context.machine, self._context.cpu
        runs = self.params.runs
        placements = {own: np.resize(np.array(bases[own], dtype=np.int64), runs) for own in probe.bases}

        def burst() -> NDArray[np.int64]:
            self.bring_beside(place, start, cpu=cpu)
            return machine.run(probe, placements, cpu=cpu, warmup=self.params.warmup)

        cycles: Times = self.alone.run(burst).astype(np.float64) * self.cycles_per_tick
        return cycles

"""Volleys: many independent misses at once, laid so that neither prefetchers nor TLBs take part.

Targets lie one to a page, on even lines, in random order. What prefetchers could do with that, and what is done about
it:

* The line beside a target (the other one of its pair, and the next one) is in a cache before, so pair and next-line
  prefetchers find it there and take no miss entry.
* Within a volley's repetitions a page sees the same line again and again. A stream needs two lines of a page, a stride
  prefetcher a stride, and a region prefetcher a second line to remember; none gets that.
* No target lies at the ends of a page, where streamers may start after one miss.

A flush warms the TLB entry of its page and trains nothing, so targets are flushed right before they are wanted, the
one that is wanted first last. In the order of use, a TLB that holds one page less than a volley has would lose each
page right before it is wanted: from that number on all of them would be missing, which looks like a full queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.steps import calm_level
from setebench.machine import Region
from setebench.measure.alone import Alone
from setebench.measure.calibrate import quick_cycles_per_tick
from setebench.measure.layout import TLB_PAGE_BYTES, by_windows, lay, span_bytes
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

EDGE_LINES = 2
"""Lines at either end of a page that no target uses."""

SETTLE_CYCLES = 2000
"""Time between flushing a line and asking for it again, and for what was fetched to come: a flush still under way makes
memory look slower. Longer than any memory of today takes."""

REPETITIONS, WARMUP = 8, 2
"""Of a volley on the same lines. The first ones fetch the probe's code and are left out."""

RING_LINES, RING_STEPS = 8, 100
"""Lines that the chase in level 1 goes round on; steps from which what one takes is measured."""

FAR_LINES = 20
"""A line of the page of the hit that is only flushed lies so far from it."""

LANDING_LINES = 8
"""Lines that are prefetched one by one, and then chased, to see where they are."""

TARGETS, NEAR, WALK = Base("targets"), Base("near"), Base("walk")


@dataclass(frozen=True)
class Spread:
    """Where the targets of a volley lie, as offsets in bytes from the base, in the order of use; and the line beside
    each. Offsets, not addresses: they are part of the probe, so no address is fetched or computed while time runs."""

    targets: tuple[int, ...]
    beside: tuple[int, ...]


def spread(count: int, line_size: int, rng: np.random.Generator) -> Spread:
    """`count` random targets in as many neighbouring pages, in random order."""
    first, last = EDGE_LINES, TLB_PAGE_BYTES // line_size - 2 * EDGE_LINES
    # balanced, not random: no set of any cache gets more of them than it must
    even = np.resize(rng.permutation(np.arange(first, last + 1, 2)), count)
    targets = rng.permutation(np.arange(count) * TLB_PAGE_BYTES + even * line_size)
    return Spread(tuple(targets.tolist()), tuple((targets + line_size).tolist()))


def settled(probe: Probe) -> Probe:
    """`probe`, and nothing timed begins before all of it is done."""
    return probe.fence().wait(SETTLE_CYCLES).fence()


def prefetch(probe: Probe, target: Operand, escort: Operand | None, hint: str) -> Probe:
    """`probe`, then a prefetch of the target, with a load of the line `escort` right before it, if given."""
    return (probe if escort is None else probe.load(escort)).prefetch(target, hint)


def wave_loads(probe: Probe, place: Spread, count: int, waves: int) -> Probe:
    """`probe`, then loads in waves of `count`, each waiting for the last load of the wave before."""
    for wave in range(waves):
        for number, target in enumerate(place.targets[wave * count : (wave + 1) * count]):
            probe = probe.load(TARGETS + target, after=-1 - number if wave else None)  # counted back from here
    return probe


class Volleys:
    """Times of volleys on one machine, in core cycles; each call draws new lines.

    They run while no tenant is seen on the core, as far as that can be had (`alone`): he takes entries.

    Prefetches that are `escorted` come right behind a load that hits, of the same page: some machines drop a prefetch
    that leaves the page of the access before it, or whose page the first TLB lacks."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator) -> None:
        self._context, self._region, self._rng = context, region, rng
        self._walk_from = region.size // 2
        self._walk: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._walk_bytes = 0.0
        self.alone = Alone(context)
        self.refresh()

    def refresh(self) -> None:
        """Find out anew how many cycles a tick has."""
        self.cycles_per_tick = quick_cycles_per_tick(self._context)

    # -- volleys -----------------------------------------------------------------------------------------------------

    def loads(self, count: int) -> NDArray[np.float64]:
        """Loads of `count` lines in memory, all independent; shape (repetitions,)."""
        place = self._spread(count)
        probe = self._flushed(place).start()
        for target in place.targets:
            probe = probe.load(TARGETS + target)
        return self._run(probe.stop(), place)[:, 0]

    def stores(self, count: int) -> NDArray[np.float64]:
        """Stores to `count` lines in memory, until all are written; shape (repetitions,)."""
        place = self._spread(count)
        probe = self._flushed(place).start()
        for target in place.targets:
            probe = probe.store(TARGETS + target)
        return self._run(probe.fence().stop(), place)[:, 0]

    def waves(self, count: int, waves: int) -> NDArray[np.float64]:
        """`count` parallel chases of `waves` lines each, in step: every line's address waits for the last load of the
        wave before; shape (repetitions,)."""
        place = self._spread(count * waves)
        return self._run(wave_loads(self._flushed(place).start(), place, count, waves).stop(), place)[:, 0]

    def prefetches(
        self, count: int, hint: str, *, delayed: bool, groups: int = 1, escorted: bool = False
    ) -> NDArray[np.float64]:
        """Software prefetches of `count` lines in memory; and then a load of the last of them at once, or (`delayed`)
        of all of them once nothing is under way any more. Shape (repetitions, 2).

        The last one alone comes when all have come, and its load needs no entry that the prefetches hold. Of those that
        were dropped it tells nothing: later ones may find entries free again, so then all are asked for.

        In more than one group the lines of one are there before the next sets out, so fewer are in flight at once, of
        as many lines."""
        place = self._spread(max(count, 1))
        probe = self._flushed(place)
        if escorted:
            for beside in reversed(place.beside[:count]):
                probe = probe.load(TARGETS + beside)
            probe = probe.fence()
        probe = probe.start(0)
        pauses = {group * count // groups for group in range(1, groups)}
        for number, (target, beside) in enumerate(zip(place.targets[:count], place.beside, strict=False)):
            if number in pauses:
                probe = settled(probe)
            probe = prefetch(probe, TARGETS + target, TARGETS + beside if escorted else None, hint)
        probe = probe.stop(0)
        if delayed:
            probe = settled(probe)
        # no dither between the two: what was asked for comes in while it lasts
        probe = probe.start(1, dither=delayed)
        # the other way round, as their pages' TLB entries are wanted
        for target in reversed(place.targets[0 if delayed else -1 :]):
            probe = probe.load(TARGETS + target)
        return self._run(probe.stop(1), place)

    def blocked(self, count: int, steps: int, walk_bytes: float) -> NDArray[np.float64]:
        """Loads of `count` lines in memory; right behind them a load that level 2 serves, and when that is there a
        chase of `steps` in level 1; shape (repetitions,).

        Of all that the misses hold, the load can lack but an entry of level 1, and the chase lacks nothing. So all
        takes as long as the misses or as the chase, until the misses hold all entries: then the load waits for the
        first miss, and the chase comes after that. A limit of the rate, or of level 2, makes the misses slower but
        not the load. A walk before brings the line out of level 1; `walk_bytes` 0 leaves it there."""
        place = self._spread(count)
        # another page every time: what shares its set of level 2 with the walk is pushed out further, again and again
        pages = [self._base(2) for _ in range(REPETITIONS + WARMUP)]
        # in the next page, where nothing that the ring wakes can bring it nearer
        beyond = TLB_PAGE_BYTES * 3 // 2
        for page in pages:
            self._context.machine.link(self._region, page + np.array(self._ring(), dtype=np.int64))
        probe = Probe().load(NEAR + beyond).load(NEAR + beyond + self._region.line_size).fence()
        if walk_bytes:
            self._lay_walk(walk_bytes)
            probe = probe.chase(WALK, len(self._walk)).fence()
        for offset in self._ring():
            probe = probe.load(NEAR + offset)
        # last, so that the page's TLB entry is still there: after a walk a load that lacks it takes longer than level 2
        probe = (probe + self._flushed(place, NEAR + (beyond + FAR_LINES * self._region.line_size))).start()
        for target in place.targets:
            probe = probe.load(TARGETS + target)
        probe = probe.load(NEAR + beyond).chase(NEAR + self._ring()[0], steps, self._ring_size(), after=-1).stop()
        return self._run(probe, place, {NEAR: pages, WALK: int(self._walk[0]) if walk_bytes else 0})[:, 0]

    def ring_step_cycles(self) -> float:
        """What a step of the chase in level 1 takes."""
        base = self._base(1)
        self._context.machine.link(self._region, base + np.array(self._ring(), dtype=np.int64))
        long, short = (
            calm_level(self._run(chase, Spread((), ()), {NEAR: base})[:, 0])
            for chase in (
                Probe().fence().start().chase(NEAR + self._ring()[0], steps, self._ring_size()).stop()
                for steps in (5 * RING_STEPS, RING_STEPS)
            )
        )
        return (long - short) / (4 * RING_STEPS)

    def _ring(self) -> tuple[int, ...]:
        """Lines of the chase in level 1, as offsets: odd ones, where no target comes into the same set, up and down."""
        lines = [2 * (number if number % 2 else RING_LINES - number) + 1 for number in range(RING_LINES)]
        return tuple(line * self._region.line_size for line in lines)

    def _ring_size(self) -> int:
        """Bytes that the chase loads: by way of a vector register steps take longer, so fewer of them fill queues."""
        return max(size for size in self._context.machine.facts.access_sizes if size <= 32)

    def landing(self, hint: str | None, *, first: bool = False, escorted: bool = False) -> NDArray[np.float64]:
        """A chase of `LANDING_LINES` lines that were in memory and were then prefetched one by one, or not (`hint`
        None), or loaded (`first`); shape (repetitions,)."""
        place = self._spread(LANDING_LINES)
        base = self._base(LANDING_LINES)
        self._context.machine.link(self._region, base + np.array(place.targets, dtype=np.int64))
        probe = self._flushed(place)
        for target, beside in zip(place.targets, place.beside, strict=True):
            if escorted:
                probe = probe.load(TARGETS + beside).fence()
            if hint is not None:
                probe = settled(prefetch(probe, TARGETS + target, TARGETS + beside if escorted else None, hint))
            if first:
                probe = probe.load(TARGETS + target)
        probe = settled(probe).start().chase(TARGETS + place.targets[0], LANDING_LINES).stop()
        return self._run(probe, place, base=base)[:, 0]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _spread(self, count: int) -> Spread:
        return spread(count, self._region.line_size, self._rng)

    def _base(self, pages: int, part: tuple[int, int] = (0, 1)) -> int:
        """A random page of the region's first half, or of a (number, count) part of that, with so many pages of it
        behind."""
        number, count = part
        size = self._walk_from // TLB_PAGE_BYTES // count
        page = number * size + self._rng.integers(0, size - pages + 1)
        return int(self._region.address + page * TLB_PAGE_BYTES)

    def _flushed(self, place: Spread, *others: Operand, base: Base = TARGETS) -> Probe:
        """All targets flushed, the first of them last, then `others`: a flush warms the TLB entry of its page."""
        probe = Probe()
        for target in reversed(place.targets):
            probe = probe.flush(base + target)
        for other in others:
            probe = probe.flush(other)
        return settled(probe)

    def _lay_walk(self, walk_bytes: float) -> None:
        """A walk in the region's second half, apart from all targets; laid once for all volleys of one size."""
        if walk_bytes == self._walk_bytes:
            return
        self._walk_bytes = walk_bytes
        size = min(self._region.size - self._walk_from, 2 * span_bytes(walk_bytes, self._region.line_size))
        ground = Region(self._region.address + self._walk_from, size, self._region.page_size, self._region.line_size)
        self._walk = by_windows(lay(ground, walk_bytes, self._rng), self._rng)
        self._context.machine.link(self._region, self._walk)

    def _run(
        self, probe: Probe, place: Spread, others: Mapping[Base, int | list[int]] | None = None, base: int | None = None
    ) -> NDArray[np.float64]:
        """Cycles of all repetitions, shape (repetitions, intervals), with the bracket's overhead in them."""
        base = self._base(len(place.targets)) if base is None else base
        beside = Probe()
        for offset in place.beside:
            beside = beside.load(TARGETS + offset)
        machine, cpu = self._context.machine, self._context.cpu
        bases: dict[Base, int | list[int]] = {TARGETS: base, **(others or {})}
        placements = {own: np.resize(np.array(bases[own], dtype=np.int64), REPETITIONS + WARMUP) for own in probe.bases}

        def volley() -> NDArray[np.int64]:
            if place.beside:
                machine.run(beside.fence(), {TARGETS: np.array([base])}, cpu=cpu)
            return machine.run(probe, placements, cpu=cpu, warmup=WARMUP)

        ticks = self.alone.run(volley)
        cycles: NDArray[np.float64] = ticks.astype(np.float64) * self.cycles_per_tick
        return cycles

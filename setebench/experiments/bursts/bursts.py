"""Time bursts (groups of independent loads or prefetches that all miss), and loads of a single line after a burst.

The targets (lines of a burst) are chosen so that hardware prefetchers neither fetch them nor are trained by them: each
is the only line of its page that misses, pages come in random order, and the other line of its aligned pair is cached.
Odd and even lines alternate, as some cores keep separate entries for them. Targets are flushed right before a burst, in
reverse order; a flush loads the translation and trains no prefetcher.

The single line ("the line") was just loaded, evicted from level 1, or flushed. Repetitions of the *same program* differ
in this state by placements alone: behind the evictors, a load and a flush hit the line, or another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.alone import Alone
from setebench.experiments.calibrate import cycles_per_tick
from setebench.machine import Region
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

Times = NDArray[np.float64]
Addresses = NDArray[np.int64]
Others = Callable[[NDArray[np.str_], dict[Base, Addresses]], dict[Base, Addresses]]

PAGE_BYTES = 4096
"""Bytes of the smallest page that a TLB may hold a translation of."""

TARGETS, LINE, RECENT, GONE, WANTED, EVICTORS, CHAIN, BEFORE = map(
    Base, ("targets", "line", "recent", "gone", "wanted", "evictors", "chain", "before")
)

LOADED, EVICTED, FLUSHED, PREFETCHED = STATES = ("loaded", "evicted", "flushed", "prefetched")
"""States of the line before it is timed: in level 1, evicted from level 1, in memory, prefetched from memory."""


@dataclass(frozen=True, kw_only=True)
class BurstParams:
    """Tunables of the layout and the repetitions of bursts."""

    bytes: int = 1 << 27  # bytes of memory for all lines, a hundred times the largest burst
    least_bytes: int = 1 << 24  # least bytes of memory, which hold a burst and its evictors
    edge_lines: int = 2  # lines at each end of a page that are no targets: there one miss may start a stream prefetcher
    settle_cycles: int = 2000  # cycles of waiting after flushes and prefetches: longer than any access to memory
    repetitions: int = 8  # repetitions of a burst with the same targets
    line_repetitions: int = 10  # repetitions of each state of the line behind a burst
    alone_repetitions: int = 20  # the same without a burst, of which more are needed
    warmup: int = 2  # first repetitions, which fetch the probe's code and aren't counted
    line: float = 0.5625  # offset of the line in its page, in pages; an even line, as bursts begin with an odd one
    aside: float = 0.21875  # distance of lines of other sets from the line, in pages
    turns: int = 2  # traversals of the evictors: with other policies than LRU one may leave the line in level 1
    before: int = 3  # dependent hits before the load of the line, in which time all misses of the burst are issued


@dataclass(frozen=True, kw_only=True)
class Burst:
    """A burst of `count` loads, or of prefetches with that `hint` (such as "t0"). If `warmed`, each request comes right
    after a hit in its page: some machines drop prefetches outside the page of the latest access, or on a TLB miss."""

    count: int
    hint: str = ""
    warmed: bool = False


ALONE = Burst(count=0)
"""The empty burst, for timing the line without a burst."""


@contextmanager
def burst_memory(context: Context, params: BurstParams, *, large: bool = True) -> Iterator[Region]:
    """Allocate memory for bursts until the block ends, in `large` pages if there are any, as larger bursts would miss
    the TLB with small ones. If memory is short, half as much is tried, and so on, down to `params.least_bytes`."""
    facts = context.machine.facts
    pages = sorted(facts.page_sizes, reverse=True) if large else [min(facts.page_sizes)]
    halved = range((params.bytes // params.least_bytes).bit_length())
    for size, page in product([min(params.bytes, facts.memory_bytes // 2) >> times for times in halved], pages):
        try:
            region = context.allocate(max(size // page, 1) * page, page)
            break
        except UnsupportedError as error:
            lacking = error
    else:
        raise lacking
    try:
        yield region
    finally:
        context.machine.release(region)


class Bursts:
    """Times bursts on one machine, in core cycles that include the bracket's overhead, with new random lines at each
    call. Runs are repeated if an SMT co-runner is seen on the core (`alone`), as it would occupy MSHRs. `evictors` are
    the number of lines that evict the line (which is timed after a burst) from level 1, and their distance in bytes."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator) -> None:
        self.params, self.context, self.rng, self.evictors = BurstParams(), context, rng, (1, PAGE_BYTES)
        self.region, self.size = region, region.line_size
        self.near = int(self.params.line * PAGE_BYTES / self.size) * self.size
        self.aside = int(self.params.aside * PAGE_BYTES / self.size) * self.size
        self.beside = PAGE_BYTES - 2 * self.size  # a line that warms its page's TLB entry, away from all others
        self.alone = Alone(context)
        self.refresh()

    def refresh(self) -> None:
        """Measure the current number of cycles per tick, with which later times are converted."""
        self.cycles_per_tick = cycles_per_tick(self.context)

    def until_set_out(self, burst: Burst) -> Times:
        """Return two times in cycles, shape (repetitions, 2): from the start of a burst until all its prefetches are
        issued (loads: completed); and of a late load of the last target, slow if the target's prefetch was dropped."""
        targets = self.targets(burst.count)
        probe = self.flushed(targets, burst).start(0)
        probe = self.requested(probe, targets, burst).stop(0)
        return self._run(self.loaded_late(probe, targets), targets)

    def until_there(self, burst: Burst) -> Times:
        """Return cycles, shape (repetitions,), from the start of a burst until a load of its last target is done."""
        targets = self.targets(burst.count)
        probe = self.requested(self.flushed(targets, burst).start(), targets, burst)
        probe = self.requested(probe, targets[-1:], ALONE)
        return self._run(probe.stop(), targets)[:, 0]

    def line(
        self, burst: Burst, steps: int = 0, hint: str = "", states: tuple[str, ...] = STATES[:3]
    ) -> dict[str, Times]:
        """Return cycles of a burst and a load of the line after it, shape (repetitions,), by state of the line before
        the burst (see `STATES`). With `steps`, a chain of `steps` dependent hits and multiplications follows the load,
        long enough to outlast the misses of the burst. With a `hint`, a prefetch comes long before the burst: of the
        line itself in state "prefetched", of another line in other states."""
        targets, line = self.targets(burst.count), LINE + self.near
        probe = self.pushed_out(Probe().load(line)).load(CHAIN + 0).flush(GONE + 0)
        if hint:
            # Some machines drop a prefetch outside the page of the latest access, so a load of that page comes first.
            probe = self.settled(probe).load((BEFORE if burst.warmed else CHAIN) + 0).prefetch(WANTED + 0, hint)
        # The line's translation is loaded last, as evictors may push it out, and a TLB miss takes longer than level 2.
        probe = self.flushed(targets, burst, probe, LINE + self.aside)
        probe = self.requested(probe.start(dither=not steps), targets, burst)
        if steps:
            probe = probe.chase(CHAIN, self.params.before).load(line, after=-1)
            probe = probe.chase(CHAIN, steps, after=-1, work="chained").stop()
        else:
            probe = probe.load(line).stop()
        return {state: times[:, 0] for state, times in self.by_state(probe, states, targets).items()}

    def by_state(
        self, probe: Probe, states: Sequence[str], targets: tuple[int, ...] = (), others: Others | None = None
    ) -> dict[str, Times]:
        """Run a probe with states of its line in random order, and return cycles, shape (repetitions, intervals), by
        state. `targets` are a burst's offsets; `others` gives further bases' addresses, by states and usual
        addresses."""
        times = self.params.line_repetitions if targets else self.params.alone_repetitions
        drawn = np.resize(np.array(states), self.params.warmup + len(states) * times)
        drawn[self.params.warmup :] = self.rng.permutation(drawn[self.params.warmup :])
        places = self.placements(drawn)
        cycles = self._run(probe, targets, places | (others(drawn, places) if others else {}))
        return {state: cycles[drawn[self.params.warmup :] == state] for state in states}

    def pushed_out(self, probe: Probe) -> Probe:
        """Append to `probe` traversals of all evictors, and a load of the line in state "loaded", else of another one.
        The other line of its aligned pair is loaded before, so that no pair prefetcher fetches it."""
        probe, (count, advance) = probe.load(LINE + (self.near ^ self.size)).fence(), self.evictors
        for _ in range(self.params.turns):
            probe = probe.repeat(count, Probe().load(EVICTORS + self.near), advance=advance).fence()
        return probe.load(RECENT + 0).fence()

    def placements(self, states: NDArray[np.str_], part: int = 0) -> dict[Base, NDArray[np.int64]]:
        """Return for each base (line, evictors, flushed line, prefetched line, chain and so on) its addresses, shape
        (repetitions,). `states` has the line's state in each repetition, of `STATES`. Pages are drawn anew for each, so
        that evictions don't add up in the same sets of outer caches; odd numbers `part` draw from other pages than even
        ones."""
        pages = np.array([self.base(1, part) for _ in states])
        chain = self.base(1, part) + 5 * self.size
        self.context.machine.link(self.region, np.array([chain]))
        line, aside = self.near, self.aside
        away = np.isin(states, (FLUSHED, PREFETCHED))
        # A random offset each time, or a prefetcher would learn that the line follows it.
        before = self.rng.integers(2, self.near // self.size - 2, len(states)) * self.size
        return {
            LINE: pages,
            RECENT: np.where(states == LOADED, pages + line, chain),
            GONE: pages + line + np.where(away, 0, aside),
            WANTED: np.where(states == PREFETCHED, pages + line, chain + self.size),
            BEFORE: pages + before,
            EVICTORS: np.full(len(states), self.region.address + self.region.size // 2, dtype=np.int64),
            CHAIN: np.full(len(states), chain, dtype=np.int64),
        }

    def targets(self, count: int) -> tuple[int, ...]:
        """Return the offsets of `count` random targets, one in each of as many neighbouring pages, in order of use.
        Offsets are constants of the probe, so no address is loaded or computed within the timed interval."""
        edge, lines = self.params.edge_lines, PAGE_BYTES // self.size
        odd = np.arange(edge + 1, lines - 2 * edge + 1, 2)
        # Offsets are balanced instead of random, so that all cache sets get equally many targets.
        turns = np.stack([self.rng.permutation(odd), self.rng.permutation(odd - 1)], axis=1).ravel()
        offsets = self.rng.permutation(count) * PAGE_BYTES + np.resize(turns, count) * self.size
        return tuple(offsets.tolist())

    def base(self, pages: int, part: int = 0) -> int:
        """Return the address of `pages` random consecutive pages in the region's first quarter (odd `part`: second)."""
        size = self.region.size // 4 // PAGE_BYTES
        return int(self.region.address + (part % 2 * size + self.rng.integers(0, size - pages + 1)) * PAGE_BYTES)

    def settled(self, probe: Probe, misses: int = 1) -> Probe:
        """Append to `probe` a wait for prefetches, flushes and `misses` queued misses, for which no fence waits."""
        return probe.fence().wait(self.params.settle_cycles + 40 * misses).fence()

    def flushed(
        self, targets: tuple[int, ...], burst: Burst, before: Probe | None = None, last: Operand | None = None
    ) -> Probe:
        """Return `before`, then flushes of all targets in reverse order and of the line `last`, and a wait until the
        flushes are done; for a `warmed` burst also loads of the targets' neighbours."""
        probe = before or Probe()
        for target in reversed(targets):
            probe = probe.flush(TARGETS + target)
        probe = self.settled(probe.flush(last) if last else probe)
        if not burst.warmed:
            return probe
        for target in reversed(targets):
            probe = probe.load(TARGETS + (target ^ self.size))
        return probe.fence()

    def requested(self, probe: Probe, targets: tuple[int, ...], burst: Burst) -> Probe:
        """Return `probe` extended by a load or prefetch, as `burst` says, at each of the byte offsets `targets`."""
        for target in targets:
            probe = probe.load(TARGETS + (target ^ self.size)) if burst.warmed else probe
            probe = probe.prefetch(TARGETS + target, burst.hint) if burst.hint else probe.load(TARGETS + target)
        return probe

    def loaded_late(self, probe: Probe, targets: tuple[int, ...]) -> Probe:
        """Return `probe` with interval 1 added: a timed load of the last of `targets`, once all loads and prefetches of
        `probe` have arrived. The load's translation is in the TLB."""
        last = targets[-1:]
        probe = self.settled(probe, len(targets))
        for target in last:
            probe = probe.flush(TARGETS + (target - target % PAGE_BYTES + (target + self.aside) % PAGE_BYTES))
        return self.requested(self.settled(probe).start(1), last, ALONE).stop(1)

    def bring_pairs(self, targets: tuple[int, ...], start: int, cpu: int | None) -> None:
        """Load the other line of each target's aligned pair on `cpu`, so that pair prefetchers don't fetch that line
        during a burst. Targets lie at the address `start` plus their offsets."""
        probe = Probe()
        for target in targets:
            probe = probe.load(TARGETS + (target ^ self.size))
        if targets:
            self.context.machine.run(probe.fence(), {TARGETS: np.array([start])}, cpu=cpu)

    def _run(
        self, probe: Probe, targets: tuple[int, ...], others: Mapping[Base, NDArray[np.int64]] | None = None
    ) -> Times:
        """Run a probe on targets at random pages, without an SMT co-runner if possible, and return the cycles of all
        repetitions, shape (repetitions, intervals). `others` has addresses of further bases."""
        start, machine, cpu = self.base(max(len(targets), 1)), self.context.machine, self.context.cpu
        runs = max(
            (len(each) for each in (others or {}).values()), default=self.params.repetitions + self.params.warmup
        )
        every = {TARGETS: np.full(runs, start, dtype=np.int64), **(others or {})}
        placed = {base: every[base] for base in probe.bases}

        def burst() -> NDArray[np.int64]:
            self.bring_pairs(targets, start, cpu)
            return machine.run(probe, placed or runs, cpu=cpu, warmup=self.params.warmup)

        return np.asarray(self.alone.run(burst) * self.cycles_per_tick, dtype=np.float64)

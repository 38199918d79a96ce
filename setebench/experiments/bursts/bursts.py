"""Bursts of misses, and one line behind a burst with its controls. Ticks in, cycles out; nothing is decided here.

The lines of a burst are laid so that no hardware prefetcher can fetch them, follow them, or be woken by them: each is
the only line of its page that ever misses, in random order of pages, away from the ends of its page; the other line of
its pair is in a cache before. Odd and even lines take turns, for some cores keep the entries for either apart. A flush
warms the TLB entry of its page and trains nothing, so lines are flushed right before they are wanted, the one that is
wanted first last.

The one line was just loaded, pushed out of level 1, or flushed: repetitions of the *same program* differ in that by
placements alone. Evictors of level 1 and the last flush fall on the line's set and on the line, or beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
"""Pages as a TLB may see them at the smallest."""

TARGETS, LINE, GONE, WANTED, EVICTORS, CHAIN, BEFORE = map(
    Base, ("targets", "line", "gone", "wanted", "evictors", "chain", "before")
)

LOADED, EVICTED, FLUSHED, PREFETCHED = STATES = ("loaded", "evicted", "flushed", "prefetched")
"""Where the one line is: in level 1, pushed out of it, in memory, prefetched when it was in memory."""


@dataclass(frozen=True, kw_only=True)
class BurstParams:
    """How bursts are laid and run."""

    bytes: int = 1 << 27  # memory that all lines lie in, a hundred times the largest burst
    least_bytes: int = 1 << 24  # with less there is no room for a burst beside its evictors
    edge_lines: int = 2  # no target so near to an end of its page, where streamers may start after one miss
    settle_cycles: int = 2000  # from a flush to the next use: longer than any memory takes
    repetitions: int = 8  # of a burst on the same lines
    line_repetitions: int = 15  # of each state of the one line
    warmup: int = 2  # first repetitions, which fetch the probe's code and don't count
    line: float = 0.5625  # where in its page the one line is; an even one, as a burst begins with an odd one
    aside: float = 0.21875  # of a page between that and what must be in another set
    turns: int = 3  # over the evictors: a level that doesn't replace the line used longest ago keeps it in some
    before: int = 3  # chained hits before the one line, so that all misses of the burst have set out by then


@dataclass(frozen=True, kw_only=True)
class Burst:
    """A burst of `count` loads, or prefetches with a `hint`, each right behind a hit in its page if `warmed`: some
    machines drop a prefetch outside the page of the latest access, or whose page the first TLB lacks."""

    count: int
    hint: str = ""
    warmed: bool = False


ALONE = Burst(count=0)
"""No burst."""


@contextmanager
def burst_memory(context: Context, params: BurstParams, *, large: bool = True) -> Iterator[Region]:
    """Memory for bursts, in `large` pages where there are any: else more misses than a first TLB has entries wait for
    translations. Half as much, and so on, where so much is not to be had."""
    facts = context.machine.facts
    pages = sorted(facts.page_sizes, reverse=True) if large else [min(facts.page_sizes)]
    halved = range((params.bytes // params.least_bytes).bit_length())
    for size, page in product([min(params.bytes, facts.memory_bytes // 2) >> times for times in halved], pages):
        with suppress(UnsupportedError):
            region = context.allocate(max(size // page, 1) * page, page)
            break
    else:
        raise UnsupportedError(f"bursts of misses need {params.least_bytes >> 20} MiB of memory")
    try:
        yield region
    finally:
        context.machine.release(region)


class Bursts:
    """Times of bursts on one machine, in core cycles with the bracket's overhead in them; each call draws new lines.

    They run while no SMT co-runner is seen on the core, as far as that can be had (`alone`): it takes entries."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator) -> None:
        self.params, self.context, self.rng, self.evictors = BurstParams(), context, rng, 0
        self.region, self.size = region, region.line_size
        self.near = int(self.params.line * PAGE_BYTES / self.size) * self.size
        self.aside = int(self.params.aside * PAGE_BYTES / self.size) * self.size
        self.beside = PAGE_BYTES - 2 * self.size  # a line that warms its page's TLB entry, away from all others
        self.alone = Alone(context)
        self.refresh()

    def refresh(self) -> None:
        """Find out anew how many cycles a tick has."""
        self.cycles_per_tick = cycles_per_tick(self.context)

    # -- bursts ------------------------------------------------------------------------------------------------------

    def until_set_out(self, burst: Burst) -> Times:
        """Until a burst has set out (loads: until they are done), and a load of its last line when nothing is under way
        any more: what is dropped is the last one first; shape (repetitions, 2)."""
        targets = self.targets(burst.count)
        probe = self.flushed(targets, burst).start(0)
        probe = self.requested(probe, targets, burst).stop(0)
        return self._run(self.loaded_late(probe, targets), targets)

    def until_there(self, burst: Burst) -> Times:
        """Until the last line of a burst is there: a load of it follows at once; shape (repetitions,)."""
        targets = self.targets(burst.count)
        probe = self.requested(self.flushed(targets, burst).start(), targets, burst)
        probe = self.requested(probe, targets[-1:], ALONE)
        return self._run(probe.stop(), targets)[:, 0]

    def line(
        self, burst: Burst, steps: int = 0, hint: str = "", states: tuple[str, ...] = STATES[:3]
    ) -> dict[str, Times]:
        """Times of the one line behind a burst by where the line was, shape (repetitions,); with `steps` of a chain of
        hits and multiplications behind it, which the misses must not outlast. With a `hint` a prefetch of the line, or
        of one beside it, comes long before."""
        targets, line = self.targets(burst.count), LINE + self.near
        probe = self.pushed_out(Probe().load(line)).load(CHAIN + 0).flush(GONE + 0)
        if hint:
            # some machines drop a prefetch outside the page of the latest access
            probe = self.settled(probe).load((BEFORE if burst.warmed else CHAIN) + 0).prefetch(WANTED + 0, hint)
        # the page's TLB entry is warmed last: behind evictors a load that lacks it takes longer than level 2
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
        """Times of a probe, shape (repetitions, intervals), by the states of its line, which come in random order;
        `others` are the addresses of further bases, of the states of all repetitions and the addresses known so far."""
        drawn = np.resize(np.array(states), self.params.warmup + len(states) * self.params.line_repetitions)
        drawn[self.params.warmup :] = self.rng.permutation(drawn[self.params.warmup :])
        places = self.placements(drawn)
        times = self._run(probe, targets, places | (others(drawn, places) if others else {}))
        return {state: times[drawn[self.params.warmup :] == state] for state in states}

    def pushed_out(self, probe: Probe) -> Probe:
        """`probe`, then the other line of the pair and all evictors."""
        probe = probe.load(LINE + (self.near ^ self.size)).fence()
        for number in self.params.turns * list(range(self.evictors)):
            probe = probe.load(EVICTORS + (number * PAGE_BYTES + self.near))
        return probe.fence()

    def placements(self, states: NDArray[np.str_], part: int = 0) -> dict[Base, NDArray[np.int64]]:
        """Where the one line, evictors, the flushed and the prefetched line and the chain lie in each repetition. The
        line lies in another page every time: what shares its set further out would be pushed out further each time."""
        pages = np.array([self.base(1, part) for _ in states])
        chain = self.base(1, part) + 5 * self.size
        self.context.machine.link(self.region, np.array([chain]))
        line, aside = self.near, self.aside
        away = np.isin(states, (FLUSHED, PREFETCHED))
        # another one each time, or a prefetcher would learn that the line follows it
        before = self.rng.integers(2, self.near // self.size - 2, len(states)) * self.size
        return {
            LINE: pages,
            GONE: pages + line + np.where(away, 0, aside),
            WANTED: pages + line + np.where(states == PREFETCHED, 0, aside),
            BEFORE: pages + before,
            EVICTORS: np.where(states == EVICTED, 0, aside) + self.region.address + self.region.size // 2,
            CHAIN: np.full(len(states), chain, dtype=np.int64),
        }

    # -- parts ---------------------------------------------------------------------------------------------------------

    def targets(self, count: int) -> tuple[int, ...]:
        """Offsets of `count` random lines in as many neighbouring pages, in the order of use. They are part of the
        probe, so no address is fetched or computed while time runs."""
        edge, lines = self.params.edge_lines, PAGE_BYTES // self.size
        odd = np.arange(edge + 1, lines - 2 * edge + 1, 2)
        # balanced, not random: no set of any cache gets more of them than it must
        turns = np.stack([self.rng.permutation(odd), self.rng.permutation(odd - 1)], axis=1).ravel()
        offsets = self.rng.permutation(count) * PAGE_BYTES + np.resize(turns, count) * self.size
        return tuple(offsets.tolist())

    def base(self, pages: int, part: int = 0) -> int:
        """A random page of the first half of memory (odd `part`s: of its second half, the others: of its first), with
        so many pages behind it."""
        size = self.region.size // 4 // PAGE_BYTES
        return int(self.region.address + (part % 2 * size + self.rng.integers(0, size - pages + 1)) * PAGE_BYTES)

    def settled(self, probe: Probe, misses: int = 1) -> Probe:
        """Append a wait to `probe` that outlasts all that it left under way: no fence waits for prefetches and flushes,
        of which so many `misses` may queue for each other."""
        return probe.fence().wait(self.params.settle_cycles + 40 * misses).fence()

    def flushed(
        self, targets: tuple[int, ...], burst: Burst, before: Probe | None = None, last: Operand | None = None
    ) -> Probe:
        """`before`, then all targets flushed, the first of them last, then another line, and all of it done."""
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
        """`probe`, then the burst."""
        for target in targets:
            probe = probe.load(TARGETS + (target ^ self.size)) if burst.warmed else probe
            probe = probe.prefetch(TARGETS + target, burst.hint) if burst.hint else probe.load(TARGETS + target)
        return probe

    def loaded_late(self, probe: Probe, targets: tuple[int, ...]) -> Probe:
        """`probe`, and interval 1: a load of the last target when all else is done. A flush warms its page."""
        last = targets[-1:]
        probe = self.settled(probe, len(targets))
        for target in last:
            probe = probe.flush(TARGETS + (target - target % PAGE_BYTES + (target + self.aside) % PAGE_BYTES))
        return self.requested(self.settled(probe).start(1), last, ALONE).stop(1)

    def bring_pairs(self, targets: tuple[int, ...], start: int, cpu: int | None) -> None:
        """Load the other line of each target's pair, so that no prefetcher need fetch it."""
        probe = Probe()
        for target in targets:
            probe = probe.load(TARGETS + (target ^ self.size))
        if targets:
            self.context.machine.run(probe.fence(), {TARGETS: np.array([start])}, cpu=cpu)

    def _run(
        self, probe: Probe, targets: tuple[int, ...], others: Mapping[Base, NDArray[np.int64]] | None = None
    ) -> Times:
        """Cycles of all repetitions, shape (repetitions, intervals)."""
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

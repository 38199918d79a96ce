"""What streams of loads and of stores reach on a simulated machine, from its ports, fills, queues and latencies.

A stream moves as fast as its narrowest place. Most places are the same whatever brings the lines. How many misses are
in flight is not: hardware prefetchers add theirs. So the rate of memory has two bounds, of demand alone and of the best
that the machine's prefetchers could do, and the truth is that range; where it is too wide to say anything, nothing is
reported. In caches prefetchers also hinder, and the machine itself is asked, where it has any (`streams`).

A loop has two forms, unrolled and rolled, which prefetchers that follow instruction addresses tell apart. Where the
machine is asked, the range holds both; elsewhere it is that of the unrolled one, as it spends fewer instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from setebench.errors import UnsupportedError
from setebench.kernels import BLOCK_BYTES, KERNELS, Kernel
from setebench.results import Finding, Outcome
from setebench.sim import spec
from setebench.sim.spec.in_flight import demand_in_flight, prefetches_in_flight
from setebench.sim.truth.finding import METHOD
from setebench.sim.truth.pace import machine_pace
from setebench.sim.truth.streams import QuietMachine

WIDEST_RANGE = 2.0
"""A range wider than this says nothing of a rate."""

LOOP_INSTRUCTIONS = 2
"""Of the loop, for every block: a subtraction and a branch."""

PAGE_BYTES, HUGE_BYTES = 4096, 2097152

NEIGHBOURS = 8
"""Two places that are equally narrow, with requests in bursts between, give a twelfth less than one (the norm of their
times of this order); one that is half as narrow gives nothing less."""

CLEARLY = 1.2
"""What is so many times as narrow as all else limits."""

REPORTED = ("load", "store")
"""Kernels with one kind of access. In others a store waits for loads, and their queues limit each other."""


def bandwidths(machine: spec.Machine) -> Iterator[Finding]:
    """Every level's rate with one thread and with one on every CPU, in the widest accesses."""
    width = max(machine.core.access_sizes)
    if width > machine.line_size_bytes:
        return
    cpus, quiet = machine.core.cores * machine.core.threads_per_core, QuietMachine(machine)
    for threads in sorted({1, cpus}):
        for kernel in (KERNELS[name] for name in REPORTED):
            for number in _known_levels(machine):
                stream = _Stream(machine, kernel, width, threads, number)
                if machine.prefetchers and number <= len(machine.levels):
                    try:
                        yield from _reported(stream, quiet.rates(kernel, width, threads, number))
                    except UnsupportedError as error:  # the simulator can't be run here
                        name, why = _name(f"l{number}", kernel.name, width, threads), str(error)
                        yield Finding(parameter=name, unit="GB/s", outcome=Outcome.UNAVAILABLE, reason=why)
                else:
                    yield from _rates_of(stream)


def memory_peak(machine: spec.Machine) -> Iterator[tuple[float, float, float]]:
    """GB/s that all cores together get from memory at the core clock's mean, and from and to, where what they share is
    what limits them: memory itself, or the third level's queue and fills in front of it, which nobody outside can tell
    from memory. Nothing where the cores' own queues hardly keep that busy (Little's law)."""
    stream = _Stream(machine, KERNELS["load"], 8, machine.core.cores, len(machine.levels) + 1)
    shared = stream.shared_cycles()
    per_core = max(demand_in_flight(machine, 2), prefetches_in_flight(machine, 2) or 0)
    own = machine.memory.latency_cycles / (machine.core.cores * per_core)
    if max(shared) > CLEARLY * own:
        hertz = machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
        slow, fast = _norm(*shared, own), max(shared)
        low, high = (machine.line_size_bytes / cycles * hertz / 1e9 for cycles in (slow, fast))
        pace = machine_pace(machine)  # a rate holds at the time of measuring
        yield high, low * pace.slowest, high * pace.fastest


def _norm(*cycles: float) -> float:
    """Of places that get in each other's way."""
    return float(sum(each**NEIGHBOURS for each in cycles) ** (1 / NEIGHBOURS))


def _known_levels(machine: spec.Machine) -> range:
    """Levels whose rate follows from what `_Stream` knows, one more than there are for memory; not past three."""
    return range(1, len(machine.levels) + 2 if len(machine.levels) < 4 else 4)


def bandwidth_parameters(machine: spec.Machine) -> Iterator[str]:
    """All rates of loads and of stores that this machine has, with every width and number of threads."""
    levels = [*(f"l{number}" for number in range(1, len(machine.levels) + 1)), "memory"]
    threads = range(1, machine.core.cores * machine.core.threads_per_core + 1)
    for level, kernel, width, count in product(levels, REPORTED, machine.core.access_sizes, threads):
        name = _name(level, kernel, width, count)
        yield from (name, f"{name}.traffic")


def _name(level: str, kernel: str, width: int, threads: int) -> str:
    return f"bandwidth.{level}.{kernel}.{'scalar' if width == 8 else width}.threads_{threads}"


def _rates_of(stream: _Stream) -> Iterator[Finding]:
    """By what is narrow on the way."""
    machine = stream.machine
    hertz = machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
    cycles = stream.slow_cycles(), stream.fast_cycles()
    yield from _reported(stream, [stream.threads * machine.line_size_bytes / each * hertz / 1e9 for each in cycles])


def _reported(stream: _Stream, rates: Sequence[float]) -> Iterator[Finding]:
    """The range that rates span, widened by the clock's changes; nothing where it says nothing."""
    low, high = min(rates, default=0.0), max(rates, default=np.inf)
    if high > WIDEST_RANGE * low:
        return
    machine = stream.machine
    pace = machine_pace(machine)
    value, low, high = low, low * pace.slowest, high * pace.fastest
    level = "memory" if stream.number > len(machine.levels) else f"l{stream.number}"
    name = _name(level, stream.kernel.name, stream.width, stream.threads)
    names = {name: 1.0}
    if level != "l1" and stream.kernel.written_bytes:
        names[f"{name}.traffic"] = stream.kernel.traffic_bytes / stream.kernel.program_bytes
    for parameter, factor in names.items():
        yield Finding(
            parameter=parameter,
            value=value * factor,
            unit="GB/s",
            low=low * factor if high > low else None,
            high=high * factor if high > low else None,
            method=METHOD,
        )


@dataclass(frozen=True)
class _Stream:
    """One kernel on so many threads, spread over all cores, with its data in level `number` (one more than there are
    levels: in memory)."""

    machine: spec.Machine
    kernel: Kernel
    width: int
    threads: int
    number: int

    def fast_cycles(self) -> float:
        """Cycles between two lines of one thread at best: the narrowest place alone counts, prefetchers do as well as
        they can, and TLB misses are hidden."""
        return max(self._pipeline(), self._transfers(), self._in_flight(prefetched=True))

    def slow_cycles(self) -> float:
        """Cycles between two lines of one thread where prefetchers don't help, no TLB miss is hidden that may show, and
        places that are about equally narrow get in each other's way."""
        places = (self._pipeline(), self._transfers(), self._in_flight(prefetched=False))
        queued = self._queued() if self.number > 1 else 0.0
        together = _norm(*places, queued)
        together += self._looked_up() if self.number > 1 else 0.0
        in_memory = self.number > len(self.machine.levels)
        if in_memory or (self.number > 1 and not self.machine.core.out_of_order):
            together += self._translation()
        # a read may wait behind the line that goes back for it: both come when an entry is free
        behind = in_memory and self.kernel.allocated_bytes > 0
        return together + (self.threads * self.machine.memory.interval_cycles if behind else 0.0)

    @property
    def _per_core(self) -> int:
        """Threads on the core that has most."""
        return -(-self.threads // self.machine.core.cores)

    @property
    def _accesses(self) -> float:
        """Accesses per line."""
        return self.machine.line_size_bytes / self.width

    @property
    def _instructions(self) -> float:
        """Instructions per line, those of the loop included."""
        return self._accesses + LOOP_INSTRUCTIONS * self.machine.line_size_bytes / BLOCK_BYTES

    @property
    def _later(self) -> float:
        """Cycles for which the core waits on for a load whose line is there: for its width, and for its siblings."""
        core = self.machine.core
        if self.kernel.writes:
            return 0.0
        wide = getattr(core.vector_load_extra, f"bytes{self.width}", 0.0)
        return wide + (core.smt_extra_cycles if self._per_core > 1 else 0.0)

    def _latency(self, number: int, best: bool = False) -> float:
        """Of a level or memory; the best that memory does is an access to an open row."""
        levels, memory = self.machine.levels, self.machine.memory
        if number <= len(levels):
            return levels[number - 1].latency_cycles
        return memory.latency_cycles - (memory.row_hit_saves_cycles if best else 0.0)

    def _pipeline(self) -> float:
        """What the core and its first level allow, wherever the lines are."""
        core, first = self.machine.core, self.machine.levels[0]
        accesses = self._accesses
        queued = core.store_queue if self.kernel.writes else core.load_queue
        limits = [
            self._instructions / core.issue_width,
            self._per_core * accesses / first.ports,
            accesses * (first.latency_cycles + self._later) / queued,
        ]
        if core.out_of_order and not self.kernel.writes:
            limits.append(self._instructions * (first.latency_cycles + self._later) / core.reorder_window)
        return max(limits)

    def _transfers(self) -> float:
        """What ports and fills of the levels, and memory, allow."""
        machine, levels, number = self.machine, self.machine.levels, self.number
        limits = [0.0]
        if number > 1:
            limits += [self._per_core / levels[1].ports, self._per_core * levels[0].fill_interval_cycles]
        if number > 2:
            limits.append(self._per_core * levels[1].fill_interval_cycles)
        if number > 2 and len(levels) > 2:
            limits.append(self.threads / levels[2].ports)
        if number > len(levels):
            memory = machine.memory
            moved = 2 if self.kernel.allocated_bytes else 1  # a line that was written goes back as well
            limits.append(self.threads * memory.interval_cycles * moved)
            if memory.banks:
                limits.append(self.threads * memory.bank_busy_cycles / memory.banks)
            if len(levels) > 2:
                limits.append(self.threads * levels[2].fill_interval_cycles)
        return max(limits)

    def shared_cycles(self) -> list[float]:
        """Cycles between two lines of all threads that each place allows which all cores share on the way to memory."""
        memory, levels = self.machine.memory, self.machine.levels
        limits = [memory.interval_cycles, memory.bank_busy_cycles / memory.banks if memory.banks else 0.0]
        for level in levels[2:3]:
            queue = memory.latency_cycles / level.mshr_entries if level.mshr_entries else 0.0
            limits += [level.fill_interval_cycles, 1 / level.ports, queue]
        return limits

    def _looked_up(self) -> float:
        """Cycles per line for which prefetchers of the first level keep the second one's ports, where they look every
        line up that they bring to further levels. They come in bursts (a region's lines all at once), so misses wait
        for them rather than go between."""
        asking = sum(each.level == 1 and each.fills != "l1" for each in self.machine.prefetchers)
        return self._per_core * asking / self.machine.levels[1].ports

    def _in_flight(self, prefetched: bool) -> float:
        """What misses in flight allow: so many lines per latency."""
        if self.number == 1:
            return 0.0
        demand = max(self._core_waits(prefetched), self._queues(self.number, "mshr_demand_limit", prefetched))
        near = [each for each in self.machine.prefetchers if int(each.fills[1]) < self.number]
        if prefetched:
            return min([demand, *(self._queues(int(each.fills[1]), "", best=True) for each in near)])
        # one that waits for an entry takes over all lines, and brings them as fast as its own entries allow
        waiting = [
            self._queues(int(each.fills[1]), "mshr_hardware_limit", best=False)
            for each in near
            if each.when_full == "stalls"
        ]
        return max([demand, *waiting])

    def _queued(self, best: bool = False) -> float:
        """What the core's load or store queue and its window allow while they wait for lines."""
        core, latency = self.machine.core, self._latency(self.number, best) + self._later
        if self.kernel.writes:
            return latency * self._accesses / core.store_queue
        window = self._instructions / core.reorder_window if core.out_of_order else 0.0
        return latency * max(self._accesses / core.load_queue, window)

    def _core_waits(self, best: bool) -> float:
        """What the core itself allows while it waits for lines. One that blocks begins with the rest of a line's
        instructions when the line is there."""
        core = self.machine.core
        if not (core.blocking_store if self.kernel.writes else core.blocking_load):
            return self._queued(best)
        latency = self._latency(self.number, best) + self._later
        return max(self._queued(best), latency + self._pipeline() - 1 / core.issue_width)

    def _translation(self) -> float:
        """Cycles per line of a TLB miss on every page."""
        tlb, memory = self.machine.tlb, self.machine.memory
        huge = max(memory.page_sizes) > PAGE_BYTES and not memory.huge_pages_splintered
        near, far = (tlb.l1_2m, tlb.l2_2m) if huge else (tlb.l1_4k, tlb.l2_4k)
        stores = (tlb.l1_2m_store if huge else tlb.l1_4k_store) or near
        penalty = max(near.miss_penalty_cycles, far.miss_penalty_cycles, stores.miss_penalty_cycles)
        upper = tlb.walk_cache_miss_cycles / HUGE_BYTES if tlb.walk_cache_entries and not huge else 0.0
        return self.machine.line_size_bytes * (penalty / (HUGE_BYTES if huge else PAGE_BYTES) + upper)

    def _queues(self, filled: int, limit: str, best: bool) -> float:
        """What miss queues allow, of which requests may take as much as the field `limit` says ("" for all), for lines
        that come to level `filled` ahead of the loads (level 1, or the lines' own level: no other than the loads' own
        misses)."""
        limits = []
        for place, level in enumerate(self.machine.levels[: self.number - 1], 1):
            entries = (getattr(level, limit) if limit else 0) or level.mshr_entries
            ahead = 1 < filled < self.number and place < filled
            latency = self._latency(filled if ahead else self.number, best)
            sharing = self.threads if place == 3 else self._per_core if level.mshr_shared_by_smt else 1
            if entries:
                limits.append(sharing * latency / entries)
        return max(limits, default=0.0)

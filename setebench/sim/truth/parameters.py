"""What a scenario should find on a simulated machine: the machine file in the parameter names of findings.

Every parameter is a plain function of the file's fields. Parameters that the machine doesn't define (the spread of
thread starts) are left out. Queue sizes are what the parameter says, misses *in flight*: a blocking core has
one, whatever its queue could hold, and level 2 never has more demand misses than level 1 lets through.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.spec.in_flight import (
    demand_in_flight,
    prefetches_in_flight,
    sharing_shows,
    what_hides_demand,
    what_hides_prefetches,
    working_hints,
)
from setebench.sim.truth.bandwidth import bandwidth_parameters, bandwidths, memory_peak
from setebench.sim.truth.counters import counters, events_left_open
from setebench.sim.truth.finding import between, count, exact, hidden
from setebench.sim.truth.pace import Pace, machine_pace
from setebench.sim.truth.prefetchers import prefetchers, unjudged

MOST_CORES_IN_PAIRS = 8
"""Up to so many cores latency is reported for every ordered pair; beyond, for reads by core 0 (the paper's Figure
3)."""

REPLACEMENT_NAMES = {name: name for name in ("lru", "tree_plru", "bit_plru", "random", "srrip", "qlru")}
"""Replacement policies as findings name them; all others are `other`."""

OUTER = 3  # the first level that all cores share

PAGES = (("4k", 4096), ("2m", 2097152))


def truth(machine: spec.Machine, pace: Pace | None = None) -> list[Finding]:
    """The true value of every parameter that `machine` defines, as findings. `pace` is how the clock went in the run
    that found something; without it, what is reported in ticks may be that of any time."""
    parts = (
        _latency,
        _core_to_core,
        _caches,
        _tlb,
        _page_faults,
        _blocking,
        _miss_queues,
        _software_prefetch,
        _store_after,
        prefetchers,
        _loaded_latency,
        bandwidths,
        counters,
    )
    return [*_clock(machine, pace or machine_pace(machine)), *(each for part in parts for each in part(machine))]


def left_open(machine: spec.Machine) -> frozenset[str]:
    """Parameters that this machine has, but of which `truth` may not say how much: the bandwidth of its levels where
    prefetchers may add too much for a rate to be known, and with other widths and numbers of threads; and whether
    events count prefetched lines, where that depends on what was learned.
    And what names say already, and whether threads share entries that they can't run out of."""
    open_ = unjudged(machine) | _pools_unseen(machine) | events_left_open(machine)
    return frozenset(bandwidth_parameters(machine)) | open_


def _clock(machine: spec.Machine, pace: Pace) -> Iterator[Finding]:
    """What is reported in ticks holds at the time of measuring, which may be any part of the core clock's changes."""
    clock = machine.clock
    yield exact("clock.step", clock.step_ticks, "ticks")
    for method, cycles in clock.brackets.items():
        ticks = cycles * clock.ticks_per_cycle
        yield between(f"clock.overhead.{method}", ticks, ticks / pace.fastest, ticks / pace.slowest, "ticks")
    nominal = 1 / clock.ticks_per_cycle
    yield between("clock.cycles_per_tick", nominal, nominal * pace.slowest, nominal * pace.fastest, "cycles/tick")


def _latency(machine: spec.Machine) -> Iterator[Finding]:
    core = machine.core
    extra = core.vector_load_extra
    levels = [(f"l{number}", level.latency_cycles) for number, level in enumerate(machine.levels, 1)]
    if core.threads_per_core > 1:
        yield exact("latency.smt.l1", machine.levels[0].latency_cycles + core.smt_extra_cycles, "cycles")
    for name, cycles in [*levels, ("memory", machine.memory.latency_cycles)]:
        yield exact(f"latency.{name}", cycles, "cycles")
        for size, more in ((16, extra.bytes16), (32, extra.bytes32), (64, extra.bytes64)):
            if size in core.access_sizes:
                yield exact(f"latency.{name}.vector{size}", cycles + more, "cycles")


def _core_to_core(machine: spec.Machine) -> Iterator[Finding]:
    cores = machine.core.cores
    readers = range(cores) if cores <= MOST_CORES_IN_PAIRS else range(1)
    states = _transfer_states(machine)
    for reader in readers:
        for owner in range(cores):
            if reader != owner:
                for state, (cycles, travels) in states.items():
                    more = _distance(machine, reader, owner) if travels else 0.0
                    yield exact(f"latency.core_to_core.{reader}-{owner}.{state}", cycles + more, "cycles")


def _transfer_states(machine: spec.Machine) -> dict[str, tuple[float, bool]]:
    """Cycles per state, and whether the distance between the cores adds to them."""
    coherence, third = machine.coherence, machine.levels[-1]
    states = {"modified": (coherence.modified_cycles, True), "exclusive": (coherence.exclusive_cycles, True)}
    if coherence.shared_cycles:
        states["shared"] = (coherence.shared_cycles, True)
    elif len(machine.levels) < 3:
        states["shared"] = (machine.memory.latency_cycles, False)
    elif third.inclusion not in ("exclusive", "victim") or machine.core.cores == 2:
        # one that is filled by victims may or may not hold the line, by the line's past; of two cores the reader itself
        # must have had the line, and what its private caches lose is there
        states["shared"] = (third.latency_cycles, False)
    return states


def _distance(machine: spec.Machine, reader: int, owner: int) -> float:
    table = machine.coherence.distance_cycles
    return table[reader][owner] if table else 0.0


def _caches(machine: spec.Machine) -> Iterator[Finding]:
    for number, level in enumerate(machine.levels, 1):
        yield exact(f"cache.l{number}.size", level.lines * machine.line_size_bytes, "bytes")
        yield exact(f"cache.l{number}.ways", level.ways, "ways")
        yield exact(f"cache.l{number}.line_size", machine.line_size_bytes, "bytes")
        yield exact(f"cache.l{number}.replacement", REPLACEMENT_NAMES.get(level.replacement, "other"), "string")
        if number < OUTER:  # which set a line of the others belongs to is not measured since 0.2
            yield exact(f"cache.l{number}.index", "hashed" if level.hashed_index else "linear", "string")
    for inner, level in enumerate(machine.levels[1:3], 1):
        yield exact(f"cache.l{inner}.inclusive_in_l{inner + 1}", level.inclusion == "inclusive", "bool")
    yield exact("cache.l2.exclusive_of_l1", machine.levels[1].inclusion == "exclusive", "bool")


def _tlb(machine: spec.Machine) -> Iterator[Finding]:
    memory, tlb = machine.memory, machine.tlb
    for pages, size in PAGES:
        if size not in memory.page_sizes:
            continue
        source = "4k" if memory.huge_pages_splintered else pages
        tables: dict[str, spec.TlbTable] = {"l1": getattr(tlb, f"l1_{source}"), "l2": getattr(tlb, f"l2_{source}")}
        for level, table in tables.items():
            yield count(f"tlb.{level}.entries.{pages}", table.entries, "entries")
            if table.entries:
                yield exact(f"tlb.{level}.miss_penalty.{pages}", table.miss_penalty_cycles, "cycles")


def _page_faults(machine: spec.Machine) -> Iterator[Finding]:
    memory = machine.memory
    cycles = {"4k": memory.page_fault_4k_cycles, "2m": memory.page_fault_2m_cycles}
    for pages, size in PAGES:
        if size in memory.page_sizes:
            yield exact(f"page_fault.minor.{pages}", cycles[pages], "cycles")


def _blocking(machine: spec.Machine) -> Iterator[Finding]:
    core = machine.core
    blocks = {"load": core.blocking_load, "store": core.blocking_store}
    if working_hints(machine):
        blocks["prefetch"] = core.blocking_prefetch
    for access, blocking in blocks.items():
        yield exact(f"blocking.{access}", "blocking" if blocking else "nonblocking", "string")


# -- miss queues -----------------------------------------------------------------------------------------------------


def _miss_queues(machine: spec.Machine) -> Iterator[Finding]:
    for number in (1, 2):
        hides = {"demand": what_hides_demand(machine, number), "prefetch": what_hides_prefetches(machine, number)}
        entries = {"demand": demand_in_flight(machine, number), "prefetch": prefetches_in_flight(machine, number)}
        for kind, reached in entries.items():
            if reached and hides[kind]:
                yield hidden(f"mshr.l{number}.{kind}", reached, "entries", hides[kind])
            elif reached is not None:
                yield count(f"mshr.l{number}.{kind}", reached, "entries")
    for number in (1, 2) if machine.core.threads_per_core > 1 else ():
        if sharing_shows(machine, number):
            yield exact(f"mshr.l{number}.shared_by_smt", machine.levels[number - 1].mshr_shared_by_smt, "bool")


def _pools_unseen(machine: spec.Machine) -> set[str]:
    """Miss queues of which nobody outside can say whether threads share them."""
    limited = [number for number in (1, 2) if machine.levels[number - 1].mshr_entries]
    several = machine.core.threads_per_core > 1
    return {f"mshr.l{number}.shared_by_smt" for number in limited if several and not sharing_shows(machine, number)}


# -- software prefetch -----------------------------------------------------------------------------------------------


def _software_prefetch(machine: spec.Machine) -> Iterator[Finding]:
    prefetch = machine.software_prefetch
    for name, hint in prefetch.hints.items():
        yield exact(f"software_prefetch.fills.{name}", hint.fills, "string")
    if not working_hints(machine):
        return
    # a prefetch that misses a TLB is outside the page of the latest load, and must be done there to be done at all
    on_l1_tlb_miss = prefetch.across_page and prefetch.on_l1_tlb_miss
    on_l2_tlb_miss = on_l1_tlb_miss and prefetch.on_l2_tlb_miss
    yield exact("software_prefetch.on_tlb_miss.l1", on_l1_tlb_miss, "bool")
    yield exact("software_prefetch.on_tlb_miss.l2", on_l2_tlb_miss, "bool")
    yield exact("software_prefetch.on_page_fault", on_l2_tlb_miss and prefetch.on_page_fault, "bool")
    yield exact("software_prefetch.across_page", prefetch.across_page, "bool")
    if not machine.core.blocking_prefetch:  # else one is in flight at most, and nothing is ever full
        yield exact("software_prefetch.when_full", prefetch.when_full, "string")


def _store_after(machine: spec.Machine) -> Iterator[Finding]:
    """A store after a prefetch into level 1 of a line that one other core held."""
    if machine.core.cores < 2:
        return
    hit = machine.levels[0].latency_cycles
    kinds = {hint.exclusive for hint in working_hints(machine).values() if hint.fills == "l1"}
    if False in kinds:
        yield exact("software_prefetch.store_after.shared", hit + machine.coherence.invalidate_cycles, "cycles")
    if True in kinds:
        yield exact("software_prefetch.store_after.exclusive", hit, "cycles")


# -- memory under load -----------------------------------------------------------------------------------------------


def _loaded_latency(machine: spec.Machine) -> Iterator[Finding]:
    hertz = machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
    memory = machine.memory
    yield exact("loaded_latency.idle", memory.latency_cycles / hertz * 1e9, "ns")
    for peak, low, high in memory_peak(machine):
        yield between("loaded_latency.peak_bandwidth", peak, low, high, "GB/s")

"""What a scenario should find on a simulated machine: the machine file in the parameter names of findings.

Every parameter is a plain function of the file's fields. Parameters that the machine doesn't define (the spread of
thread starts) are left out. Queue sizes are what the parameter says, misses *in flight*: a blocking core has
one, whatever its queue could hold, and level 2 never has more demand misses than level 1 lets through.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.spec.in_flight import (
    demand_in_flight,
    prefetches_in_flight,
    sharing_shows,
    working_hints,
)
from setebench.sim.truth.bandwidth import bandwidth_parameters, bandwidths, memory_peak
from setebench.sim.truth.counters import counters, events_left_open
from setebench.sim.truth.finding import exact
from setebench.sim.truth.pace import Pace, machine_pace
from setebench.sim.truth.prefetchers import prefetchers, unjudged

MOST_CORES_IN_PAIRS = 8
"""Up to so many cores latency is reported for every ordered pair; beyond, for reads by core 0 (the paper's Figure
3)."""

UNNAMED = ("fifo", "brrip")
"""Replacement policies that findings call `other`."""

OUTER = 3  # the first level that all cores share


def truth(machine: spec.Machine, pace: Pace | None = None) -> list[Finding]:
    """The true value of every parameter that `machine` defines, as findings. `pace` is how the clock went in the run
    that found something; without it, what is reported in ticks may be that of any time."""
    parts = (
        _latency,
        _core_to_core,
        _caches,
        _pages,
        _miss_queues,
        _software_prefetch,
        _store_after,
        prefetchers,
        memory_peak,
        bandwidths,
        counters,
    )
    return [*_clock(machine, pace or machine_pace(machine)), *(each for part in parts for each in part(machine))]


def left_open(machine: spec.Machine) -> frozenset[str]:
    """Parameters that this machine has, but of which `truth` may not say how much: the bandwidth of its levels where
    prefetchers may add too much for a rate to be known, and with other widths and numbers of threads; and whether
    events count prefetched lines, where that depends on what was learned.
    And what names say already, whether threads share entries that they can't run out of, and lines of other cores
    beyond the pairs and states that are listed."""
    pools = {f"mshr.l{number}.shared_by_smt" for number in (1, 2) if machine.levels[number - 1].mshr_entries}
    shown = {finding.parameter for finding in _miss_queues(machine)}
    unseen = pools - shown if machine.core.threads_per_core > 1 else set()
    pairs = {
        f"latency.core_to_core.{reader}-{owner}.{state}"
        for reader, owner in permutations(range(machine.core.cores), 2)
        for state in ("modified", "exclusive", "shared")
    } - {finding.parameter for finding in _core_to_core(machine)}
    return frozenset(bandwidth_parameters(machine)) | unjudged(machine) | events_left_open(machine) | unseen | pairs


def _clock(machine: spec.Machine, pace: Pace) -> Iterator[Finding]:
    """What is reported in ticks holds at the time of measuring, which may be any part of the core clock's changes."""
    clock = machine.clock
    yield exact("clock.step", clock.step_ticks, "ticks")
    for method, cycles in clock.brackets.items():
        ticks = cycles * clock.ticks_per_cycle
        yield exact(f"clock.overhead.{method}", ticks, "ticks", (ticks / pace.fastest, ticks / pace.slowest))
    nominal = 1 / clock.ticks_per_cycle
    ends = (nominal * pace.slowest, nominal * pace.fastest)
    yield exact("clock.cycles_per_tick", nominal, "cycles/tick", ends)


def _latency(machine: spec.Machine) -> Iterator[Finding]:
    hertz = machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
    yield exact("loaded_latency.idle", machine.memory.latency_cycles / hertz * 1e9, "ns")
    core, extra = machine.core, machine.core.vector_load_extra
    cycles = {f"l{number}": level.latency_cycles for number, level in enumerate(machine.levels, 1)}
    for name, plain in {**cycles, "memory": machine.memory.latency_cycles}.items():
        yield exact(f"latency.{name}", plain, "cycles")
        for size, more in ((16, extra.bytes16), (32, extra.bytes32), (64, extra.bytes64)):
            if size in core.access_sizes:
                yield exact(f"latency.{name}.vector{size}", plain + more, "cycles")


def _core_to_core(machine: spec.Machine) -> Iterator[Finding]:
    cores, table = machine.core.cores, machine.coherence.distance_cycles
    for reader in range(cores if cores <= MOST_CORES_IN_PAIRS else 1):
        for owner in (each for each in range(cores) if each != reader):
            distance = table[reader][owner] if table else 0.0
            for state, (cycles, travels) in _transfer_states(machine).items():
                name = f"latency.core_to_core.{reader}-{owner}.{state}"
                yield exact(name, cycles + distance * travels, "cycles")


def _transfer_states(machine: spec.Machine) -> dict[str, tuple[float, bool]]:
    """Cycles per state, and whether the distance between the cores adds to them."""
    coherence, third = machine.coherence, machine.levels[-1]
    states = {"modified": (coherence.modified_cycles, True), "exclusive": (coherence.exclusive_cycles, True)}
    if coherence.shared_cycles:
        states["shared"] = (coherence.shared_cycles, True)
    elif len(machine.levels) < OUTER:
        states["shared"] = (machine.memory.latency_cycles, False)
    elif third.inclusion not in ("exclusive", "victim") or machine.core.cores == 2:
        # one that is filled by victims may or may not hold the line, by the line's past; of two cores the reader itself
        # must have had the line, and what its private caches lose is there
        states["shared"] = (third.latency_cycles, False)
    return states


def _caches(machine: spec.Machine) -> Iterator[Finding]:
    for number, level in enumerate(machine.levels, 1):
        at, policy = f"cache.l{number}", level.replacement
        yield exact(f"{at}.size", level.lines * machine.line_size_bytes, "bytes")
        yield exact(f"{at}.ways", level.ways, "ways")
        yield exact(f"{at}.line_size", machine.line_size_bytes, "bytes")
        yield exact(f"{at}.replacement", "other" if policy in UNNAMED else policy)
        if number < OUTER:  # which set a line of the others belongs to is not measured since 0.2
            yield exact(f"{at}.index", "hashed" if level.hashed_index else "linear")
        if number > 1:
            yield exact(f"cache.l{number - 1}.inclusive_in_l{number}", level.inclusion == "inclusive")
    yield exact("cache.l2.exclusive_of_l1", machine.levels[1].inclusion == "exclusive")


def _pages(machine: spec.Machine) -> Iterator[Finding]:
    """Faults and TLBs, by size of page."""
    memory, tlb = machine.memory, machine.tlb
    small, large = (
        ((tlb.l1_4k, tlb.l2_4k), memory.page_fault_4k_cycles),
        ((tlb.l1_2m, tlb.l2_2m), memory.page_fault_2m_cycles),
    )
    for pages, size, (tables, fault) in (("4k", 4096, small), ("2m", 2097152, large)):
        if size not in memory.page_sizes:
            continue
        yield exact(f"page_fault.minor.{pages}", fault, "cycles")
        for number, table in enumerate(small[0] if memory.huge_pages_splintered else tables, 1):
            yield exact(f"tlb.l{number}.entries.{pages}", table.entries, "entries")
            if table.entries:
                yield exact(f"tlb.l{number}.miss_penalty.{pages}", table.miss_penalty_cycles, "cycles")


# -- miss queues -----------------------------------------------------------------------------------------------------


def _miss_queues(machine: spec.Machine) -> Iterator[Finding]:
    for access in ("load", "store", "prefetch") if working_hints(machine) else ("load", "store"):
        blocking = getattr(machine.core, f"blocking_{access}")
        yield exact(f"blocking.{access}", "blocking" if blocking else "nonblocking")
    for number in (1, 2):
        for kind, most in (("demand", demand_in_flight), ("prefetch", prefetches_in_flight)):
            name, (reached, by) = f"mshr.l{number}.{kind}", most(machine, number)
            if reached is not None:
                yield exact(name, reached, "entries", hidden_by=by)
        if machine.core.threads_per_core > 1 and sharing_shows(machine, number):
            yield exact(f"mshr.l{number}.shared_by_smt", machine.levels[number - 1].mshr_shared_by_smt)


# -- software prefetch -----------------------------------------------------------------------------------------------


def _software_prefetch(machine: spec.Machine) -> Iterator[Finding]:
    prefetch = machine.software_prefetch
    for name, hint in prefetch.hints.items():
        yield exact(f"software_prefetch.fills.{name}", hint.fills)
    if not working_hints(machine):
        return
    # a prefetch that misses a TLB is outside the page of the latest load, and must be done there to be done at all
    first = prefetch.across_page and prefetch.on_l1_tlb_miss
    second = first and prefetch.on_l2_tlb_miss
    done = {"on_tlb_miss.l1": first, "on_tlb_miss.l2": second, "on_page_fault": second and prefetch.on_page_fault}
    for what, value in {**done, "across_page": prefetch.across_page}.items():
        yield exact(f"software_prefetch.{what}", value)
    if not machine.core.blocking_prefetch:  # else one is in flight at most, and nothing is ever full
        yield exact("software_prefetch.when_full", prefetch.when_full)


def _store_after(machine: spec.Machine) -> Iterator[Finding]:
    """A store after a prefetch into level 1 of a line that one other core held."""
    hit, taken = machine.levels[0].latency_cycles, machine.coherence.invalidate_cycles
    into_first = {hint.exclusive for hint in working_hints(machine).values() if hint.fills == "l1"}
    for exclusive in sorted(into_first) if machine.core.cores > 1 else ():
        name = "exclusive" if exclusive else "shared"
        yield exact(f"software_prefetch.store_after.{name}", hit if exclusive else hit + taken, "cycles")

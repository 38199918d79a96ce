"""Rules for the clock, the cores, TLBs, memory, software prefetches, and lines of other cores."""

from __future__ import annotations

import math

from setebench.sim import spec
from setebench.sim.files.origins import Path
from setebench.sim.spec.checks import MOST_TLB_WAYS
from setebench.sim.spec.fields import table_fields
from setebench.truth.twin.caches import GROWTH, USUAL_WAYS, at, exact, holding
from setebench.truth.twin.readings import Draft, Reading, Readings, computed, narrowest

SYSTEM = "as the machine itself says"
COPIES: dict[str, Path] = {
    "clock.step": ("clock", "step_ticks"),
    "page_fault.minor.4k": ("memory", "page_fault_4k_cycles"),
    "page_fault.minor.2m": ("memory", "page_fault_2m_cycles"),
    "software_prefetch.on_tlb_miss.l1": ("software_prefetch", "on_l1_tlb_miss"),
    "software_prefetch.on_tlb_miss.l2": ("software_prefetch", "on_l2_tlb_miss"),
    "software_prefetch.on_page_fault": ("software_prefetch", "on_page_fault"),
    "software_prefetch.across_page": ("software_prefetch", "across_page"),
    "software_prefetch.when_full": ("software_prefetch", "when_full"),
}
"""Findings that are a field as they are."""

GIGA = 1e9
SMALL, HUGE = 4096, 2 << 20
LEAST_PORTS, PARTS = 2, (16, 32, 64)
"""Loads of 8 bytes in a cycle at least, and how many bytes each may have."""

OWN = 1.2
"""A pace of lines is a level's own where it takes so many times as long as the misses in flight let lines take."""

LEAST_SETS = 16
"""A table that could have so many sets of usual ways is assumed to be set-associative; a smaller one, fully."""


def clock(readings: Readings, draft: Draft) -> None:
    """The counter's pace, what an empty interval takes with each bracket, and all fields that are only copied."""
    for parameter, path in COPIES.items():
        draft.put(path, readings.get(parameter))
    ratio, rate = readings.get("clock.cycles_per_tick"), readings.fact("ticks_per_second")
    if rate:
        draft.assume(("clock", "ticks_per_second"), float(rate), SYSTEM)
    draft.put(("clock", "ticks_per_cycle"), computed(lambda cycles: 1 / cycles, ratio))
    for name in readings.names("clock.overhead."):
        path = ("clock", "brackets", name.rpartition(".")[2])
        draft.put(path, computed(lambda ticks, cycles: ticks * cycles, readings.get(name), ratio))


def cores(readings: Readings, draft: Draft) -> None:
    """How many there are, whether they wait for a miss, and what vector loads cost."""
    groups = readings.fact("siblings") or [[cpu] for cpu in readings.fact("cpus") or [0]]
    for name, number in (("cores", len(groups)), ("threads_per_core", max(map(len, groups)))):
        most = table_fields(spec.Core)[name].limits[1]
        draft.assume(("core", name), int(min(number, most or number)), SYSTEM)
    if readings.fact("access_sizes"):
        draft.assume(("core", "access_sizes"), list(readings.fact("access_sizes")), SYSTEM)
    for access in ("load", "store", "prefetch"):
        path = ("core", f"blocking_{access}")
        draft.put(path, computed(lambda found: found == "blocking", readings.get(f"blocking.{access}")))
        if draft.fields.get(path):
            draft.assume(("core", "out_of_order"), False, "an access that holds up independent work")
    for size in (16, 32, 64):
        extra = (
            computed(_above, readings.get(f"latency.{level}.vector{size}"), readings.get(f"latency.{level}"))
            for level in ("l1", "l2", "l3", "memory")
        )
        draft.put(("core", "vector_load_extra", f"bytes{size}"), narrowest(extra))


def _above(more: float, less: float) -> float:
    return max(more - less, 0.0)


# -- TLBs ----------------------------------------------------------------------------------------------------------


def tlbs(readings: Readings, draft: Draft) -> None:
    """Entries and penalties of both levels for both page sizes; ways are assumed. A second table holds and costs no
    less than the first."""
    for pages in ("4k", "2m"):
        entries, cycles = 0, 0.0
        for level in (1, 2):
            if not entries and not readings.names(f"tlb.l{level}.", f".{pages}"):
                continue
            path, usual = ("tlb", f"l{level}_{pages}"), getattr(spec.Tlb(), f"l{level}_{pages}")
            found, penalty = (readings.get(f"tlb.l{level}.{what}.{pages}") for what in ("entries", "miss_penalty"))
            wanted = int(found.value) if found else usual.entries
            count, ways = tlb_shape(level, max(wanted, entries) if wanted else 0)
            if found and count != wanted:
                found = found.bounded(f"{wanted} was found; {count} make a power of two of sets").of(count)
            draft.fill((*path, "entries"), found, count, "open: the usual, and no fewer than the first table's")
            draft.assume((*path, "ways"), ways, "no finding says how many sets there are")
            more, costs = max(usual.miss_penalty_cycles, cycles), (*path, "miss_penalty_cycles")
            draft.fill(costs, penalty, more, "open: the usual, and no less than the first table's")
            if count:
                entries, cycles = count, float(draft.fields[costs])
    _splintered(readings, draft)


def tlb_shape(level: int, entries: int) -> tuple[int, int]:
    """Entries and ways (0: all) of a table that has so many entries at least: a first one is fully associative, as most
    are; others have usual ways where these make a power of two of sets."""
    shapes = [exact(entries, ways, False) for ways in USUAL_WAYS if level > 1 and entries >= ways * LEAST_SETS]
    if entries <= MOST_TLB_WAYS and not any(shapes):
        return entries, 0
    sets, ways = next(filter(None, shapes), holding(entries))
    return sets * ways, ways


def _splintered(readings: Readings, draft: Draft) -> None:
    """Large pages whose tables are those of small pages, up to what a page walk takes, are held in 4 KiB parts: a walk
    to a whole one has a level less to read. A guest's may be, in TLBs and in memory, where no table says otherwise."""
    path, names = ("memory", "huge_pages_splintered"), list[str]()
    compared = ("l1.entries", "l2.entries", "l1.miss_penalty", "l2.miss_penalty")
    for name in compared:
        small, large = (readings.get(f"tlb.{name}.{pages}") for pages in ("4k", "2m"))
        if small is None or large is None:
            continue
        most = (each.ends[1] for each in (small, large) if each.kind != "bounded" or each.high is not None)
        if not small.value or max(small.ends[0], large.ends[0]) > min(most, default=math.inf):
            return
        names += [*small.parameters, *large.parameters] if "bounded" not in (small.kind, large.kind) else []
    if len(names) == 2 * len(compared):
        why = "large pages have the tables of small ones, walks included"
        draft.put(path, Reading(True, "bounded", parameters=tuple(names), why=why))
    elif names and readings.guest:
        draft.assume(path, True, "a guest's may be, and no table of large pages differs from that of small ones")


# -- memory and other cores ----------------------------------------------------------------------------------------


def memory(readings: Readings, draft: Draft) -> None:
    """Bytes, pages, latency, and the pace of lines."""
    total, sizes = readings.fact("memory_bytes"), readings.fact("page_sizes") or ()
    if total:
        least, most = table_fields(spec.Memory)["bytes"].limits
        size = min(max(int(total), int(least or 0)), int(most or total)) // HUGE * HUGE
        draft.assume(("memory", "bytes"), size, SYSTEM)
    if SMALL in sizes:
        draft.assume(("memory", "page_sizes"), [size for size in sizes if size in (SMALL, HUGE)], SYSTEM)
    far = GROWTH * float(draft.fields[(*at(readings.levels), "latency_cycles")])
    usual = max(spec.Memory().latency_cycles, far)
    draft.fill(("memory", "latency_cycles"), readings.get("latency.memory"), usual, "the latency is open: a usual one")
    peak = readings.get("loaded_latency.peak_bandwidth")
    if peak is None or peak.kind != "measured":  # what loads reached, which queues of cores may limit
        rates = map(readings.get, readings.names("bandwidth.memory.load."))
        numbers = (each for each in rates if each is not None and isinstance(each.value, (int, float)))
        peak = max(numbers, key=lambda each: float(each.value), default=None)
        peak = peak and peak.bounded("memory delivers as much at least")
    draft.put(("memory", "interval_cycles"), _pace(readings, peak))


def _pace(readings: Readings, rate: Reading | None) -> Reading | None:
    """Cycles from one line to the next at a rate."""
    ratio, hertz, line = readings.get("clock.cycles_per_tick"), readings.fact("ticks_per_second"), readings.line
    known = rate if rate and rate.value and hertz else None
    return computed(lambda giga, cycles: line * cycles * hertz / (giga * GIGA), known, ratio)


def streams(readings: Readings, draft: Draft) -> None:
    """What level 1 moves in a cycle, by the widest loads and stores of one thread, and the pace of lines to a level of
    which its misses in flight are not the reason. Copies show whether stores have ports of their own."""
    load, store, copy = (_widest(readings, f"l1.{kernel}", ".per_cycle") for kernel in ("load", "store", "copy"))
    if load and store and copy and min(load.value, store.value) > 0:
        width = float(load.parameters[0].split(".")[3])
        ports = computed(lambda rate: max(LEAST_PORTS, round(rate / width)), load)
        parts = computed(lambda rate, n: min(PARTS, key=lambda each: abs(math.log(rate / n / each))), load, ports)
        draft.put((*at(1), "ports"), ports)
        draft.put(("core", "port_bytes"), parts)
        times = (1 / load.value, 1 / store.value)
        if copy.value > 2 / math.sqrt(sum(times) * max(times)):  # nearer to both at once than to one after the other
            draft.put(("core", "store_cycles"), computed(lambda rate, width: width / rate, store, parts))
    for level in (1, 2) if draft.fields.get(("core", "out_of_order"), True) else ():
        pace, further = _pace(readings, _widest(readings, f"l{level + 1}.load")), (*at(level + 1), "latency_cycles")
        if pace and further in draft.fields:
            entries = int(draft.fields[(*at(level), "mshr_entries")])
            if pace.value * entries > OWN * draft.fields[further]:
                draft.put((*at(level), "fill_interval_cycles"), pace)


def _widest(readings: Readings, start: str, end: str = "") -> Reading | None:
    """The bandwidth of one thread by its widest accesses."""
    names = [name for name in readings.names(f"bandwidth.{start}.", f".threads_1{end}") if name.split(".")[3].isdigit()]
    return readings.get(max(names, key=lambda name: int(name.split(".")[3]))) if names else None


def software_prefetches(readings: Readings, draft: Draft) -> None:
    """Where each hint's lines land."""
    usual = spec.SoftwarePrefetch().hints
    for name in (each for each in readings.fact("prefetch_hints") or usual if each in usual):
        path, found = ("software_prefetch", "hints", name), readings.get(f"software_prefetch.fills.{name}")
        draft.fill((*path, "fills"), found, usual[name].fills, "where its lines land is open: the usual")
        if usual[name].exclusive:
            draft.assume((*path, "exclusive"), True, "the usual")


def coherence(readings: Readings, draft: Draft) -> None:
    """Reads of other cores' lines, as the pair that is known best shows them; all pairs are as far apart."""
    count = readings.levels
    outer = (*at(count), "latency_cycles") if count > 2 else ("memory", "latency_cycles")
    for state in ("modified", "exclusive", "shared"):
        names = readings.names("latency.core_to_core.", f".{state}")
        known = narrowest(map(readings.get, names))
        if known and state == "shared" and known.ends[0] <= float(draft.fields[outer]) <= known.ends[1]:
            known = known.of(0.0)  # what all cores share delivers it
        draft.put(("coherence", f"{state}_cycles"), known)
    after = readings.get("software_prefetch.store_after.shared")
    draft.put(("coherence", "invalidate_cycles"), computed(_above, after, readings.get("latency.l1")))

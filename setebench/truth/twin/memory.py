"""Rules for main memory, software prefetches, and lines of other cores."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.spec.fields import table_fields
from setebench.sim.spec.limits import LIMITS
from setebench.truth.twin.caches import levels
from setebench.truth.twin.core import SYSTEM
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings, computed, narrowest

GIGA = 1e9
HUGE = 2 << 20
FLAGS = {
    "on_tlb_miss.l1": "on_l1_tlb_miss",
    "on_tlb_miss.l2": "on_l2_tlb_miss",
    "on_page_fault": "on_page_fault",
    "across_page": "across_page",
    "when_full": "when_full",
}
LEAST_ABOVE_CACHES = 2.0
"""Memory whose latency is open is assumed to be so many times as far as the last cache, or at its default."""

ROW_BYTES, BANKS = 8192, 64
"""Of DDR4 with 8 chips, and of two channels with two ranks each (JESD79-4)."""

Pair = tuple[int, int]


def memory(readings: Readings, draft: Draft) -> None:
    """Latency, pages, page faults, and the pace of lines."""
    _size(readings, draft)
    if not draft.put(("memory", "latency_cycles"), readings.latency("memory")):
        last = draft.get(("levels", levels(readings) - 1, "latency_cycles"))
        usual = table_fields(spec.Memory)["latency_cycles"].default
        far = max(float(usual), LEAST_ABOVE_CACHES * float(last))
        draft.assume(("memory", "latency_cycles"), far, "the latency is open: a usual one")
    _rows(readings, draft)
    for pages in ("4k", "2m"):
        draft.put(("memory", f"page_fault_{pages}_cycles"), readings.get(f"page_fault.minor.{pages}"))
    peak, ratio = readings.get("loaded_latency.peak_bandwidth"), readings.get("clock.cycles_per_tick")
    rate = readings.fact("ticks_per_second")
    # a bound is what fewer CPUs reached, whose own queues limit them
    if peak is not None and peak.kind == "measured" and peak.value and ratio is not None and rate:
        line = readings.line
        interval = computed(
            lambda giga, cycles: line * cycles * rate / (giga * GIGA), peak, ratio, why="line over peak"
        )
        draft.put(("memory", "interval_cycles"), interval)


def _rows(readings: Readings, draft: Draft) -> None:
    """What an open row saves; how large rows are and in how many banks is assumed."""
    hit, miss = readings.get("latency.memory.row_hit"), readings.get("latency.memory")
    if hit is None or miss is None:
        return
    saved = computed(lambda near, far: max(far - near, 0.0), hit, miss, why="memory less its open rows")
    draft.put(("memory", "row_hit_saves_cycles"), saved)
    draft.assume(("memory", "row_bytes"), ROW_BYTES, "how large rows are is not reported: a usual size")
    draft.assume(("memory", "banks"), BANKS, "how many banks there are is not reported: a usual number")


def _size(readings: Readings, draft: Draft) -> None:
    total = readings.fact("memory_bytes")
    if total:
        limit = LIMITS[spec.Memory]["bytes"]
        size = min(max(int(total), int(limit.low or 0)), int(limit.high or total)) // HUGE * HUGE
        draft.assume(("memory", "bytes"), size, SYSTEM)
    sizes = [size for size in readings.fact("page_sizes") or () if size in (4096, HUGE)]
    if 4096 in sizes:
        draft.assume(("memory", "page_sizes"), sizes, SYSTEM)


def software_prefetches(readings: Readings, draft: Draft) -> None:
    """Where each hint's lines land, and when a prefetch is not done."""
    usual: dict[str, spec.Hint] = table_fields(spec.SoftwarePrefetch)["hints"].default
    names = [name for name in readings.fact("prefetch_hints") or usual if name in usual]
    found = {name: readings.get(f"software_prefetch.fills.{name}") for name in names}
    for name, landed in found.items():
        path = ("software_prefetch", "hints", name)
        if landed is None:
            draft.assume((*path, "fills"), usual[name].fills, "where its lines land is open: the usual")
        else:
            draft.put((*path, "fills"), landed)
        if usual[name].exclusive:
            known = readings.get("software_prefetch.store_after.exclusive")
            why = "the usual" if known is None else "a store after an exclusive prefetch was timed"
            draft.assume((*path, "exclusive"), True, why)
    for parameter, field in FLAGS.items():
        draft.put(("software_prefetch", field), readings.get(f"software_prefetch.{parameter}"))


# -- other cores ---------------------------------------------------------------------------------------------------


def coherence(readings: Readings, draft: Draft) -> None:
    """Reads of other cores' lines: the nearest pair, and how much further others are."""
    modified, exclusive, shared = (_pairs(readings, state) for state in ("modified", "exclusive", "shared"))
    nearest = min((float(each.value) for each in modified.values()), default=0.0)
    distances = {pair: float(each.value) - nearest for pair, each in modified.items()}
    near = [each for pair, each in modified.items() if not distances[pair]]
    draft.put(("coherence", "modified_cycles"), narrowest(near))
    own = [_less(each, distances.get(pair, 0.0)) for pair, each in exclusive.items()]
    draft.put(("coherence", "exclusive_cycles"), narrowest(own))
    if any(distances.values()):
        number = draft.get(("core", "cores"))
        table = [[distances.get((reader, owner), 0.0) for owner in range(number)] for reader in range(number)]
        first = next(iter(modified.values()))
        draft.put(("coherence", "distance_cycles"), first, table)
    _shared(readings, draft, shared, distances)
    after, hit = readings.get("software_prefetch.store_after.shared"), readings.get("latency.l1")
    if after is not None and hit is not None:
        draft.put(("coherence", "invalidate_cycles"), computed(lambda store, own: max(store - own, 0.0), after, hit))


def _pairs(readings: Readings, state: str) -> dict[Pair, Reading]:
    """Readings by (reader, owner) as numbers of cores; findings name the CPUs."""
    core_of = {cpu: core for core, group in enumerate(readings.cores) for cpu in group}
    start = "latency.core_to_core."
    found = {}
    for name in readings.names(start, f".{state}"):
        reader, owner = (int(part) for part in name.removeprefix(start).split(".")[0].split("-"))
        known = readings.get(name)
        if known is not None and reader in core_of and owner in core_of:
            found[core_of[reader], core_of[owner]] = known
    return found


def _less(reading: Reading, cycles: float) -> Reading:
    return computed(lambda value: max(value - cycles, 1.0), reading) if cycles else reading


def _shared(readings: Readings, draft: Draft, shared: dict[Pair, Reading], distances: dict[Pair, float]) -> None:
    """0 says that the last cache, or memory, delivers the line: where the times are the same."""
    known = narrowest([_less(each, distances.get(pair, 0.0)) for pair, each in shared.items()])
    if known is None:
        return
    count = levels(readings)
    other = draft.get(("levels", count - 1, "latency_cycles")) if count > 2 else draft.get(("memory", "latency_cycles"))
    plain = narrowest(list(shared.values()))
    assert plain is not None
    low, high = (plain.value if end is None else end for end in (plain.low, plain.high))
    same = other is not None and low <= float(other) <= high
    draft.put(("coherence", "shared_cycles"), known, 0.0 if same else None)

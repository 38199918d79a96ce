"""Rules for main memory, software prefetches, and lines of other cores."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.spec.fields import table_fields
from setebench.truth.twin.caches import levels
from setebench.truth.twin.core import SYSTEM
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Readings, computed, narrowest

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


def memory(readings: Readings, draft: Draft) -> None:
    """Latency, pages, page faults, and the pace of lines."""
    _size(readings, draft)
    if not draft.put(("memory", "latency_cycles"), readings.latency("memory")):
        last = draft.get(("levels", levels(readings) - 1, "latency_cycles"))
        usual = table_fields(spec.Memory)["latency_cycles"].default
        far = max(float(usual), LEAST_ABOVE_CACHES * float(last))
        draft.assume(("memory", "latency_cycles"), far, "the latency is open: a usual one")
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


def _size(readings: Readings, draft: Draft) -> None:
    total = readings.fact("memory_bytes")
    if total:
        least, most = table_fields(spec.Memory)["bytes"].limits
        size = min(max(int(total), int(least or 0)), int(most or total)) // HUGE * HUGE
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
    """Reads of other cores' lines, as the pair that is known best shows them; all pairs are as far apart."""
    for state in ("modified", "exclusive", "shared"):
        names = readings.names("latency.core_to_core.", f".{state}")
        known = narrowest([found for name in names if (found := readings.get(name)) is not None])
        if known is None:
            continue
        count = levels(readings)
        outer = ("levels", count - 1, "latency_cycles") if count > 2 else ("memory", "latency_cycles")
        low, high = (known.value if end is None else end for end in (known.low, known.high))
        plain = state == "shared" and low <= float(draft.get(outer)) <= high  # 0: what all cores share delivers it
        draft.put(("coherence", f"{state}_cycles"), known, 0.0 if plain else None)
    after, hit = readings.get("software_prefetch.store_after.shared"), readings.get("latency.l1")
    if after is not None and hit is not None:
        draft.put(("coherence", "invalidate_cycles"), computed(lambda store, own: max(store - own, 0.0), after, hit))

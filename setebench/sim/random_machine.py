"""Random machines: plausible memory systems drawn from a seed, to score inference against."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random_caches import random_levels
from setebench.sim.random_pmu import random_pmu
from setebench.sim.random_prefetchers import random_prefetchers
from setebench.sim.random_published import with_published
from setebench.sim.random_ranges import RANGES, Draw

MOST_REGION_LINES = 64
"""Lines of a region prefetcher's footprint."""


def random_machine(seed: int) -> spec.Machine:
    """The machine of `seed`: always the same for the same seed, always valid."""
    draw = Draw(seed)
    kind = draw.one("noise.kind")
    line = draw.one("line_size")
    core = _core(draw, line)
    levels = random_levels(draw, core)
    pages = draw.one("memory.pages")
    memory = _memory(draw, pages, levels)
    order = "out-of-order" if core.out_of_order else "in-order"
    machine = spec.Machine(
        name=f"random:{seed}",
        description=f"drawn from seed {seed}: {order}, {len(levels)} levels, {kind}",
        clock=_clock(draw, kind),
        noise=_noise(draw, kind),
        core=core,
        levels=levels,
        tlb=_tlb(draw),
        memory=memory,
        software_prefetch=_software_prefetch(draw, levels),
        line_size_bytes=line,
        prefetchers=_of_lines(random_prefetchers(draw, core, memory), line),
        coherence=_coherence(draw, core, levels, memory),
    )
    machine = with_published(seed, machine)
    return msgspec.structs.replace(machine, pmu=random_pmu(seed, machine))


def _of_lines(prefetchers: tuple[Any, ...], line: int) -> tuple[Any, ...]:
    """The prefetchers, with regions of no more lines than a footprint has bits."""
    return tuple(
        msgspec.structs.replace(each, region_size_bytes=min(each.region_size_bytes, MOST_REGION_LINES * line))
        if isinstance(each, spec.Region)
        else each
        for each in prefetchers
    )


def _clock(draw: Draw, kind: str) -> spec.Clock:
    cpuid = "clock.cpuid_trapped_cycles" if kind == "guest" else "clock.cpuid_cycles"
    fine = draw.chance("clock.fine")
    return spec.Clock(
        ticks_per_cycle=draw.real("clock.ticks_per_cycle", 4),
        ticks_per_second=draw.real("clock.ticks_per_second", -6),
        step_ticks=1.0 if fine else draw.real("clock.step_ticks", 0),
        brackets={
            "lfence": draw.real("clock.lfence_cycles", 1),
            "rdtscp": draw.real("clock.rdtscp_cycles", 1),
            "cpuid": draw.real(cpuid, 0),
        },
        drift=draw.real("noise.drift", 3) if kind == "guest" else 0.0,
        drift_period_cycles=draw.real("noise.drift_period_cycles", -8),
        jitter_cycles=0.0 if kind == "quiet" else draw.real("clock.jitter_cycles", 1),
    )


def _noise(draw: Draw, kind: str) -> spec.Noise:
    if kind == "quiet":
        return spec.Noise()
    stalls = draw.real("noise.stall_interval_cycles", 0)
    return spec.Noise(
        interrupt_interval_cycles=draw.real("noise.interrupt_interval_cycles", 0),
        interrupt_cycles=draw.real("noise.interrupt_cycles", 0),
        interrupt_lines=draw.whole("noise.interrupt_lines"),
        stall_interval_cycles=stalls if kind == "guest" else 0.0,
        stall_cycles=draw.real("noise.stall_cycles", 0),
    )


def _core(draw: Draw, line: int) -> spec.Core:
    in_order = draw.chance("core.in_order")
    blocking_load = in_order and draw.chance("core.blocking")
    blocking_store = in_order and draw.chance("core.blocking")
    extra = sorted(draw.one("vector_extra") for _ in range(3))
    threads = draw.one("core.threads")
    return spec.Core(
        cores=draw.fitting("core.cores", lambda cores: cores * threads <= draw.most("core.cpus")),
        threads_per_core=threads,
        out_of_order=not in_order,
        issue_width=draw.one("core.in_order_width" if in_order else "core.width"),
        reorder_window=draw.one("core.reorder_window"),
        load_queue=draw.one("core.load_queue"),
        store_queue=draw.one("core.store_queue"),
        blocking_load=blocking_load,
        blocking_store=blocking_store,
        blocking_prefetch=blocking_load and draw.chance("core.blocking_prefetch"),
        multiply_cycles=draw.one("core.multiply_cycles"),
        integer_to_vector_cycles=draw.real("core.transfer_cycles", 0),
        vector_to_integer_cycles=draw.real("core.transfer_cycles", 0),
        vector_load_extra=spec.VectorExtra(bytes16=extra[0], bytes32=extra[1], bytes64=extra[2]),
        access_sizes=tuple(size for size in draw.one("core.access_sizes") if size <= line),
        flush_cycles=draw.real("core.flush_cycles", 0),
        flush_cached_extra_cycles=draw.one("core.flush_cached_extra"),
        smt_extra_cycles=draw.one("core.smt_extra_cycles") if threads > 1 else 0.0,
    )


def _tlb(draw: Draw) -> spec.Tlb:
    penalty = float(draw.whole("tlb.l1_penalty"))
    walk = penalty + draw.whole("tlb.walk_extra")
    first, ways = draw.one("tlb.l1_shape")
    second, second_ways = draw.fitting("tlb.l2_shape", lambda shape: shape[0] > first)
    huge = draw.fitting("tlb.l1_2m_entries", lambda entries: entries <= second)
    small = spec.TlbTable(entries=first, ways=ways, miss_penalty_cycles=penalty)
    if draw.chance("tlb.l2_2m_missing"):  # then a miss in level 1 is a walk
        l1_2m = spec.TlbTable(entries=huge, miss_penalty_cycles=walk)
        l2_2m = spec.TlbTable(entries=0, miss_penalty_cycles=0.0)
    else:
        l1_2m = spec.TlbTable(entries=huge, miss_penalty_cycles=penalty)
        l2_2m = spec.TlbTable(entries=second, ways=second_ways, miss_penalty_cycles=walk - 5.0)
    return spec.Tlb(
        l1_4k=small,
        l2_4k=spec.TlbTable(entries=second, ways=second_ways, miss_penalty_cycles=walk),
        l1_2m=l1_2m,
        l2_2m=l2_2m,
        walkers=draw.one("tlb.walkers"),
    )


def _memory(draw: Draw, pages: str, levels: tuple[spec.Level, ...]) -> spec.Memory:
    latency = float(draw.whole("memory.latency"))
    interval = draw.one("memory.interval")
    fillable = interval * max(level.mshr_entries for level in levels[:2]) < 0.5 * latency
    banks = draw.one("memory.banks")
    return spec.Memory(
        bytes=1 << 34,
        latency_cycles=latency,
        spread_cycles=round(latency * draw.real("memory.spread_share", 3)),
        interval_cycles=interval if fillable else 0.0,
        banks=banks,
        bank_busy_cycles=draw.real("memory.bank_busy", 0) if banks else 0.0,
        page_sizes=(4096,) if pages == "small" else (4096, 2097152),
        huge_pages_splintered=pages == "splintered",
        huge_pages_contiguous=pages != "splintered" or not draw.chance("memory.scattered"),
        page_fault_4k_cycles=draw.real("memory.fault_4k", 0),
        page_fault_2m_cycles=draw.real("memory.fault_2m", 0),
    )


def _software_prefetch(draw: Draw, levels: tuple[spec.Level, ...]) -> spec.SoftwarePrefetch:
    nta: Any = draw.one("hints.nta")
    bypasses = nta == "l1" and levels[1].inclusion != "inclusive" and draw.chance("hints.nta_bypasses_l2")
    hints = {
        "t0": spec.Hint(fills=draw.one("hints.t0")),
        "t1": spec.Hint(fills=_lower_hint(draw, levels)),
        "t2": spec.Hint(fills=_lower_hint(draw, levels)),
        "nta": spec.Hint(fills=nta, bypasses_l2=bypasses),
    }
    if draw.chance("hints.w"):
        hints["w"] = spec.Hint(fills=draw.one("hints.w_fills"), exclusive=True)
    on_l1_tlb_miss = draw.chance("prefetch.on_l1_tlb_miss")
    return spec.SoftwarePrefetch(
        hints=hints,
        on_l1_tlb_miss=on_l1_tlb_miss,
        on_l2_tlb_miss=on_l1_tlb_miss and draw.chance("prefetch.on_l2_tlb_miss"),
        on_page_fault=draw.chance("prefetch.on_page_fault"),
        across_page=draw.chance("prefetch.across_page"),
        when_full="drops" if draw.chance("prefetch.drops") else "stalls",
        lower_hint_takes_l1_entry=draw.chance("prefetch.takes_l1_entry"),
    )


def _lower_hint(draw: Draw, levels: tuple[spec.Level, ...]) -> Any:
    return draw.fitting("hints.t1", lambda level: level != "l3" or len(levels) > 2)


def _coherence(draw: Draw, core: spec.Core, levels: tuple[spec.Level, ...], memory: spec.Memory) -> spec.Coherence:
    """Another core's caches answer later than the slowest own one and before memory."""
    slowest = round(0.9 * memory.latency_cycles) - RANGES["coherence.distance"][1]
    remote = min(levels[-1].latency_cycles + draw.real("coherence.extra", 0), slowest)
    distances: tuple[tuple[float, ...], ...] = ()
    if core.cores > 2 and draw.chance("coherence.distances"):
        distances = tuple(tuple(_distance(draw, a, b) for b in range(core.cores)) for a in range(core.cores))
    return spec.Coherence(
        modified_cycles=remote + draw.one("coherence.modified_extra"),
        exclusive_cycles=remote,
        shared_cycles=remote if draw.chance("coherence.shared") else 0.0,
        invalidate_cycles=draw.real("coherence.invalidate", 0),
        invalidate_per_sharer_cycles=draw.one("coherence.per_sharer"),
        distance_cycles=distances,
    )


def _distance(draw: Draw, reader: int, owner: int) -> float:
    return 0.0 if reader == owner else float(draw.whole("coherence.distance"))

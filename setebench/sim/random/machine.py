"""Random machines: plausible memory systems drawn from a seed, to score inference against."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.caches import random_levels
from setebench.sim.random.pmu import random_pmu
from setebench.sim.random.prefetchers import random_prefetchers
from setebench.sim.random.published import with_published
from setebench.sim.random.ranges import Draw
from setebench.sim.random.variants import with_variants

LEAST_MEMORY = 2.0
"""Latency of memory over that of the last level, at least."""

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
        noise=_noise(draw, kind, levels, core),
        core=core,
        levels=levels,
        tlb=_tlb(draw),
        memory=memory,
        software_prefetch=_software_prefetch(draw, levels),
        line_size_bytes=line,
        prefetchers=_of_lines(random_prefetchers(draw, core, memory), line),
        coherence=_coherence(draw, core, levels, memory),
    )
    machine = with_variants(seed, with_published(seed, machine), kind)
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
    cpuid = "clock.cpuid_trapped_cycles" if kind in ("guest", "stolen") else "clock.cpuid_cycles"
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
        drift=draw.real("noise.drift", 3) if kind in ("guest", "stolen") else 0.0,
        drift_period_cycles=draw.real("noise.drift_period_cycles", -8),
        jump=draw.real("noise.jump", 3) if kind != "quiet" and draw.chance("noise.jumps") else 0.0,
        jump_period_cycles=draw.real("noise.jump_period_cycles", -6),
        jitter_cycles=0.0 if kind == "quiet" else draw.real("clock.jitter_cycles", 1),
    )


def _noise(draw: Draw, kind: str, levels: tuple[spec.Level, ...], core: spec.Core) -> spec.Noise:
    if kind == "quiet":
        return spec.Noise()
    stalls = draw.real("noise.stall_interval_cycles", 0)
    usual = spec.Noise(
        interrupt_interval_cycles=draw.real("noise.interrupt_interval_cycles", 0),
        interrupt_cycles=draw.real("noise.interrupt_cycles", 0),
        interrupt_lines=draw.whole("noise.interrupt_lines"),
        stall_interval_cycles=0.0 if kind == "normal" else stalls,
        stall_cycles=draw.real("noise.stall_cycles", 0),
    )
    if kind == "shared":
        return msgspec.structs.replace(usual, **_co_runner(draw, levels[0], core))
    return msgspec.structs.replace(usual, **_steal(draw)) if kind == "stolen" else usual


def _co_runner(draw: Draw, first: spec.Level, core: spec.Core) -> dict[str, Any]:
    """Each thread of a core may get one, and an entry is left at least."""
    beside = core.threads_per_core if first.mshr_shared_by_smt else 1
    part = draw.real("noise.co_runner_entries")
    return {
        "co_runner_interval_cycles": draw.real("noise.co_runner_interval_cycles", 0),
        "co_runner_cycles": draw.real("noise.co_runner_cycles", 0),
        "co_runner_entries": min(round(first.mshr_entries * part), (first.mshr_entries - 1) // beside),
        "co_runner_issue_share": draw.real("noise.co_runner_issue_share"),
        "co_runner_line_interval_cycles": draw.real("noise.co_runner_line_interval_cycles", 0),
    }


def _steal(draw: Draw) -> dict[str, Any]:
    names = ("steal_interval_cycles", "steal_cycles", "episode_interval_cycles", "episode_cycles")
    return {name: draw.real(f"noise.{name}", 0) for name in names} | {"steal_lines": draw.whole("noise.steal_lines")}


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
    small = spec.TlbTable(
        entries=first,
        ways=ways,
        index=draw.one("tlb.l1_index") if ways else "linear",
        pages_per_entry=draw.one("tlb.l1_pages_per_entry"),
        miss_penalty_cycles=penalty,
    )
    if draw.chance("tlb.l2_2m_missing"):  # then a miss in level 1 is a walk
        l1_2m = spec.TlbTable(entries=huge, miss_penalty_cycles=walk)
        l2_2m = spec.TlbTable(entries=0, miss_penalty_cycles=0.0)
    else:
        l1_2m = spec.TlbTable(entries=huge, miss_penalty_cycles=penalty)
        l2_2m = spec.TlbTable(entries=second, ways=second_ways, miss_penalty_cycles=walk - 5.0)
    return spec.Tlb(
        l1_4k=small,
        l2_4k=spec.TlbTable(
            entries=second,
            ways=second_ways,
            index=draw.one("tlb.l2_index"),
            pages_per_entry=draw.one("tlb.l2_pages_per_entry"),
            miss_penalty_cycles=walk,
        ),
        l1_2m=l1_2m,
        l2_2m=l2_2m,
        walkers=draw.one("tlb.walkers"),
        walk_cache_entries=draw.one("tlb.walk_cache_entries") if draw.chance("tlb.walk_cache") else 0,
        walk_cache_miss_cycles=float(draw.whole("tlb.walk_cache_miss")),
        **_store_tlbs(draw, small, l1_2m),
    )


def _store_tlbs(draw: Draw, small: spec.TlbTable, huge: spec.TlbTable) -> dict[str, Any]:
    """First-level tables of stores, no larger than those of loads, that cost as much to miss."""
    if not draw.chance("tlb.own_for_stores"):
        return {}
    entries = min(small.entries, draw.one("tlb.store_entries")), min(huge.entries, draw.one("tlb.store_2m_entries"))
    return {
        "l1_4k_store": spec.TlbTable(entries=entries[0], miss_penalty_cycles=small.miss_penalty_cycles),
        "l1_2m_store": spec.TlbTable(entries=entries[1], miss_penalty_cycles=huge.miss_penalty_cycles),
    }


def _memory(draw: Draw, pages: str, levels: tuple[spec.Level, ...]) -> spec.Memory:
    latency = float(max(draw.whole("memory.latency"), LEAST_MEMORY * levels[-1].latency_cycles))
    interval = draw.one("memory.interval")
    fillable = interval * max(level.mshr_entries for level in levels[:2]) < 0.5 * latency
    banks = draw.one("memory.banks")
    rows = draw.chance("memory.rows") and banks > 0
    return spec.Memory(
        bytes=1 << 34,
        latency_cycles=latency,
        spread_cycles=round(latency * draw.real("memory.spread_share", 3)),
        interval_cycles=interval if fillable else 0.0,
        banks=banks,
        bank_busy_cycles=draw.real("memory.bank_busy", 0) if banks else 0.0,
        row_bytes=draw.one("memory.row_bytes") if rows else 0,
        row_hit_saves_cycles=float(round(latency * draw.real("memory.row_saves"))) if rows else 0.0,
        frame_run_pages=draw.one("memory.frame_run"),
        page_sizes=(4096,) if pages == "small" else (4096, 2097152),
        huge_pages_splintered=pages == "splintered",
        huge_pages_contiguous=pages != "splintered" or not draw.chance("memory.scattered"),
        page_fault_4k_cycles=draw.real("memory.fault_4k", 0),
        page_fault_2m_cycles=draw.real("memory.fault_2m", 0),
    )


def _software_prefetch(draw: Draw, levels: tuple[spec.Level, ...]) -> spec.SoftwarePrefetch:
    nta: Any = draw.one("hints.nta")
    bypasses = nta == "l1" and levels[1].inclusion != "inclusive" and draw.chance("hints.nta_bypasses_l2")
    hints: dict[Any, spec.Hint] = {
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
    nearest, slowest = levels[-1].latency_cycles, round(0.9 * (memory.latency_cycles - memory.row_hit_saves_cycles))
    distances: tuple[tuple[float, ...], ...] = ()
    if core.cores > 2 and draw.chance("coherence.distances"):
        distances = _distances(draw, core.cores, (slowest - nearest) / 2)
    furthest = max((max(row) for row in distances), default=0.0)
    remote = min(nearest + draw.real("coherence.extra", 0), slowest - furthest)
    return spec.Coherence(
        modified_cycles=remote + draw.one("coherence.modified_extra"),
        exclusive_cycles=remote,
        shared_cycles=remote if draw.chance("coherence.shared") else 0.0,
        invalidate_cycles=draw.real("coherence.invalidate", 0),
        invalidate_per_sharer_cycles=draw.one("coherence.per_sharer"),
        distance_cycles=distances,
    )


def _distances(draw: Draw, cores: int, most: float) -> tuple[tuple[float, ...], ...]:
    """How much further than the nearest cores are, up to `most`: each pair by itself, or by clusters."""
    if draw.chance("coherence.clusters"):
        size = draw.fitting("coherence.cluster_cores", lambda size: size < cores)
        apart = min(float(draw.whole("coherence.cluster_distance")), float(round(most)))
        return tuple(tuple(0.0 if a // size == b // size else apart for b in range(cores)) for a in range(cores))
    return tuple(tuple(min(_distance(draw, a, b), float(round(most))) for b in range(cores)) for a in range(cores))


def _distance(draw: Draw, reader: int, owner: int) -> float:
    return 0.0 if reader == owner else float(draw.whole("coherence.distance"))

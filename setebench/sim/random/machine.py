"""Random machines: plausible memory systems drawn from a seed, to score inference against."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.pmu.faults import other_levels, roles_that_count, shown_faults
from setebench.sim.random.prefetchers import random_prefetchers
from setebench.sim.random.ranges import RANGES, Draw
from setebench.sim.recordings import recording

LEAST_GROWTH = 2  # a level's lines over those of the one above
LEAST_MEMORY = 2.0  # latency of memory over that of the last level
MOST_BUSY = 0.5  # of memory's latency, within which its interval lets all misses begin
SLOWEST_CORE = 0.9  # of memory's latency, within which another core's caches answer
SPLIT, HASHED = RANGES["mshr_split"], RANGES["tlb_hashed"]


def random_machine(seed: int) -> spec.Machine:
    """The machine of `seed`: always the same for the same seed, always valid."""
    draw = Draw(seed)
    kind, line = draw("noise_kind"), draw("line_size")
    core = _core(draw, line)
    levels = _levels(draw, core)
    memory = _memory(draw, levels)
    clock = _clock(draw, kind)
    machine = spec.Machine(
        name=f"random:{seed}",
        description=f"drawn from seed {seed}: {len(levels)} levels, {kind}",
        clock=clock,
        noise=_noise(draw, kind, clock, levels[0], core),
        core=core,
        levels=levels,
        tlb=_tlb(draw),
        memory=memory,
        software_prefetch=_software_prefetch(draw, levels),
        line_size_bytes=line,
        coherence=_coherence(draw, core, levels, memory),
    )
    machine = msgspec.structs.replace(machine, prefetchers=random_prefetchers(draw, machine))
    machine = msgspec.structs.replace(machine, pmu=_pmu(draw, machine))
    ways = draw.fields("way") if draw("way_predicted") else {}  # last: all else of a seed stays as it was without
    return msgspec.structs.replace(machine, levels=(msgspec.structs.replace(levels[0], **ways), *levels[1:]))


def _clock(draw: Draw, kind: str) -> spec.Clock:
    brackets: Any = draw.fields("bracket")
    guest = kind in ("guest", "recorded")
    return spec.Clock(
        **draw.fields("clock"),
        step_ticks=1.0 if draw("clock_fine") else float(round(draw("clock_step"))),
        brackets=brackets | ({"cpuid": draw("bracket_trapped")} if guest else {}),
        drift=draw("clock_drift") if kind == "guest" else 0.0,
        jitter_cycles=0.0 if kind == "quiet" else draw("clock_jitter"),
    )


def _noise(draw: Draw, kind: str, clock: spec.Clock, first: spec.Level, core: spec.Core) -> spec.Noise:
    if kind == "quiet":
        return spec.Noise()
    fields = draw.fields("noise")
    shared, loses = kind == "shared", kind != "normal" and draw("loses")
    if kind == "recorded":  # what a recording lacks is drawn
        fields["recorded"] = draw("recording")
        replayed = recording(fields["recorded"])
        assert replayed is not None
        shared = draw("recorded_shared") or len(replayed.shared) > 0
        loses = loses and not len(replayed.lost)
    if shared:
        fields |= draw.fields("shared")
    # each thread of a core may get a co-runner, and an entry is left at least
    most = (first.mshr_entries - 1) // (core.threads_per_core if first.mshr_shared_by_smt else 1)
    fields["co_runner_entries"] = min(round(first.mshr_entries * draw("co_runner_entries")), most)
    if loses:  # with the time that passes, whatever the core's frequency
        milliseconds = draw("loss_milliseconds")
        cycles = milliseconds / 1e3 * clock.ticks_per_second / clock.ticks_per_cycle
        share = min(draw("loss_per_millisecond") * milliseconds, 1.0)
        fields |= {"loss_interval_cycles": float(round(cycles)), "loss_share": share}
    return spec.Noise(**fields)


def _core(draw: Draw, line: int) -> spec.Core:
    fields = draw.fields("core")
    in_order = draw("in_order")
    threads = fields["threads_per_core"]
    blocking = in_order and draw("blocking")
    fields |= {
        "cores": draw.fitting("core.cores", lambda cores: cores * threads <= draw("most_cpus")),
        "access_sizes": tuple(size for size in fields["access_sizes"] if size <= line),
        "issue_width": draw("in_order_width") if in_order else fields["issue_width"],
    }
    sizes = ("bytes16", "bytes32", "bytes64")
    extra = dict(zip(sizes, sorted(draw("vector_extra") for _ in sizes), strict=True))
    return spec.Core(
        **fields,
        out_of_order=not in_order,
        blocking_load=blocking,
        blocking_store=in_order and draw("blocking"),
        blocking_prefetch=blocking and draw("blocking_prefetch"),
        vector_load_extra=spec.VectorExtra(**extra),
    )


# -- caches ----------------------------------------------------------------------------------------------------------


def _levels(draw: Draw, core: spec.Core) -> tuple[spec.Level, ...]:
    shared = [{"mshr_shared_by_smt": core.threads_per_core == 1 or draw("shared_by_smt")} for _ in range(2)]
    entries = draw("l1.mshr_entries")  # which not all causes may get
    part = max(2, int(entries * draw("mshr_part")))
    demand, software, hardware = (part if draw.value(share) else 0 for share in SPLIT)
    own = {"mshr_entries": entries, "mshr_prefetch_limit": software, "mshr_hardware_limit": hardware, **shared[0]}
    first = _level(draw, "l1", {"mshr_demand_limit": demand if core.out_of_order else 0, **own})
    sets, ways = draw.fitting("l2_shape", lambda shape: shape[0] * shape[1] >= LEAST_GROWTH * first.lines)
    entries = min(int(first.mshr_entries * draw("l2_mshr_factor")), draw("l2_mshr_most"))
    second = _level(draw, "l2", {"sets": sets, "ways": ways, "mshr_entries": entries, **shared[1]})
    levels = [first, second]
    if draw("l3_present"):
        lines = min(second.lines * draw("l3_growth"), draw("l3_most"))
        ways = draw("l3.ways")
        sets = 1 << max(int(lines / ways).bit_length() - 1, (LEAST_GROWTH * second.lines // ways).bit_length())
        levels.append(_level(draw, "l3", {"sets": sets, "ways": ways}))
    if draw("odd_sets"):
        last, above = levels[-1], levels[-2]
        sets = int(last.sets * draw("odd_part"))
        if sets * last.ways > above.lines:
            levels[-1] = msgspec.structs.replace(last, sets=sets)
    return tuple(levels)


def _level(draw: Draw, name: str, own: dict[str, Any]) -> spec.Level:
    fields = {**draw.fields(name), "fill_interval_cycles": draw("fill_interval"), **own}
    policy = draw("rare_policies") if draw("rare_policy") else fields["replacement"]
    if policy == "tree_plru" and fields["ways"] & (fields["ways"] - 1):
        policy = "lru"  # a tree with fewer leaves than places is no one's known design
    fields |= {"replacement": "qlru", "qlru": policy} if policy.startswith("H") else {"replacement": policy}
    return spec.Level(**{**fields, "latency_cycles": float(fields["latency_cycles"])})


# -- memory ----------------------------------------------------------------------------------------------------------


def _tlb(draw: Draw) -> spec.Tlb:
    penalty = float(draw("tlb_penalty"))
    walk = penalty + draw("tlb_walk_extra")
    first, ways = draw("tlb_l1")
    second, second_ways = draw.fitting("tlb_l2", lambda shape: shape[0] > first)
    near, far = ("hashed" if draw.value(share) else "linear" for share in HASHED)
    small: dict[str, Any] = {"entries": first, "ways": ways, "index": near if ways else "linear"}
    large: dict[str, Any] = {"entries": second, "ways": second_ways, "index": far, "miss_penalty_cycles": walk}
    missing = draw("tlb_l2_2m_missing")  # then a miss in level 1 is a walk
    return spec.Tlb(
        l1_4k=spec.TlbTable(**small, miss_penalty_cycles=penalty),
        l2_4k=spec.TlbTable(**large),
        l1_2m=spec.TlbTable(entries=draw("tlb_l1_2m"), miss_penalty_cycles=walk if missing else penalty),
        l2_2m=spec.TlbTable(entries=0) if missing else spec.TlbTable(**large),
        walkers=draw("tlb_walkers"),
    )


def _memory(draw: Draw, levels: tuple[spec.Level, ...]) -> spec.Memory:
    pages = draw("memory_pages")
    latency = float(max(draw("memory_latency"), LEAST_MEMORY * levels[-1].latency_cycles))
    interval, entries = draw("memory_interval"), max(level.mshr_entries for level in levels[:2])
    return spec.Memory(
        **draw.fields("memory"),
        latency_cycles=latency,
        interval_cycles=interval if interval * entries < MOST_BUSY * latency else 0.0,
        spread_cycles=float(round(latency * draw("memory_spread"))),
        page_sizes=(4096,) if pages == "small" else (4096, 2097152),
        huge_pages_splintered=pages == "splintered",
    )


def _software_prefetch(draw: Draw, levels: tuple[spec.Level, ...]) -> spec.SoftwarePrefetch:
    lowest = f"l{len(levels)}"
    hints: dict[Any, spec.Hint] = {
        name: spec.Hint(fills="l2" if level == "l3" != lowest else level, exclusive=name == "w")
        for name, level in draw.fields("hints").items()
        if level
    }
    rules = draw.fields("software")
    rules["on_l2_tlb_miss"] = rules["on_l1_tlb_miss"] and rules["on_l2_tlb_miss"]
    return spec.SoftwarePrefetch(hints=hints, **rules)


def _coherence(draw: Draw, core: spec.Core, levels: tuple[spec.Level, ...], memory: spec.Memory) -> spec.Coherence:
    """Another core's caches answer later than the slowest own one and before memory."""
    nearest, slowest = levels[-1].latency_cycles, float(round(SLOWEST_CORE * memory.latency_cycles))
    size, furthest = draw("coherence_clusters"), 0.0
    if core.cores > 2 and draw("coherence_distances"):
        furthest = min(float(draw("coherence_distance")), float(round((slowest - nearest) / 2)))
    remote = min(nearest + draw("coherence_extra"), slowest - furthest)
    cores = range(core.cores)
    table = tuple(tuple(0.0 if a // size == b // size else furthest for b in cores) for a in cores)
    return spec.Coherence(
        **draw.fields("coherence"),
        modified_cycles=remote + draw("coherence_modified"),
        exclusive_cycles=remote,
        shared_cycles=remote if draw("coherence_shared") else 0.0,
        distance_cycles=table if furthest else (),
    )


def _pmu(draw: Draw, machine: spec.Machine) -> spec.Pmu:
    """Each event has a fault that shows, or none."""
    scaled = "pmu_slightly_scaled" if draw("pmu_slight") else "pmu.scaled"
    events: dict[str, tuple[spec.Fault, ...]] = dict.fromkeys(roles_that_count(machine), ())
    for role in (each for each in events if draw("pmu_faulty")):
        kind: Any = draw.value(shown_faults(machine, role))
        instead: str = draw.value(other_levels(machine, role)) if kind == "other_level" else ""
        amount = scaled if kind == "scaled" else f"pmu.{kind}"
        events[role] = (spec.Fault(kind=kind, amount=draw(amount) if amount in RANGES else 0.0, role=instead),)
    return spec.Pmu(registers=draw("pmu_registers"), events=events)

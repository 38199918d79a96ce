"""Random machines: plausible memory systems drawn from a seed, to score inference against."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.pmu import random_pmu
from setebench.sim.random.prefetchers import random_prefetchers
from setebench.sim.random.ranges import RANGES, Draw

LEAST_GROWTH = 2  # a level's lines over those of the one above
LEAST_MEMORY = 2.0  # latency of memory over that of the last level
SLOWEST_CORE = 0.9  # of memory's latency, within which another core's caches answer
MOST_BUSY = 0.5  # of memory's latency, within which its interval lets all misses begin
LEAST_HIDDEN = 8  # entries of a miss queue that something may hide: a shorter load queue than that no core has
SPLIT, HASHED = RANGES["mshr_split"], RANGES["tlb_hashed"]
GUESTS = ("guest", "stolen")
CYCLES_OF_LOSS = 1e-6, 1e-3  # seconds in a microsecond and in a millisecond


def random_machine(seed: int) -> spec.Machine:
    """The machine of `seed`: always the same for the same seed, always valid."""
    draw = Draw(seed)
    kind, line, pages = draw("noise_kind"), draw("line_size"), draw("memory_pages")
    core = _core(draw, line)
    levels = _levels(draw, core)
    memory = _memory(draw, pages, levels)
    core, memory = _hiding(draw, core, levels[0], memory)
    clock, order = _clock(draw, kind), "out-of-order" if core.out_of_order else "in-order"
    machine = spec.Machine(
        name=f"random:{seed}",
        description=f"drawn from seed {seed}: {order}, {len(levels)} levels, {kind}",
        clock=clock,
        noise=_noise(draw, kind, levels[0], core),
        core=core,
        levels=levels,
        tlb=_tlb(draw),
        memory=memory,
        remote_memory=_remote(draw, memory) if draw("remote") else None,
        software_prefetch=_software_prefetch(draw, levels),
        line_size_bytes=line,
        coherence=_coherence(draw, core, levels, memory),
    )
    if kind != "quiet" and draw("recorded"):  # of all that a recording holds nothing twice
        noise = msgspec.structs.replace(
            machine.noise, recorded="emerald-rapids-guest", stall_interval_cycles=0.0, steal_interval_cycles=0.0
        )
        clock = msgspec.structs.replace(clock, drift=0.0, jump=0.0)
        machine = msgspec.structs.replace(machine, noise=noise, clock=clock)
    if kind not in ("quiet", "normal") and draw("loses"):
        machine = msgspec.structs.replace(machine, noise=_losing(draw, machine))
    machine = msgspec.structs.replace(machine, prefetchers=random_prefetchers(draw, machine))
    return msgspec.structs.replace(machine, pmu=random_pmu(draw, machine))


def _clock(draw: Draw, kind: str) -> spec.Clock:
    brackets: Any = draw.fields("bracket")
    if kind in GUESTS:
        brackets["cpuid"] = draw("bracket_trapped")
    return spec.Clock(
        **draw.fields("clock"),
        step_ticks=1.0 if draw("clock_fine") else float(round(draw("clock_step"))),
        brackets=brackets,
        drift=draw("clock_drift") if kind in GUESTS else 0.0,
        jump=draw("clock_jump") if kind != "quiet" and draw("clock_jumps") else 0.0,
        jitter_cycles=0.0 if kind == "quiet" else draw("clock_jitter"),
    )


def _noise(draw: Draw, kind: str, first: spec.Level, core: spec.Core) -> spec.Noise:
    if kind == "quiet":
        return spec.Noise()
    fields = draw.fields("noise")
    if kind != "normal":
        fields["stall_interval_cycles"] = draw("stall_interval")
    if kind in ("shared", "stolen"):
        fields |= draw.fields(kind)
    if kind == "shared":  # each thread of a core may get a co-runner, and an entry is left at least
        threads = core.threads_per_core if first.mshr_shared_by_smt else 1
        most = (first.mshr_entries - 1) // threads
        fields["co_runner_entries"] = min(round(first.mshr_entries * draw("co_runner_entries")), most)
    return spec.Noise(**fields)


def _losing(draw: Draw, machine: spec.Machine) -> spec.Noise:
    """Lines are lost with the time that passes, whatever the core's frequency."""
    micro, milli = CYCLES_OF_LOSS
    seconds = draw("loss_microseconds") * micro
    interval = seconds * machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
    share = min(draw("loss_per_millisecond") * seconds / milli, 1.0)
    return msgspec.structs.replace(machine.noise, loss_interval_cycles=float(round(interval)), loss_share=share)


def _core(draw: Draw, line: int) -> spec.Core:
    fields = draw.fields("core")
    in_order = draw("in_order")
    threads = fields["threads_per_core"]
    blocking = in_order and draw("blocking")
    fields |= {
        "cores": draw.fitting("core.cores", lambda cores: cores * threads <= draw("most_cpus")),
        "access_sizes": tuple(size for size in fields["access_sizes"] if size <= line),
        "issue_width": draw("in_order_width") if in_order else fields["issue_width"],
        "smt_extra_cycles": draw("smt_extra") if threads > 1 else 0.0,
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


def _hiding(draw: Draw, core: spec.Core, first: spec.Level, memory: spec.Memory) -> tuple[spec.Core, spec.Memory]:
    """Some load queues are shorter than level 1's miss queue, and some memories too slow for it to fill."""
    entries = first.mshr_entries
    if not draw("hides") or entries < LEAST_HIDDEN or not core.out_of_order:
        return core, memory
    if draw("hides_by_load_queue"):
        return msgspec.structs.replace(core, load_queue=int(entries * draw("hiding_load_queue"))), memory
    interval = round(memory.latency_cycles / entries * draw("hiding_interval"), 1)
    return core, msgspec.structs.replace(memory, interval_cycles=interval)


# -- caches ----------------------------------------------------------------------------------------------------------


def _levels(draw: Draw, core: spec.Core) -> tuple[spec.Level, ...]:
    first = _level(draw, "l1", _of_first(draw, core))
    least = LEAST_GROWTH * first.lines
    sets, ways = draw.fitting("l2_shape", lambda shape: shape[0] * shape[1] >= least)
    entries = min(int(first.mshr_entries * draw("l2_mshr_factor")), draw("l2_mshr_most"))
    second = _level(draw, "l2", {"sets": sets, "ways": ways, "mshr_entries": entries, **_shared(draw, core)})
    levels = [first, second]
    if draw("l3_present"):
        lines = min(second.lines * draw("l3_growth"), draw("l3_most"))
        ways = draw("l3.ways")
        sets = 1 << max(int(lines / ways).bit_length() - 1, (LEAST_GROWTH * second.lines // ways).bit_length())
        levels.append(_level(draw, "l3", {"sets": sets, "ways": ways}))
    return _odd(draw, levels)


def _of_first(draw: Draw, core: spec.Core) -> dict[str, Any]:
    """Fields of level 1: which causes don't get all miss entries, and how ways are predicted."""
    entries = draw("l1.mshr_entries")
    part = max(2, int(entries * draw("mshr_part")))
    demand, software, hardware = (part if draw.value(share) else 0 for share in SPLIT)
    return {
        "mshr_entries": entries,
        "mshr_demand_limit": demand if core.out_of_order else 0,
        "mshr_prefetch_limit": software,
        "mshr_hardware_limit": hardware,
        **_shared(draw, core),
        **(draw.fields("way") if draw("way_predicted") else {}),
    }


def _shared(draw: Draw, core: spec.Core) -> dict[str, bool]:
    return {"mshr_shared_by_smt": core.threads_per_core == 1 or draw("shared_by_smt")}


def _level(draw: Draw, name: str, own: dict[str, Any]) -> spec.Level:
    fields = {**draw.fields(name), "fill_interval_cycles": draw("fill_interval"), **own}
    if fields["replacement"] == "tree_plru" and fields["ways"] & (fields["ways"] - 1):
        fields["replacement"] = "lru"  # a tree with fewer leaves than places is no one's known design
    fields["latency_cycles"] = float(fields["latency_cycles"])
    return spec.Level(**{**fields, **_policy(fields["replacement"])})


def _policy(name: str) -> dict[str, str]:
    return {"replacement": "qlru", "qlru": name} if name.startswith("H") else {"replacement": name, "qlru": ""}


def _odd(draw: Draw, levels: list[spec.Level]) -> tuple[spec.Level, ...]:
    """Some level of some machines replaces by what is no usual policy, some have fewer sets than a power of two."""
    if draw("rare_policy"):
        number = int(draw.rng.integers(len(levels)))
        levels[number] = msgspec.structs.replace(levels[number], **_policy(draw("rare_policies")))
    if draw("odd_sets"):
        number = int(draw.rng.integers(1, len(levels)))
        sets = int(levels[number].sets * draw("odd_part"))
        if sets * levels[number].ways > levels[number - 1].lines:
            levels[number] = msgspec.structs.replace(levels[number], sets=sets)
    return tuple(levels)


# -- memory ----------------------------------------------------------------------------------------------------------


def _tlb(draw: Draw) -> spec.Tlb:
    penalty = float(draw("tlb_penalty"))
    walk = penalty + draw("tlb_walk_extra")
    first, ways = draw("tlb_l1")
    second, second_ways = draw.fitting("tlb_l2", lambda shape: shape[0] > first)
    huge = draw("tlb_l1_2m")
    near, far = ("hashed" if draw.value(share) else "linear" for share in HASHED)
    small: dict[str, Any] = {"entries": first, "ways": ways, "index": near if ways else "linear"}
    large: dict[str, Any] = {"entries": second, "ways": second_ways, "index": far}
    missing = draw("tlb_l2_2m_missing")  # then a miss in level 1 is a walk
    return spec.Tlb(
        l1_4k=spec.TlbTable(**small, miss_penalty_cycles=penalty),
        l2_4k=spec.TlbTable(**large, miss_penalty_cycles=walk),
        l1_2m=spec.TlbTable(entries=huge, miss_penalty_cycles=walk if missing else penalty),
        l2_2m=spec.TlbTable(entries=0) if missing else spec.TlbTable(**large, miss_penalty_cycles=walk),
        walkers=draw("tlb_walkers"),
    )


def _memory(draw: Draw, pages: str, levels: tuple[spec.Level, ...]) -> spec.Memory:
    latency = float(max(draw("memory_latency"), LEAST_MEMORY * levels[-1].latency_cycles))
    interval = draw("memory_interval")
    fillable = interval * max(level.mshr_entries for level in levels[:2]) < MOST_BUSY * latency
    return spec.Memory(
        **draw.fields("memory"),
        latency_cycles=latency,
        spread_cycles=float(round(latency * draw("memory_spread"))),
        interval_cycles=interval if fillable else 0.0,
        page_sizes=(4096,) if pages == "small" else (4096, 2097152),
        huge_pages_splintered=pages == "splintered",
        huge_pages_contiguous=pages != "splintered" or not draw("memory_scattered"),
    )


def _remote(draw: Draw, near: spec.Memory) -> spec.RemoteMemory:
    further, interval = draw("remote_further"), draw("remote_interval")
    return spec.RemoteMemory(
        further_cycles=float(round(near.latency_cycles * further)),
        link_interval_cycles=round(near.interval_cycles * interval, 2),
    )


def _software_prefetch(draw: Draw, levels: tuple[spec.Level, ...]) -> spec.SoftwarePrefetch:
    fills = {name: level for name, level in draw.fields("hints").items() if level}
    lowest = f"l{len(levels)}"
    hints: dict[Any, spec.Hint] = {
        name: spec.Hint(fills="l2" if level == "l3" != lowest else level, exclusive=name == "w")
        for name, level in fills.items()
    }
    if fills["nta"] == "l1" and levels[1].inclusion != "inclusive" and draw("nta_bypasses_l2"):
        hints["nta"] = spec.Hint(fills="l1", bypasses_l2=True)
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

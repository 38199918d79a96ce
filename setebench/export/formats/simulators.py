"""Simulators: ChampSim, gem5 and Sniper. They add up their levels, so each level gets what its measured load-to-use
latency has more than what comes before it, rounded, at least 1; parts that nobody can measure apart (tags, response,
fill) are assumed to be one cycle. A prefetcher becomes the simulator's nearest in kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from setebench.export.source import Source
from setebench.export.values import Format, Known, Open, Row, Sheet, assumed, derived, reworded, with_assumption
from setebench.text import GIGA, KIBI, MEGA

PART = 1
NO_PART = assumed(PART, "cycles", "no finding divides a latency")
POWERS = tuple(1 << power for power in range(24))


def _less(source: Source, level: int, cycles: int) -> Known:
    """A cache's latency less what a simulator adds before it."""
    how = f"less {cycles} cycles of parts before it" if cycles else ""
    return derived(lambda own: max(own - cycles, 1), "cycles", (source.get(f"latency.l{level}"),), how)


# -- ChampSim ---------------------------------------------------------------------------------------------------------

CHAMPSIM = ("L1D", "L2C", "LLC")
CHAMPSIM_POLICIES = {"lru": "lru", "random": "random", "srrip": "srrip"}
CHAMPSIM_PREFETCHERS = {"stride": "ip_stride", "stream": "va_ampm_lite", "next_line": "next_line", "pair": "next_line"}


def champsim_rows(source: Source) -> Iterator[Row]:
    """champsim_config.json, with the members that a result settles. Latencies are in core cycles: a hit at level 2
    costs level 1's `hit_latency`, its own, and the `fill_latency` of level 1. ChampSim would round sets up to a power
    of two, and make another cache of a sliced one. `mshr_size` are misses of loads in flight, `pq_size` software
    prefetches; `frequency` is in MHz. Names: config/parse.py, config/instantiation_file.py, inc/cache_builder.h."""
    yield "block_size", source.line(1)
    yield "num_cores", assumed(len(source.cores), "cores", "as the system shows")
    yield "ooo_cpu.frequency", derived(lambda hertz: hertz / MEGA, "MHz", (source.hertz(),))
    for level, name in enumerate(CHAMPSIM, 1):
        if level not in source.levels:
            yield name, Open(f"cache.l{level}", "the result shows no such level; ChampSim's default stays")
            continue
        _, sets, ways = source.geometry(level)
        yield from ((f"{name}.sets", sets), (f"{name}.ways", ways))
        yield f"{name}.replacement", source.replacement(level, CHAMPSIM_POLICIES)
        levels = [source.get(f"latency.l{each}") for each in ((level,) if level == 1 else (level, level - 1))]
        how = f"less the level before and its fill latency of {PART}" if level > 1 else ""
        added = derived(lambda own, before=-PART: max(own - before - PART, 1), "cycles", levels, how)
        yield f"{name}.hit_latency", added
        yield f"{name}.fill_latency", NO_PART
        if level < 3:
            yield f"{name}.mshr_size", source.count(f"mshr.l{level}.demand")
            yield f"{name}.pq_size", source.count(f"mshr.l{level}.prefetch")
            yield f"{name}.prefetcher", source.nearest(level, CHAMPSIM_PREFETCHERS)
    for level, name in ((1, "DTLB"), (2, "STLB")):
        entries, ways = source.tlb(level)
        yield f"{name}.sets", derived(lambda count, each: count // each, "sets", (entries, ways), "", int)
        yield f"{name}.ways", ways
    penalty = source.get("tlb.l1.miss_penalty.4k")
    yield "STLB.hit_latency", derived(lambda cycles: max(cycles, 1), "cycles", (penalty,))
    yield "DTLB.hit_latency", assumed(1, "cycles", "latencies are measured with a TLB hit, so it is in them")


def champsim(source: Source, sheet: Sheet) -> Iterator[str]:
    """JSON has no comments: the member `setebench`, which ChampSim does not read, holds origin, interval and method."""
    config = sheet.nested()
    if "ooo_cpu" in config:
        config["ooo_cpu"] = [config["ooo_cpu"]]
    config["setebench"] = sheet.provenance(source.heading("", "ChampSim configuration, with what was measured"))
    yield json.dumps(config, indent=2)


# -- gem5 -------------------------------------------------------------------------------------------------------------

GEM5 = ("SetebenchL1D(Cache)", "SetebenchL2(Cache)", "SetebenchL3(Cache)", "SetebenchL4(Cache)")
GEM5_POLICIES = {
    "lru": "LRURP()",
    "tree_plru": "TreePLRURP()",
    "bit_plru": "NRURP()",
    "random": "RandomRP()",
    "srrip": "RRIPRP()",
}
TAGGED = "TaggedPrefetcher(degree=1)"
GEM5_PREFETCHERS = {"stride": "StridePrefetcher()", "next_line": TAGGED, "pair": TAGGED}
TARGETS = assumed(20, "targets", "as gem5's example caches")  # configs/common/Caches.py


def gem5_rows(source: Source) -> Iterator[Row]:
    """A Python class for each classic cache, and TLB sizes. Latencies are in cycles of the cache's clock, the core's. A
    hit costs the larger of `tag_latency` and `data_latency`; a miss its level's `tag_latency`, all that is below, and
    `response_latency`; crossbars' own latencies are to be taken off by whoever puts them in. gem5 takes powers of two
    alone: of sets, of ways of a tree of pseudo-LRU. Prefetchers have gem5's own numbers. Names: src/mem/cache/Cache.py,
    prefetch/Prefetcher.py, arch/x86/X86TLB.py."""
    for level in source.levels:
        name = GEM5[level - 1]
        size, _, ways = source.geometry(level)
        yield from ((f"{name} size", reworded(size, lambda bytes: f"'{bytes}B'")), (f"{name} assoc", ways))
        yield f"{name} replacement_policy", source.replacement(level, GEM5_POLICIES, POWERS)
        yield f"{name} tag_latency", NO_PART
        yield f"{name} data_latency", _less(source, level, 2 * PART * (level - 1))
        yield f"{name} response_latency", NO_PART
        yield f"{name} mshrs", source.count(f"mshr.l{level}.demand")
        yield f"{name} tgts_per_mshr", TARGETS
        if level == 2:  # gem5 decides whether misses fill a cache by whether they leave it to what was evicted above
            exclusive = source.get("cache.l2.exclusive_of_l1", bool)
            yield f"{name} clusivity", reworded(exclusive, lambda yes: "'mostly_excl'" if yes else "'mostly_incl'")
        if level < 3:
            yield f"{name} prefetcher", source.nearest(level, GEM5_PREFETCHERS)
    yield "SetebenchTLB(X86TLB) size", source.count("tlb.l1.entries.4k")


def gem5(_source: Source, sheet: Sheet) -> Iterator[str]:
    yield "from m5.objects import *"
    for name, part in sheet.parts().items():
        yield from ("", "", f"class {name}:")
        yield from (f"    {line}" for line in (*part.lines("#", "{key} = {value}"), "pass"))


# -- Sniper -----------------------------------------------------------------------------------------------------------

SNIPER = ("l1_dcache", "l2_cache", "l3_cache", "l4_cache")
SNIPER_POLICIES = {"lru": "lru", "tree_plru": "plru", "bit_plru": "nru", "random": "random", "srrip": "srrip"}
SNIPER_TREES = (4, 8)  # ways that it has a tree of pseudo-LRU for
SNIPER_PREFETCHERS = {"stream": "simple", "stride": "simple"}
ONE_CONTROLLER = "one controller is assumed to stand for all"


def sniper_rows(source: Source) -> Iterator[Row]:
    """Sections of a configuration file. `cache_size` in KB of 1024 bytes; `address_hash` is `mod` where sets are no
    power of two; times in core cycles: a hit costs its `data_access_time` and the `tags_access_time` of each level
    before. `outstanding_misses` is read for the first data cache only. Memory's `latency` is in nanoseconds, of the
    whole way less the last cache's hit; bandwidth in GB/s (10^9 bytes). TLB `penalty` is in cycles of a walk. The
    prefetcher has Sniper's own numbers. Names: config/base.cfg, nehalem.cfg, prefetcher.cfg."""
    yield "core frequency", derived(lambda hertz: hertz / GIGA, "GHz", (source.hertz(),), "", _three_digits)
    yield "core logical_cpus", assumed(max(map(len, source.cores)), "threads", "as the system shows")
    yield "cache levels", assumed(len(source.levels), "levels", "levels that the result has findings of")
    for level in source.levels:
        name, (groups, why) = SNIPER[level - 1], source.sharing(level)
        size, sets, ways = source.geometry(level, power_of_two=False)
        yield f"{name} cache_block_size", source.line(level)
        yield f"{name} cache_size", derived(lambda bytes: bytes / KIBI, "KiB", (size,), "in KiB", int)
        yield f"{name} associativity", ways
        yield f"{name} address_hash", reworded(sets, lambda count: "mask" if int(count).bit_count() == 1 else "mod")
        yield f"{name} replacement_policy", source.replacement(level, SNIPER_POLICIES, SNIPER_TREES)
        yield f"{name} shared_cores", assumed(max(map(len, groups)), "cores", why)
        yield f"{name} data_access_time", _less(source, level, PART * (level - 1))
        yield f"{name} tags_access_time", NO_PART
    yield f"{SNIPER[0]} outstanding_misses", source.count("mshr.l1.demand")
    yield f"{SNIPER[1]} prefetcher", source.nearest(2, SNIPER_PREFETCHERS)
    for level, name in ((1, "dtlb"), (2, "stlb")):
        entries, ways = source.tlb(level)
        yield f"{name} size", entries
        yield f"{name} associativity", ways
    yield "tlb penalty", derived(float, "cycles", (source.get("tlb.l2.miss_penalty.4k"),))
    last = source.nanoseconds(source.places[-2]) if source.levels else Open("latency.l1", "no level was found")
    inputs = (source.nanoseconds("memory"), last)
    yield "dram latency", derived(lambda all, cache: all - cache, "ns", inputs, "less a hit in the last cache")
    peak = source.first("loaded_latency.peak_bandwidth", "loaded_latency.reached_bandwidth")
    one = derived(float, "GB/s", (peak,), "", _three_digits)
    yield "dram per_controller_bandwidth", with_assumption(one, ONE_CONTROLLER)
    if not isinstance(one, Open):
        yield "dram num_controllers", assumed(1, "controllers", ONE_CONTROLLER)


def _three_digits(value: float) -> float:
    return round(value, 3)


def sniper(_source: Source, sheet: Sheet) -> Iterator[str]:
    for name, part in sheet.parts().items():
        yield from ("", f"[perf_model/{name}]", *part.lines("#", "{key} = {value}"))


FORMATS = (
    Format("champsim", "ChampSim: champsim_config.json", champsim_rows, champsim),
    Format("gem5", "gem5: Python classes of classic caches and the TLB", gem5_rows, gem5, "#"),
    Format("sniper", "Sniper: [perf_model/...] sections", sniper_rows, sniper, "#"),
)

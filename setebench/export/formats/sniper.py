"""Sniper: sections of a configuration file.

`cache_size` in KB of 1024 bytes, as ways and line must make it; `associativity` in ways; `address_hash` is `mod`
where sets are no power of two; `shared_cores` in cores; times in core cycles, rounded to the nearest. A level's hit
costs its `data_access_time` and, for each level before it, that one's `tags_access_time`, which is assumed to be 1;
so they are taken off. `outstanding_misses` is in entries and read for the first data cache only. Memory's `latency`
is in nanoseconds, of the whole way less the last cache's hit; `per_controller_bandwidth` in GB/s (10^9 bytes), of one
controller that is assumed to stand for all. TLB `size` in entries, `penalty` in cycles of a walk. The prefetcher of
kind `simple` has `flows` and `num_prefetches`; what it is nearest to is said. Names: Sniper, config/base.cfg,
nehalem.cfg, prefetcher.cfg, simple_prefetcher.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.export.format import Format, Sheet
from setebench.export.source import GIGA, KIB, Source, same
from setebench.export.values import Open, Row, assumed, derived, reworded, with_assumption

TAGS = 1
POLICIES = {"lru": "lru", "tree_plru": "plru", "bit_plru": "nru", "random": "random", "srrip": "srrip"}
ONE_CONTROLLER = "one controller is assumed to stand for all"
SECTIONS = {1: "l1_dcache", 2: "l2_cache", 3: "l3_cache", 4: "l4_cache"}
PLRU_WAYS = (4, 8)  # what Sniper has a tree of pseudo-LRU for
FOLLOWED = ("stream", "stride")  # kinds that its prefetcher `simple` is near to


def rows(source: Source) -> Iterator[Row]:
    yield "core frequency", derived(lambda hertz: hertz / GIGA, "GHz", (source.hertz(),), "", _three_digits)
    yield "core logical_cpus", assumed(max(map(len, source.cores)), "threads", "as the system shows")
    yield "cache levels", assumed(len(source.levels), "levels", "levels that the result has findings of")
    for level in source.levels:
        yield from ((f"{SECTIONS[level]} {key}", known) for key, known in _cache(source, level))
    kind = next((kind for kind in FOLLOWED if source.present(f"prefetcher.l2.{kind}")), None)
    if kind is not None:
        simple, found = f"{SECTIONS[2]}/prefetcher/simple", f"prefetcher.l2.{kind}"
        yield f"{simple} flows", source.count(f"{found}.streams")
        yield f"{simple} num_prefetches", source.count(f"{found}.degree")
        crosses = source.flag(f"{found}.crosses_4k")
        yield f"{simple} stop_at_page_boundary", reworded(crosses, lambda yes: "false" if yes else "true")
    for level, name in ((1, "dtlb"), (2, "stlb")):
        entries, ways = source.tlb(level)
        yield f"{name} size", entries
        yield f"{name} associativity", ways
    yield "tlb penalty", derived(same, "cycles", (source.get("tlb.l2.miss_penalty.4k"),))
    yield from _memory(source)


def _cache(source: Source, level: int) -> Iterator[Row]:
    yield "cache_block_size", source.line(level)
    yield "cache_size", source.buildable(level, source.size(level, KIB, "KiB"), power_of_two=False)
    yield "associativity", source.buildable(level, source.ways(level), power_of_two=False)
    sets = source.buildable(level, source.sets(level), power_of_two=False)
    yield "address_hash", reworded(sets, lambda number: "mask" if int(number).bit_count() == 1 else "mod")
    yield "replacement_policy", source.replacement(level, POLICIES, PLRU_WAYS)
    yield "shared_cores", source.sharers(level)
    less = (level - 1) * TAGS
    yield "data_access_time", source.less(level, less, f"less {less} cycles of tags before it")
    yield "tags_access_time", assumed(TAGS, "cycles", "no finding divides a latency")
    if level == 1:
        yield "outstanding_misses", source.count("mshr.l1.demand")
    if level == 2:
        yield "prefetcher", source.nearest(2, [(kind, "simple") for kind in FOLLOWED])


def _memory(source: Source) -> Iterator[Row]:
    last = source.nanoseconds(f"l{source.levels[-1]}") if source.levels else Open("latency.l1", "no level was found")
    inputs = (source.nanoseconds("memory"), last)
    yield "dram latency", derived(lambda all, cache: all - cache, "ns", inputs, "less a hit in the last cache")
    peak = source.first("loaded_latency.peak_bandwidth", "loaded_latency.reached_bandwidth")
    one = derived(same, "GB/s", (peak,), "", _three_digits)
    yield "dram per_controller_bandwidth", with_assumption(one, ONE_CONTROLLER)
    if not isinstance(one, Open):
        yield "dram num_controllers", assumed(1, "controllers", ONE_CONTROLLER)


def _three_digits(value: float) -> float:
    return round(value, 3)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    yield from source.heading("#", "Sniper: caches, TLBs and memory, with what was measured")
    for name, part in sheet.parts().items():
        yield from ("", f"[perf_model/{name}]", *part.lines("#", "{key} = {value}"), *part.missing("#"))


FORMAT = Format("sniper", "Sniper: [perf_model/...] sections", rows, lines)

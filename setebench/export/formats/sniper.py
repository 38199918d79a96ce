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

from dataclasses import replace

from setebench.export.format import Format
from setebench.export.prefetchers import not_expressed, parameter, present
from setebench.export.source import Source, assumed_ways
from setebench.export.values import Known, Open, Sheet, Value, assumed, derived, with_assumption

KIB = 1024
TAGS = 1
GIGA = 1e9
POLICIES = {"lru": "lru", "tree_plru": "plru", "bit_plru": "nru", "random": "random", "srrip": "srrip"}
ONE_CONTROLLER = "one controller is assumed to stand for all"
SECTIONS = {1: "l1_dcache", 2: "l2_cache", 3: "l3_cache", 4: "l4_cache"}
PLRU_WAYS = (4, 8)
"""What Sniper has a tree of pseudo-LRU for."""


def write(source: Source) -> str:
    """The sections, each value below its comment."""
    sections = {"perf_model/core": _core(source), "perf_model/cache": _levels(source)}
    for level in source.levels:
        sections[f"perf_model/{SECTIONS[level]}"] = _cache(source, level)
    sections |= _prefetcher(source)
    sections |= _tlbs(source)
    sections["perf_model/dram"] = _memory(source)
    lines = source.heading("#", "Sniper: caches, TLBs and memory, with what was measured")
    for name, sheet in sections.items():
        lines += ["", f"[{name}]"]
        for entry in sheet.entries:
            lines += [f"# {entry.value.comment}", f"{entry.key} = {_literal(entry.value)}"]
        lines += sheet.missing("#")
    return "\n".join(lines) + "\n"


def _literal(value: Value) -> str:
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)


def _core(source: Source) -> Sheet:
    sheet = Sheet()
    sheet.put("frequency", derived(lambda hertz: hertz / GIGA, "GHz", (source.hertz(),), "", _three_digits))
    threads = max(len(group) for group in source.cores)
    sheet.put("logical_cpus", assumed(threads, "threads", "as the system shows"))
    return sheet


def _three_digits(value: float) -> float:
    return round(value, 3)


def _levels(source: Source) -> Sheet:
    sheet = Sheet()
    sheet.put("levels", assumed(len(source.levels), "levels", "levels that the result has findings of"))
    return sheet


def _cache(source: Source, level: int) -> Sheet:
    sheet = Sheet()
    sheet.put("cache_block_size", source.line(level))
    sheet.put("cache_size", source.buildable(level, source.size(level, KIB, "KiB"), power_of_two=False))
    sheet.put("associativity", source.buildable(level, source.ways(level), power_of_two=False))
    sheet.put("address_hash", _hash(source.buildable(level, source.sets(level), power_of_two=False)))
    sheet.put("replacement_policy", source.replacement(level, POLICIES, PLRU_WAYS))
    groups, why = source.sharing(level)
    sheet.put("shared_cores", assumed(max(map(len, groups)), "cores", why))
    less = (level - 1) * TAGS
    how = f"less {less} cycles of tags before it" if less else ""
    own = derived(lambda cycles: max(cycles - less, 1), "cycles", (source.latency(f"l{level}"),), how)
    sheet.put("data_access_time", own)
    sheet.put("tags_access_time", assumed(TAGS, "cycles", "no finding divides a latency"))
    if level == 1:
        sheet.put("outstanding_misses", source.count("mshr.l1.demand"))
    if level == 2:
        sheet.put("prefetcher", _prefetcher_kind(source))
    return sheet


def _hash(sets: Known) -> Known:
    if isinstance(sets, Open):
        return sets
    return replace(sets, value="mask" if int(sets.value).bit_count() == 1 else "mod", unit="", low=None, high=None)


def _followed(source: Source) -> str | None:
    """The second cache's prefetcher that Sniper's `simple` is nearest to: its first-level caches have none."""
    there = present(source, 2)
    return next((name for name in ("stream", "stride") if name in there), None)


def _prefetcher_kind(source: Source) -> Known:
    followed = _followed(source)
    if followed is None:
        return Open("prefetcher.l2", "no stream or stride was found there, and Sniper has no other kind")
    why = f"nearest in kind to l2.{followed}{not_expressed(present(source, 2), followed)}"
    return assumed("simple", "", why)


def _prefetcher(source: Source) -> dict[str, Sheet]:
    followed = _followed(source)
    if followed is None:
        return {}
    own = Sheet()
    own.put("flows", parameter(source, 2, followed, "streams"))
    own.put("num_prefetches", parameter(source, 2, followed, "degree"))
    own.put("stop_at_page_boundary", _stops(source.flag(f"prefetcher.l2.{followed}.crosses_4k")))
    return {f"perf_model/{SECTIONS[2]}/prefetcher/simple": own}


def _stops(crosses: Known) -> Known:
    if isinstance(crosses, Open):
        return crosses
    return Value(not crosses.value, "", crosses.origin, crosses.why, parameters=crosses.parameters)


def _tlbs(source: Source) -> dict[str, Sheet]:
    sections = {}
    for name, level in (("dtlb", 1), ("stlb", 2)):
        sheet = Sheet()
        entries = source.count(f"tlb.l{level}.entries.4k")
        sheet.put("size", entries)
        sheet.put("associativity", assumed_ways(entries, level))
        sections[f"perf_model/{name}"] = sheet
    penalty = Sheet()
    penalty.put("penalty", derived(lambda cycles: cycles, "cycles", (source.get("tlb.l2.miss_penalty.4k"),), ""))
    sections["perf_model/tlb"] = penalty
    return sections


def _memory(source: Source) -> Sheet:
    sheet = Sheet()
    last = source.nanoseconds(f"l{source.levels[-1]}") if source.levels else Open("latency.l1", "no level was found")
    whole = source.nanoseconds("memory")
    latency = derived(lambda all, cache: all - cache, "ns", (whole, last), "less a hit in the last cache")
    sheet.put("latency", latency)
    peak = source.first("loaded_latency.peak_bandwidth", "loaded_latency.reached_bandwidth")
    one = derived(lambda rate: rate, "GB/s", (peak,), "", _three_digits)
    if sheet.put("per_controller_bandwidth", with_assumption(one, ONE_CONTROLLER)) is not None:
        sheet.put("num_controllers", assumed(1, "controllers", ONE_CONTROLLER))
    return sheet


FORMAT = Format("sniper", "Sniper: [perf_model/...] sections", write)

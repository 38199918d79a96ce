"""ChampSim: champsim_config.json, with the members that a result settles.

Sets and ways in numbers, latencies in core cycles. ChampSim adds up its levels: a hit at level 2 costs level 1's
`hit_latency`, its own, and the `fill_latency` of level 1; so each level gets what its measured load-to-use latency
has more than the level before, less that level's fill latency, which is assumed to be 1. Rounded to the nearest, at
least 1. ChampSim would round sets up to a power of two, and make another cache of a sliced one. `mshr_size` is in
entries (misses of loads in flight), `pq_size` as many as software prefetches were in flight; `frequency` is in MHz.
TLBs: sets times ways is the number of entries; ways are assumed (fully associative at level 1, as many as divide the
entries at level 2, up to 16). JSON has no comments: the member `setebench`, which ChampSim does not read, holds
origin, interval and method by path. Names: ChampSim, config/parse.py, config/instantiation_file.py,
inc/cache_builder.h.
"""

from __future__ import annotations

import json
from typing import Any

from setebench.export.format import Format
from setebench.export.prefetchers import nearest
from setebench.export.source import Source, assumed_ways
from setebench.export.values import Known, Open, Sheet, assumed, derived

NAMES = {1: "L1D", 2: "L2C", 3: "LLC"}
FILL = 1
MEGA = 1e6
POLICIES = {"lru": "lru", "random": "random", "srrip": "srrip"}
PREFETCHERS = (("stride", "ip_stride"), ("stream", "va_ampm_lite"), ("next_line", "next_line"), ("pair", "next_line"))
UNKNOWN_CORE = ("rob_size", "lq_size", "sq_size")
"""Of the core, what no finding says yet; ChampSim's defaults hold."""


def write(source: Source) -> str:
    """The JSON document."""
    sheet = Sheet()
    _machine(source, sheet)
    for level in source.levels_within(sheet, NAMES):
        _cache(source, sheet, level)
    for level in set(NAMES) - set(source.levels):
        sheet.put(NAMES[level], Open(f"cache.l{level}", "the result shows no such level; ChampSim's default stays"))
    _tlbs(source, sheet)
    for name in UNKNOWN_CORE:
        sheet.put(f"ooo_cpu.{name}", Open(name, "no finding says it"))
    sheet.put("physical_memory.tCAS", Open("latency.memory", "a whole way's latency says nothing of DRAM"))
    config: dict[str, Any] = {}
    for entry in sheet.entries:
        _place(config, entry.key, entry.value.value)
    if "ooo_cpu" in config:
        config["ooo_cpu"] = [config["ooo_cpu"]]
    heading = source.heading("", "ChampSim configuration, with what was measured")
    config["setebench"] = {
        "about": [line.strip() for line in heading],
        "values": sheet.provenance(),
        "left_out": sheet.left_out,
    }
    return json.dumps(config, indent=2) + "\n"


def _place(config: dict[str, Any], path: str, value: object) -> None:
    table, _, name = path.rpartition(".")
    (config.setdefault(table, {}) if table else config)[name] = value


def _machine(source: Source, sheet: Sheet) -> None:
    sheet.put("block_size", source.line(1))
    sheet.put("page_size", assumed(4096, "bytes", "the page size of ChampSim's TLBs and of the findings with .4k"))
    cores = len(source.cores)
    sheet.put("num_cores", assumed(cores, "cores", "as the system shows"))
    sheet.put("ooo_cpu.frequency", derived(lambda hertz: hertz / MEGA, "MHz", (source.hertz(),), ""))


def _cache(source: Source, sheet: Sheet, level: int) -> None:
    name = NAMES[level]
    sheet.put(f"{name}.sets", source.buildable(level, source.sets(level)))
    sheet.put(f"{name}.ways", source.buildable(level, source.ways(level)))
    sheet.put(f"{name}.replacement", source.replacement(level, POLICIES))
    sheet.put(f"{name}.hit_latency", _hit_latency(source, level))
    sheet.put(f"{name}.fill_latency", assumed(FILL, "cycles", "no finding divides a latency into hit and fill"))
    if level in (1, 2):
        sheet.put(f"{name}.mshr_size", source.count(f"mshr.l{level}.demand"))
        sheet.put(f"{name}.pq_size", source.count(f"mshr.l{level}.prefetch"))
        sheet.put(f"{name}.prefetcher", nearest(source, level, PREFETCHERS, "no"))


def _hit_latency(source: Source, level: int) -> Known:
    own = source.latency(f"l{level}")
    if level == 1:
        return derived(lambda cycles: max(cycles, 1), "cycles", (own,), "")
    before = source.latency(f"l{level - 1}")
    how = f"latency.l{level} less the level before and its fill latency of {FILL}"
    return derived(lambda mine, less: max(mine - less - FILL, 1), "cycles", (own, before), how)


def _tlbs(source: Source, sheet: Sheet) -> None:
    for name, level in (("DTLB", 1), ("STLB", 2)):
        entries = source.count(f"tlb.l{level}.entries.4k")
        ways = assumed_ways(entries, level)
        sheet.put(f"{name}.sets", derived(lambda count, each: count // each, "sets", (entries, ways), "", int))
        sheet.put(f"{name}.ways", ways)
    penalty = source.get("tlb.l1.miss_penalty.4k")
    sheet.put("STLB.hit_latency", derived(lambda cycles: max(cycles, 1), "cycles", (penalty,), ""))
    sheet.put("DTLB.hit_latency", assumed(1, "cycles", "latencies are measured with a TLB hit, so it is in them"))


FORMAT = Format("champsim", "ChampSim: champsim_config.json", write)

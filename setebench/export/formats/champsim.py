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
from collections.abc import Iterator

from setebench.export.format import Format, Sheet
from setebench.export.source import Source
from setebench.export.values import Known, Open, Row, assumed, derived

NAMES = {1: "L1D", 2: "L2C", 3: "LLC"}
FILL = 1
MEGA = 1e6
POLICIES = {"lru": "lru", "random": "random", "srrip": "srrip"}
PREFETCHERS = (("stride", "ip_stride"), ("stream", "va_ampm_lite"), ("next_line", "next_line"), ("pair", "next_line"))
UNKNOWN = ("rob_size", "lq_size", "sq_size")  # of the core, what no finding says yet; ChampSim's defaults hold


def rows(source: Source) -> Iterator[Row]:
    yield "block_size", source.line(1)
    yield "page_size", assumed(4096, "bytes", "the page size of ChampSim's TLBs and of the findings with .4k")
    yield "num_cores", assumed(len(source.cores), "cores", "as the system shows")
    yield "ooo_cpu.frequency", derived(lambda hertz: hertz / MEGA, "MHz", (source.hertz(),))
    yield from source.other_levels(NAMES)
    for level, name in NAMES.items():
        if level in source.levels:
            yield from ((f"{name}.{key}", known) for key, known in _cache(source, level))
        else:
            yield name, Open(f"cache.l{level}", "the result shows no such level; ChampSim's default stays")
    for level, name in ((1, "DTLB"), (2, "STLB")):
        entries, ways = source.tlb(level)
        yield f"{name}.sets", derived(lambda count, each: count // each, "sets", (entries, ways), "", int)
        yield f"{name}.ways", ways
    penalty = source.get("tlb.l1.miss_penalty.4k")
    yield "STLB.hit_latency", derived(lambda cycles: max(cycles, 1), "cycles", (penalty,))
    yield "DTLB.hit_latency", assumed(1, "cycles", "latencies are measured with a TLB hit, so it is in them")
    yield from ((f"ooo_cpu.{name}", Open(name, "no finding says it")) for name in UNKNOWN)
    yield "physical_memory.tCAS", Open("latency.memory", "a whole way's latency says nothing of DRAM")


def _cache(source: Source, level: int) -> Iterator[Row]:
    yield "sets", source.buildable(level, source.sets(level))
    yield "ways", source.buildable(level, source.ways(level))
    yield "replacement", source.replacement(level, POLICIES)
    yield "hit_latency", _hit_latency(source, level)
    yield "fill_latency", assumed(FILL, "cycles", "no finding divides a latency into hit and fill")
    if level in (1, 2):
        yield "mshr_size", source.count(f"mshr.l{level}.demand")
        yield "pq_size", source.count(f"mshr.l{level}.prefetch")
        yield "prefetcher", source.nearest(level, PREFETCHERS, "no")


def _hit_latency(source: Source, level: int) -> Known:
    if level == 1:
        return source.less(1, 0)
    how = f"latency.l{level} less the level before and its fill latency of {FILL}"
    inputs = (source.latency(f"l{level}"), source.latency(f"l{level - 1}"))
    return derived(lambda mine, less: max(mine - less - FILL, 1), "cycles", inputs, how)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    config = sheet.nested()
    if "ooo_cpu" in config:
        config["ooo_cpu"] = [config["ooo_cpu"]]
    config["setebench"] = sheet.provenance(source.heading("", "ChampSim configuration, with what was measured"))
    yield json.dumps(config, indent=2)


FORMAT = Format("champsim", "ChampSim: champsim_config.json", rows, lines)

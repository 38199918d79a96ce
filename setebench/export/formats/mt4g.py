"""MT4G: its JSON of a memory hierarchy, with the members that a CPU has.

`size` and `lineSize` in bytes, `latency.mean` in cycles (not rounded), `readBandwidth` in GiB/s (our findings are
10^9 bytes), of one thread; `amount` is the number of such caches, by cores as the system shows them; `clockRate` in
kHz, rounded. `p50`, `p95` and `stdev`, and MT4G's `confidence`, are statistics of its own and left out. JSON has no
comments: the member `setebench` of `meta` holds origin, interval and method by path. Names: MT4G, sample_results, and
sys-sage's reader mt4g_v1_x.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from setebench.export.format import Format, Sheet
from setebench.export.source import GIGA, Source
from setebench.export.values import Open, Row, assumed, derived

GIBI = 1 << 30
STATISTICS = ("latency.p50", "latency.p95", "latency.stdev", "size.confidence")
LEVELS = (1, 2, 3)
UNITS = {"clockRate": "kHz", "latency": "cycles", "readBandwidth": "GiB/s", "writeBandwidth": "GiB/s"}


def rows(source: Source) -> Iterator[Row]:
    yield "general.clockRate", derived(lambda hertz: hertz / 1000, "kHz", (source.hertz(),))
    yield from source.other_levels(LEVELS)
    for level in LEVELS:
        if level in source.levels:
            groups, why = source.sharing(level)
            yield f"memory.l{level}.amount", assumed(len(groups), "caches", why)
            yield f"memory.l{level}.size", source.size(level)
            yield f"memory.l{level}.lineSize", source.line(level)
            yield from _timed(source, f"l{level}", f"memory.l{level}")
    if source.facts.memory_bytes:
        yield "memory.main.totalGlobalMem", assumed(source.facts.memory_bytes, "bytes", "as the system shows")
    yield from _timed(source, "memory", "memory.main")
    yield from ((name, Open(name, "a statistic of MT4G's own runs")) for name in STATISTICS)


def _timed(source: Source, level: str, path: str) -> Iterator[Row]:
    yield f"{path}.latency", source.latency(level)
    for name, kernel in (("readBandwidth", "load"), ("writeBandwidth", "store")):
        rate = (source.bandwidth(level, kernel),)
        yield f"{path}.{name}", derived(lambda giga: giga * GIGA / GIBI, "GiB/s", rate, "", float)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    document = {"general": {"name": source.name}, "memory": {}} | sheet.nested()
    document["general"]["name"] = source.name
    cpu = source.document.machine.environment.get("cpu")
    if isinstance(cpu, dict) and isinstance(cpu.get("vendor"), str):
        document["general"]["vendor"] = cpu["vendor"]
    for path, each in sheet.values.items():
        first, *tables, name = path.split(".")
        place = document[first]
        for table in tables:
            place = place[table]
        unit = UNITS.get(name, "bytes")  # not the finding's word for it, which may be any text
        member: dict[str, Any] = {"value": each.value, "unit": unit}
        if name == "latency":
            member = {"mean": each.value, "unit": unit, "method": each.why}
        elif name in ("size", "lineSize"):
            member |= {"size": each.value, "method": each.why}
        place[name] = each.value if name == "amount" else member
    about = sheet.provenance(source.heading("", "in the form of MT4G"))
    document["meta"] = {"timestamp": source.document.started, "hostCpu": source.name, "setebench": about}
    yield json.dumps(document, indent=4)


FORMAT = Format("mt4g", "MT4G: JSON of the memory hierarchy", rows, lines)

"""MT4G: its JSON of a memory hierarchy, with the members that a CPU has.

`size` and `lineSize` in bytes, `latency.mean` in cycles (not rounded), `readBandwidth` in GiB/s (our findings are
10^9 bytes), of one thread; `amount` is the number of such caches, by cores as the system shows them; `clockRate` in
kHz, rounded. `p50`, `p95` and `stdev`, and MT4G's `confidence`, are statistics of its own and left out. JSON has no
comments: the member `setebench` of `meta` holds origin, interval and method by path. Names: MT4G, sample_results, and
sys-sage's reader mt4g_v1_x.cpp.
"""

from __future__ import annotations

import json
from typing import Any

from setebench.export.format import Format
from setebench.export.source import Source
from setebench.export.values import Open, Sheet, assumed, derived

GIGA = 1e9
GIBI = 1 << 30
KILO = 1e3
STATISTICS = ("latency.p50", "latency.p95", "latency.stdev", "size.confidence")


def write(source: Source) -> str:
    """The JSON document."""
    sheet = Sheet()
    document: dict[str, Any] = {"general": {"name": source.name}, "memory": {}}
    cpu = source.document.machine.environment.get("cpu")
    if isinstance(cpu, dict) and isinstance(cpu.get("vendor"), str):
        document["general"]["vendor"] = cpu["vendor"]
    rate = sheet.put("general.clockRate", derived(lambda hertz: hertz / KILO, "kHz", (source.hertz(),), ""))
    if rate is not None:
        document["general"]["clockRate"] = {"value": rate.value, "unit": "kHz"}
    for level in source.levels_within(sheet, (1, 2, 3)):
        document["memory"][f"l{level}"] = _cache(source, sheet, level)
    document["memory"]["main"] = _main(source, sheet)
    for name in STATISTICS:
        sheet.put(name, Open(name, "a statistic of MT4G's own runs"))
    about = [line.strip() for line in source.heading("", "in the form of MT4G")]
    values = {"about": about, "values": sheet.provenance(), "left_out": sheet.left_out}
    document["meta"] = {"timestamp": source.document.started, "hostCpu": source.name, "setebench": values}
    return json.dumps(document, indent=4) + "\n"


def _cache(source: Source, sheet: Sheet, level: int) -> dict[str, Any]:
    groups, why = source.sharing(level)
    amount = len(groups)
    sheet.put(f"memory.l{level}.amount", assumed(amount, "caches", why))
    found: dict[str, Any] = {"amount": amount}
    for name, known in (("size", source.size(level)), ("lineSize", source.line(level))):
        value = sheet.put(f"memory.l{level}.{name}", known)
        if value is not None:
            found[name] = {"size": value.value, "value": value.value, "unit": "bytes", "method": value.why}
    return found | _timed(source, sheet, f"l{level}", f"memory.l{level}")


def _main(source: Source, sheet: Sheet) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if source.facts.memory_bytes:
        found["totalGlobalMem"] = {"value": source.facts.memory_bytes, "unit": "bytes"}
    return found | _timed(source, sheet, "memory", "memory.main")


def _timed(source: Source, sheet: Sheet, level: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    latency = sheet.put(f"{path}.latency", source.latency(level))
    if latency is not None:
        found["latency"] = {"mean": latency.value, "unit": "cycles", "method": latency.why}
    for name, kernel in (("readBandwidth", "load"), ("writeBandwidth", "store")):
        rate = derived(lambda giga: giga * GIGA / GIBI, "GiB/s", (source.bandwidth(level, kernel, 1),), "", float)
        value = sheet.put(f"{path}.{name}", rate)
        if value is not None:
            found[name] = {"value": value.value, "unit": "GiB/s"}
    return found


FORMAT = Format("mt4g", "MT4G: JSON of the memory hierarchy", write)

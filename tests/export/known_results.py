"""Results for exports: truths of simulated machines, and one with every outcome."""

from __future__ import annotations

import msgspec
from documents import make_document

from setebench.results import Document, Finding, Outcome

FACTS = {
    "name": "a <machine> --",
    "cpus": [0, 1, 2, 3],
    "siblings": [[0, 2], [1, 3]],
    "ticks_per_second": 2e9,
    "memory_bytes": 1 << 30,
}


def result(*findings: Finding) -> Document:
    """A result with these findings."""
    return make_document(list(findings), {}, {"kind": "native", "name": "native", "facts": dict(FACTS)}, settings={})


def measured(parameter: str, value: float | bool | str, unit: str = "", half: float = 0.0) -> Finding:
    """A finding, with an interval of `half` to both sides where it has one."""
    number = not isinstance(value, (str, bool)) and half
    low, high = (float(value) - half, float(value) + half) if number else (None, None)
    return Finding(parameter=parameter, value=value, unit=unit, low=low, high=high, method=f"method of {parameter}")


def bound(parameter: str, value: float, unit: str = "") -> Finding:
    """A finding that is a lower bound."""
    return Finding(parameter=parameter, value=value, unit=unit, outcome=Outcome.AT_LEAST, method="a bound")


def unresolved(parameter: str, reason: str = "nobody knows") -> Finding:
    """A finding without a value."""
    return Finding(parameter=parameter, outcome=Outcome.UNRESOLVED, reason=reason)


def opened(document: Document, *parameters: str) -> Document:
    """The result with these findings unresolved."""
    changed = [unresolved(each.parameter) if each.parameter in parameters else each for each in document.findings]
    return msgspec.structs.replace(document, findings=changed)


def plain_server() -> Document:
    """A machine of round figures: 32 KiB of 8 ways, 1 MiB of 16, 16 MiB of 16, and what else formats take."""
    caches = ((1, 32 << 10, 8), (2, 1 << 20, 16), (3, 16 << 20, 16))
    findings = [measured("clock.cycles_per_tick", 1.5, "cycles/tick", 0.015)]
    for level, size, ways in caches:
        own = (("size", size, "bytes"), ("ways", ways, "ways"), ("line_size", 64, "bytes"))
        findings += [measured(f"cache.l{level}.{name}", value, unit) for name, value, unit in own]
    for level, cycles in (("l1", 4.2), ("l2", 14.4), ("l3", 50.0), ("memory", 300.0)):
        findings.append(measured(f"latency.{level}", cycles, "cycles", 0.5))
        for kernel in ("load", "store"):
            findings.append(measured(f"bandwidth.{level}.{kernel}.64.threads_1", 20.0, "GB/s", 1.0))
    numbers: tuple[tuple[str, float, str, float], ...] = (
        ("mshr.l1.demand", 12, "entries", 0.5),
        ("mshr.l1.prefetch", 10, "entries", 0.5),
        ("mshr.l2.demand", 12, "entries", 0.5),
        ("tlb.l1.entries.4k", 64, "entries", 0.0),
        ("tlb.l2.entries.4k", 1536, "entries", 0.0),
        ("tlb.l1.miss_penalty.4k", 7.0, "cycles", 0.5),
        ("tlb.l2.miss_penalty.4k", 40.0, "cycles", 0.5),
        ("prefetcher.l1.stride.present", True, "bool", 0.0),
        ("prefetcher.l1.stride.max_stride", 2048, "bytes", 0.0),
        ("prefetcher.l2.stream.present", True, "bool", 0.0),
        ("prefetcher.l2.stream.streams", 32, "streams", 0.0),
        ("prefetcher.l2.stream.degree", 4, "lines", 0.0),
        ("prefetcher.l2.stream.crosses_4k", False, "bool", 0.0),
        ("cache.l2.exclusive_of_l1", False, "bool", 0.0),
        ("loaded_latency.peak_bandwidth", 25.0, "GB/s", 1.0),
    )
    findings += [measured(*each) for each in numbers]
    findings += [bound("mshr.l2.prefetch", 40, "entries"), unresolved("cache.l2.inclusive_in_l3")]
    absent = {"value": False, "unit": "bool", "outcome": Outcome.ABSENT}
    findings.append(Finding(parameter="prefetcher.l2.stride.present", **absent))
    return result(*findings)


def with_facts(document: Document, **facts: object) -> Document:
    """The result with other facts of the machine."""
    record = msgspec.structs.replace(document.machine, facts={**document.machine.facts, **facts})
    return msgspec.structs.replace(document, machine=record)

"""A result as exports see it: findings as values with origin, cores and clock of the machine, and what several formats
derive from findings in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from setebench.export.values import Known, Open, Origin, Rounding, Value, derived, with_assumption
from setebench.results import Document, Finding, Outcome

ORIGINS = {Outcome.MEASURED: Origin.MEASURED, Outcome.ABSENT: Origin.MEASURED, Outcome.AT_LEAST: Origin.AT_LEAST}
LEVELS = (1, 2, 3)
NANOSECONDS = 1e9
WIDTHS = ("64", "32", "16", "scalar")
"""Access widths in the names of bandwidth findings, the widest first."""


MOST_TLB_WAYS = 16
TLB_WAYS = {
    1: "fully associative is assumed",
    2: f"the most ways up to {MOST_TLB_WAYS} that make a power of two of sets are assumed",
}


def assumed_ways(entries: Known, level: int) -> Known:
    """Ways of a TLB of that many entries, which no finding says; simulators have a power of two of sets."""
    if isinstance(entries, Open):
        return entries
    count = int(entries.value)
    ways = count if level == 1 else next((ways for ways in range(MOST_TLB_WAYS, 0, -1) if _fits(count, ways)), 0)
    if not ways:
        reason = f"{count} entries are no power of two of sets with up to {MOST_TLB_WAYS} ways"
        return Open(entries.parameters[0], reason)
    return with_assumption(replace(entries, value=ways, unit="ways", low=None, high=None), TLB_WAYS[level])


def _fits(entries: int, ways: int) -> bool:
    sets = entries // ways
    return entries % ways == 0 and sets & (sets - 1) == 0


@dataclass(frozen=True)
class Source:
    """What a format may ask of a result. Nothing here guesses: what is not known is an `Open`."""

    document: Document

    def finding(self, parameter: str) -> Finding | None:
        """The finding of that parameter, whatever its outcome."""
        return self._findings.get(parameter)

    @property
    def _findings(self) -> dict[str, Finding]:
        return {finding.parameter: finding for finding in self.document.findings}

    def get(self, parameter: str) -> Known:
        """The finding as a value in its own unit."""
        finding = self.finding(parameter)
        if finding is None:
            return Open(parameter, "this result has no such finding")
        if finding.value is None or isinstance(finding.value, list):
            return Open(parameter, f"{finding.outcome}: {finding.reason or 'no single value'}")
        return Value(
            finding.value,
            finding.unit,
            ORIGINS[finding.outcome],
            finding.method,
            finding.low,
            finding.high,
            (parameter,),
        )

    def count(self, parameter: str) -> Known:
        """A count above zero: a table or a queue that is absent has no size."""
        known = self.get(parameter)
        if isinstance(known, Value) and not known.value:
            return Open(parameter, "absent: nothing limits it, or there is no such table")
        return known

    def first(self, *parameters: str) -> Known:
        """The first of several findings that has a value; else what keeps the first open."""
        found = [self.get(parameter) for parameter in parameters]
        return next((each for each in found if isinstance(each, Value)), found[0])

    def has_level(self, level: int) -> bool:
        """Whether the result shows a cache of that level, even one of which nothing could be measured."""
        prefix = (f"cache.l{level}.", f"latency.l{level}")
        return any(name.startswith(prefix) for name in self._findings)

    @property
    def levels(self) -> list[int]:
        """The levels of cache that the result shows."""
        return [level for level in LEVELS if self.has_level(level)]

    # -- what several formats derive -------------------------------------------------------------------------------

    def size(self, level: int, unit_bytes: int = 1, unit: str = "bytes", rounding: Rounding = int) -> Known:
        """A cache's size in units of `unit_bytes`; rounded down, so that nothing is promised that there isn't."""
        how = f"in {unit}" if unit_bytes > 1 else ""
        return derived(lambda size: size / unit_bytes, unit, (self.get(f"cache.l{level}.size"),), how, rounding)

    def line(self, level: int) -> Known:
        """A cache's line size in bytes; the first level's where only that was asked."""
        return self.first(f"cache.l{level}.line_size", "cache.l1.line_size")

    def sets(self, level: int) -> Known:
        """Sets of a cache: size over ways and line."""
        size, ways = self.get(f"cache.l{level}.size"), self.get(f"cache.l{level}.ways")
        return derived(
            lambda all, way, line: all / (way * line),
            "sets",
            (size, ways, self.line(level)),
            "size / (ways x line)",
            int,
        )

    def latency(self, level: str) -> Known:
        """Load to use in core cycles, not rounded; `level` is l1, l2, l3 or memory."""
        return self.get(f"latency.{level}")

    def nanoseconds(self, level: str) -> Known:
        """Load to use in nanoseconds, by the clock of the same run."""
        hertz = self.hertz()
        return derived(
            lambda cycles, rate: cycles / rate * NANOSECONDS,
            "ns",
            (self.latency(level), hertz),
            "cycles over clock",
            float,
        )

    def hertz(self) -> Known:
        """Core cycles per second while measuring."""
        rate = self.fact("ticks_per_second")
        if not isinstance(rate, (int, float)):
            return Open("clock.cycles_per_tick", "this result does not say how many ticks a second has")
        ratio = self.get("clock.cycles_per_tick")
        return derived(lambda cycles: cycles * rate, "Hz", (ratio,), f"{rate:.0f} ticks a second", float)

    def prefetch_latency(self) -> Known:
        """Instructions that pass while a line comes from memory, for compilers that count in instructions."""
        known = derived(lambda cycles: cycles, "instructions", (self.latency("memory"),), "")
        return with_assumption(known, "one instruction a cycle is assumed")

    def followed_strides(self) -> Known:
        """The largest stride in bytes that a hardware prefetcher follows; open unless that is settled for each kind
        that may follow strides."""
        reaches: list[Value] = []
        for kind in ("l1.stride", "l2.stride"):
            present = self.get(f"prefetcher.{kind}.present")
            if isinstance(present, Open):
                return present
            if present.value:
                reach = self.get(f"prefetcher.{kind}.max_stride")
                if isinstance(reach, Open):
                    return reach
                reaches.append(reach)
        if not reaches:
            return Open("prefetcher.l1.stride.present", "absent, as at level 2: no hardware prefetcher follows strides")
        return max(reaches, key=lambda each: float(each.value))

    def bandwidth(self, level: str, kernel: str, threads: int) -> Known:
        """GB/s (10^9 bytes that the program asked for) of a streaming kernel, in the widest accesses that were
        measured."""
        open_one: Open | None = None
        for width in WIDTHS:
            known = self.get(f"bandwidth.{level}.{kernel}.{width}.threads_{threads}")
            if isinstance(known, Value):
                return known
            if open_one is None and self.finding(known.parameter) is not None:
                open_one = known
        return open_one or Open(f"bandwidth.{level}.{kernel}", f"not measured with {threads} threads")

    def load_bandwidth(self, level: str, threads: int) -> Known:
        """GB/s read by that many threads."""
        return self.bandwidth(level, "load", threads)

    def replacement(self, level: int, names: Mapping[str, str]) -> Known:
        """A cache's replacement policy in another tool's word, of those that `names` has."""
        parameter = f"cache.l{level}.replacement"
        known = self.get(parameter)
        if isinstance(known, Open):
            return known
        word = names.get(str(known.value))
        return Open(parameter, f"no word for {known.value} there") if word is None else replace(known, value=word)

    # -- the machine -----------------------------------------------------------------------------------------------

    def fact(self, name: str) -> Any:
        """A fact of the machine record, None where it has none."""
        return self.document.machine.facts.get(name)

    @property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """CPU numbers, one tuple for each core; one core with CPU 0 where the result says nothing of cores."""
        siblings = self.fact("siblings") or [[cpu] for cpu in self.fact("cpus") or [0]]
        return tuple(tuple(int(cpu) for cpu in group) for group in siblings)

    @property
    def name(self) -> str:
        """What the machine is called."""
        return str(self.fact("name") or self.document.machine.name)

    def heading(self, mark: str, what: str) -> list[str]:
        """The lines of comment that open a file: what it is, of which machine, from when, and how to read the marks."""
        tool = self.document.tool
        lines = (
            what,
            f"{self.name}, measured {self.document.started} by {tool.name} {tool.version}",
            "measured: 95 % interval and method follow; at least: a lower bound; assumed: nobody measured it",
        )
        return [f"{mark} {' '.join(line.split())}" for line in lines]

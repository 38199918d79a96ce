"""A result as exports see it: findings as values with origin, cores and clock of the machine, and what several formats
derive from findings in the same way."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from setebench.errors import UsageError
from setebench.export.values import Known, Open, Origin, Value, assumed, derived, exact, with_assumption
from setebench.machine import Cpu, Facts, Rate
from setebench.results import Document, Finding, Outcome
from setebench.text import GIGA

LEVELS = (1, 2, 3, 4)
PRIVATE = (1, 2)
"""Levels of which a core is assumed to have its own."""

MOST = float(1 << 63)
"""Of any number, in any unit: beyond it no tool reads one."""

WIDTHS = ("64", "32", "16", "scalar")
"""Access widths in the names of bandwidth findings, the widest first."""

MOST_TLB_WAYS = 16

TESTED_BY = {
    "runs": ("prefetcher.",),
    "conflicts": ("cache.",),
    "evictions": ("cache.",),
    "chases": ("latency.", "tlb."),
    "bursts": ("mshr.",),
    "streams": ("bandwidth.",),
}
"""Families of probes of a verification, and beginnings of the parameters that decide how these are predicted."""

Cores = tuple[tuple[int, ...], ...]
"""CPU numbers, one tuple for each core."""


class _Facts(Facts, frozen=True, kw_only=True):
    """The facts of a machine record, of which any may be missing."""

    name: str = ""
    kind: str = ""
    cpus: tuple[Cpu, ...] = ()
    siblings: tuple[tuple[Cpu, ...], ...] = ()
    memory_bytes: int = 0
    ticks_per_second: Rate = 0.0


@dataclass(frozen=True)
class Node:
    """A memory node: its number, and the cores that are its own, none for memory alone."""

    number: int
    cores: Cores

    @property
    def cpus(self) -> list[int]:
        """The CPUs of its cores."""
        return [cpu for core in self.cores for cpu in core]


class Source:
    """What a format may take of a result. Nothing here guesses: what is not known is an `Open`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: dict[str, Finding] = {finding.parameter: finding for finding in document.findings}

    def get(self, parameter: str, kind: type = float) -> Known:
        """The finding of a number, or of another `kind` (bool, str), as a value in its own unit."""
        finding = self.findings.get(parameter)
        if finding is None:
            return Open(parameter, "this result has no such finding")
        value = finding.value
        if value is None:
            return Open(parameter, f"{finding.outcome}: {finding.reason}")
        number = finding.number is not None and 0 <= finding.number < MOST
        if isinstance(value, list) or not (number if kind is float else isinstance(value, kind)):
            return Open(parameter, "what it says is nothing that a machine can have")
        origin = Origin.AT_LEAST if finding.outcome is Outcome.AT_LEAST else Origin.MEASURED
        method = "; ".join(filter(None, (finding.method, *self._doubts(parameter))))
        return Value(value, finding.unit, origin, method, finding.low, finding.high, (parameter,))

    def _doubts(self, parameter: str) -> Iterator[str]:
        """What a verification in the same result says against predictions that rest on a parameter: families that the
        machine predicts of itself clearly better."""
        for family in (each for each, begins in TESTED_BY.items() if parameter.startswith(begins)):
            for name, best in (("agreement", "ceiling"), ("time_error", "time_error.ceiling")):
                twin, own = (self.findings.get(f"verify.{family}.{each}") for each in (name, best))
                if twin is None or own is None or twin.number is None or own.number is None:
                    continue
                one, other = (twin, own) if name == "agreement" else (own, twin)
                if one.high is not None and other.low is not None and one.high < other.low:
                    what = f"{name.replace('_', ' ')} {twin.number:.3g} % in {family}"
                    yield f"verify has {what}, the CPU itself {own.number:.3g} %"

    def count(self, parameter: str) -> Known:
        """A whole number above zero: a table or a queue that is absent has no size."""
        known = self.get(parameter)
        if isinstance(known, Value) and int(known.value) < 1:
            return Open(parameter, "absent: nothing limits it, or there is no such table")
        return known if isinstance(known, Open) else replace(known, value=int(known.value))

    def first(self, *parameters: str) -> Known:
        """The first of several findings that has a value; else what keeps the first open."""
        found = [self.get(parameter) for parameter in parameters]
        return next((each for each in found if isinstance(each, Value)), found[0])

    @cached_property
    def levels(self) -> list[int]:
        """The levels of cache that the result shows, even one of which nothing could be measured."""
        names = {level: (f"cache.l{level}.", f"latency.l{level}") for level in LEVELS}
        return [level for level in LEVELS if any(name.startswith(names[level]) for name in self.findings)]

    @property
    def places(self) -> list[str]:
        """The levels as names of latencies and rates have them, and memory."""
        return [*(f"l{level}" for level in self.levels), "memory"]

    # -- caches ----------------------------------------------------------------------------------------------------

    def size(self, level: int, unit_bytes: int = 1, unit: str = "bytes") -> Known:
        """A cache's size in units of `unit_bytes`, rounded down, so that nothing is promised that there isn't; open
        where it is a bound that the level before passes."""
        own, before = (self.get(f"cache.l{each}.size") for each in (level, level - 1))
        match own, before:
            case Value(value, _, Origin.AT_LEAST), Value(inner) if float(value) <= float(inner):
                less = f"only at least {value} bytes, which level {level - 1} has as well"
                return Open(f"cache.l{level}.size", less)
        return derived(lambda size: size / unit_bytes, unit, (own,), f"in {unit}" if unit_bytes > 1 else "", int)

    def ways(self, level: int) -> Known:
        """A cache's associativity."""
        return self.count(f"cache.l{level}.ways")

    def line(self, level: int) -> Known:
        """A cache's line size in bytes; the first level's where only that was measured."""
        return self.first(f"cache.l{level}.line_size", "cache.l1.line_size")

    def geometry(self, level: int, power_of_two: bool = True) -> tuple[Known, Known, Known]:
        """Size, sets and ways of a cache for a tool that builds it: open for bounds, and where size, ways and line make
        no whole number of sets, or no power of two."""
        size, ways = exact(self.size(level)), exact(self.ways(level))
        inputs = (size, ways, self.line(level))
        sets = derived(lambda all, way, line: all / (way * line), "sets", inputs, "size / (ways x line)", float)
        if isinstance(sets, Open):
            return size, sets, ways
        number = float(sets.value)
        if number < 1 or number % 1 or (power_of_two and int(number).bit_count() > 1):
            need = "a power of two" if power_of_two else "a whole number"
            odd = Open(", ".join(sets.parameters), f"they make {number:.6g} sets, and the tool needs {need}")
            return odd, odd, odd
        return size, replace(sets, value=int(number)), ways

    def replacement(self, level: int, names: Mapping[str, str], tree_ways: Collection[int] = ()) -> Known:
        """A cache's replacement policy in another tool's word, of those that `names` has; a tree of pseudo-LRU only
        with as many ways as the tool has one for."""
        parameter = f"cache.l{level}.replacement"
        known, ways = self.get(parameter, str), self.ways(level)
        if isinstance(known, Open):
            return known
        fits = known.value != "tree_plru" or (isinstance(ways, Value) and ways.value in tree_ways)
        if not fits or known.value not in names:
            return Open(parameter, f"no {known.value} of these ways there")
        return replace(known, value=names[str(known.value)])

    def tlb(self, level: int) -> tuple[Known, Known]:
        """Entries of a TLB and its ways, which no finding says: all of them at level 1, then the most up to 16 with
        which sets are a power of two, as simulators have them."""
        entries = self.count(f"tlb.l{level}.entries.4k")
        if isinstance(entries, Open):
            return entries, entries
        count = int(entries.value)
        tried = [count] if level == 1 else range(MOST_TLB_WAYS, 0, -1)
        ways = next((n for n in tried if count % n == 0 and (count // n).bit_count() == 1), None)
        if ways is None:
            return entries, Open(entries.parameters[0], f"{count} entries are no power of two of sets")
        how = f"ways are assumed: all at level 1, then up to {MOST_TLB_WAYS} that make a power of two of sets"
        return entries, with_assumption(replace(entries, value=ways, unit="ways", low=None, high=None), how)

    # -- times and rates -------------------------------------------------------------------------------------------

    def nanoseconds(self, level: str) -> Known:
        """Load to use in nanoseconds, by the clock of the same run."""
        inputs = (self.get(f"latency.{level}"), self.hertz())
        return derived(lambda cycles, rate: cycles / rate * GIGA, "ns", inputs, "cycles over clock", float)

    def hertz(self) -> Known:
        """Core cycles per second while measuring."""
        rate = self.facts.ticks_per_second
        if not rate:
            return Open("clock.cycles_per_tick", "this result does not say how many ticks a second has")
        ratio = self.get("clock.cycles_per_tick")
        return derived(lambda cycles: cycles * rate, "Hz", (ratio,), f"{rate:.0f} ticks a second", float)

    def prefetch_latency(self) -> Known:
        """Instructions that pass while a line comes from memory, for compilers that count in instructions."""
        known = derived(float, "instructions", (self.get("latency.memory"),))
        return with_assumption(known, "one instruction a cycle is assumed")

    def bandwidth(self, level: str, kernel: str = "load") -> Known:
        """Bytes a second (findings are in GB/s, 10^9 bytes that the program moved) of a streaming kernel and one
        thread, in the widest accesses that were measured."""
        start = f"bandwidth.{level}.{kernel}"
        return derived(lambda giga: giga * GIGA, "bytes/s", (self.first(*(f"{start}.{w}.threads_1" for w in WIDTHS)),))

    # -- prefetchers -----------------------------------------------------------------------------------------------

    def least_stride(self) -> Known:
        """The smallest stride in bytes that no hardware prefetcher follows; open unless the largest that one follows is
        settled for each kind that may follow strides."""
        kinds = [f"prefetcher.l{level}.stride" for level in PRIVATE]
        found = [self.get(f"{kind}.max_stride") for kind in kinds if self.present(kind)]
        absent = [self.get(f"{kind}.present", bool) for kind in kinds if not self.present(kind)]
        if left := next((each for each in (*absent, *found) if isinstance(each, Open)), None):
            return left
        if not found:
            return Open(f"{kinds[0]}.present", "absent, as at level 2: no hardware prefetcher follows strides")
        return derived(lambda *strides: max(strides) + 1, "bytes", found, "first stride not followed", int)

    def present(self, prefetcher: str) -> bool:
        """Whether that prefetcher was found."""
        known = self.get(f"{prefetcher}.present", bool)
        return isinstance(known, Value) and bool(known.value)

    def nearest(self, level: int, names: Mapping[str, str]) -> Known:
        """A simulator's name for the first kind of `names` that is present."""
        where = f"prefetcher.l{level}"
        kind = next((kind for kind in names if self.present(f"{where}.{kind}")), None)
        if kind is None:
            return Open(where, "this result has found none there that the simulator has")
        found = assumed(names[kind], "", f"nearest in kind to l{level}.{kind}; of others nothing is expressed")
        return replace(found, parameters=(f"{where}.{kind}.present",))

    # -- the machine -----------------------------------------------------------------------------------------------

    @cached_property
    def facts(self) -> _Facts:
        """The facts of the machine record. Raises `UsageError` for a damaged one."""
        given = {name: each for name, each in self.document.machine.facts.items() if each is not None}
        try:
            return msgspec.convert(given, _Facts)
        except msgspec.ValidationError as error:
            raise UsageError(f"the result's facts of its machine are damaged: {error}") from error

    @cached_property
    def cores(self) -> Cores:
        """CPU numbers, one tuple for each core; one core with CPU 0 where the result says nothing of cores."""
        groups = self.facts.siblings or [(cpu,) for cpu in self.facts.cpus or (0,)]
        core_of = {cpu: group for group in groups for cpu in group}
        own = (tuple(cpu for cpu in dict.fromkeys(group) if core_of[cpu] is group) for group in groups)
        return tuple(core for core in own if core) or ((0,),)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Memory nodes. A core that lies in none of them counts as one of the first that has CPUs."""
        homes = {cpu: node.number for node in reversed(self.facts.nodes) for cpu in node.cpus}
        numbers = list(dict.fromkeys(node.number for node in self.facts.nodes)) or [0]
        first = next((homes[core[0]] for core in self.cores if core[0] in homes), numbers[0])
        near = {core: homes.get(core[0], first) for core in self.cores}
        return tuple(Node(number, tuple(core for core in near if near[core] == number)) for number in numbers)

    def sharing(self, level: int) -> tuple[tuple[Cores, ...], str]:
        """The cores that share each cache of a level, cache by cache, and the assumption behind that."""
        if level in PRIVATE:
            return tuple((core,) for core in self.cores), "a core has its own"
        groups = tuple(node.cores for node in self.nodes if node.cores)
        return groups, "all cores share it" if len(groups) == 1 else "all cores of a memory node share it"

    @property
    def name(self) -> str:
        """What the machine is called."""
        return self.facts.name or self.document.machine.name

    def heading(self, mark: str, what: str) -> list[str]:
        """The lines of comment that open a file: what it is, of which machine, from when, and how to read the marks."""
        tool = self.document.tool
        lines = (
            what,
            f"{self.name}, measured {self.document.started} by {tool.name} {tool.version}",
            "measured: 95 % interval and method follow; at least: a lower bound; assumed: nobody measured it",
        )
        return [f"{mark} {line}" for line in lines]

"""A result as exports see it: findings as values with origin, cores and clock of the machine, and what several formats
derive from findings in the same way."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import msgspec

from setebench.errors import UsageError
from setebench.export.values import Known, Open, Origin, Row, Value, assumed, derived, exact, with_assumption
from setebench.results import Document, Finding, Outcome

ORIGINS = {Outcome.MEASURED: Origin.MEASURED, Outcome.ABSENT: Origin.MEASURED, Outcome.AT_LEAST: Origin.AT_LEAST}
LEVELS = (1, 2, 3, 4)
PRIVATE = (1, 2)
"""Levels of which a core is assumed to have its own."""

KIB, GIGA = 1024, 1e9
MOST = float(1 << 63)
"""Of any number, in any unit: beyond it no tool reads one."""

WIDTHS = ("64", "32", "16", "scalar")
"""Access widths in the names of bandwidth findings, the widest first."""

MOST_TLB_WAYS = 16
Cpu = Annotated[int, msgspec.Meta(ge=0, lt=1 << 13)]
"""Linux is built for 8192 CPUs at most."""

Cores = tuple[tuple[int, ...], ...]
"""CPU numbers, one tuple for each core."""


class _Node(msgspec.Struct):
    number: Cpu
    cpus: tuple[Cpu, ...] = ()


class _Facts(msgspec.Struct):
    """Of the machine record, what formats need: typed, so that a damaged one is refused."""

    name: str = ""
    cpus: tuple[Cpu, ...] = ()
    siblings: tuple[tuple[Cpu, ...], ...] = ()
    nodes: tuple[_Node, ...] = ()
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    ticks_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None


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

    def get(self, parameter: str) -> Known:
        """The finding of a number as a value in its own unit."""
        known = self._known(parameter)
        number = isinstance(known, Open) or (not isinstance(known.value, (bool, str)) and 0 <= known.value < MOST)
        return known if number else Open(parameter, "what it says is no number that a machine can have")

    def flag(self, parameter: str) -> Known:
        """The finding of a yes or no."""
        known = self._known(parameter)
        return known if isinstance(known, Open) or isinstance(known.value, bool) else Open(parameter, "no yes or no")

    def _known(self, parameter: str) -> Known:
        finding = self.findings.get(parameter)
        if finding is None:
            return Open(parameter, "this result has no such finding")
        if finding.value is None or isinstance(finding.value, list):
            return Open(parameter, f"{finding.outcome}: {finding.reason or 'no single value'}")
        origin, ends = ORIGINS[finding.outcome], (finding.low, finding.high)
        return Value(finding.value, finding.unit, origin, finding.method, *ends, (parameter,))

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

    def other_levels(self, known: Collection[int]) -> Iterator[Row]:
        """Levels that a format has no place for."""
        for level in self.levels:
            if level not in known:
                yield f"L{level}", Open(f"cache.l{level}", "this format has no place for that level")

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

    def sets(self, level: int) -> Known:
        """Sets of a cache: size over ways and line; a fraction where they don't fit together."""
        inputs = (self.size(level), self.ways(level), self.line(level))
        return derived(lambda size, way, line: size / (way * line), "sets", inputs, "size / (ways x line)", _whole)

    def buildable(self, level: int, known: Known, power_of_two: bool = True) -> Known:
        """`known` of a cache's geometry, for a tool that builds the cache: open for a bound, and where size, ways and
        line make no whole number of sets, or no power of two."""
        sets = self.sets(level)
        if isinstance(sets, Value):
            number = float(sets.value)
            if number < 1 or number % 1 or (power_of_two and int(number) & int(number) - 1):
                need = "a power of two" if power_of_two else "a whole number"
                return Open(", ".join(sets.parameters), f"they make {number:.6g} sets, and the tool needs {need}")
        return exact(known)

    def replacement(self, level: int, names: Mapping[str, str], tree_ways: Collection[int] = ()) -> Known:
        """A cache's replacement policy in another tool's word, of those that `names` has; a tree of pseudo-LRU only
        with as many ways as the tool has one for."""
        parameter = f"cache.l{level}.replacement"
        known, ways = self._known(parameter), self.ways(level)
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

    def latency(self, level: str) -> Known:
        """Load to use in core cycles, not rounded; `level` is l1, l2, l3 or memory."""
        return self.get(f"latency.{level}")

    def nanoseconds(self, level: str) -> Known:
        """Load to use in nanoseconds, by the clock of the same run."""
        inputs = (self.latency(level), self.hertz())
        return derived(lambda cycles, rate: cycles / rate * GIGA, "ns", inputs, "cycles over clock", float)

    def hertz(self) -> Known:
        """Core cycles per second while measuring."""
        rate = self.facts.ticks_per_second
        if rate is None:
            return Open("clock.cycles_per_tick", "this result does not say how many ticks a second has")
        ratio = self.get("clock.cycles_per_tick")
        return derived(lambda cycles: cycles * rate, "Hz", (ratio,), f"{rate:.0f} ticks a second", float)

    def prefetch_latency(self) -> Known:
        """Instructions that pass while a line comes from memory, for compilers that count in instructions."""
        known = derived(lambda cycles: cycles, "instructions", (self.latency("memory"),))
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
        reaches: list[Value] = []
        for kind in ("l1.stride", "l2.stride"):
            settled = self.flag(f"prefetcher.{kind}.present")
            if self.present(f"prefetcher.{kind}"):
                settled = self.get(f"prefetcher.{kind}.max_stride")
            if isinstance(settled, Open):
                return settled
            reaches += [settled] if settled.value is not False else []
        if not reaches:
            return Open("prefetcher.l1.stride.present", "absent, as at level 2: no hardware prefetcher follows strides")
        most = max(reaches, key=lambda each: float(each.value))
        return derived(lambda stride: stride + 1, "bytes", (most,), "first stride not followed", int)

    def present(self, prefetcher: str) -> bool:
        """Whether that prefetcher was found."""
        known = self.flag(f"{prefetcher}.present")
        return isinstance(known, Value) and bool(known.value)

    def nearest(self, level: int, names: Mapping[str, str], none: str | None = None) -> Known:
        """A simulator's name for the first kind of `names` that is present; `none` where every kind was looked for and
        is absent; else open."""
        where = f"prefetcher.l{level}"
        for kind, name in names.items():
            if self.present(f"{where}.{kind}"):
                found = assumed(name, "", f"nearest in kind to l{level}.{kind}; of others nothing is expressed")
                return replace(found, parameters=(f"{where}.{kind}.present",))
        parameters = [name for name in self.findings if name.startswith(f"{where}.") and name.endswith(".present")]
        looked = {name: self.flag(name) for name in parameters}
        for name, known in looked.items():
            if isinstance(known, Open):
                return known
            if known.value:
                return Open(where, f"the simulator has no kind like {name.split('.')[2]}")
        if none is None or not looked:
            return Open(where, "this result has found none there that the simulator has")
        return Value(none, "", Origin.MEASURED, "all kinds absent", None, None, tuple(looked))

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


def _whole(number: float) -> float | int:
    return number if number % 1 else int(number)

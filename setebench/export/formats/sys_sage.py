"""sys-sage: its XML of components and data paths, for `importFromXml`.

Cache and line sizes in bytes, associativity in ways. A data path from a cache, or memory, to each of its cores has
`latency` in nanoseconds and `bw` in bytes a second (our findings are 10^9 bytes), of one thread, not rounded; -1 is
sys-sage's word for unknown. First and second caches are assumed to be a core's own, others to be shared by the cores
of a memory node. sys-sage's reader takes a comment among components for a component, so origin, interval and method
are comments above them. Names: sys-sage, src/xml_load.cpp, xml_dump.cpp, enums.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from xml.sax.saxutils import quoteattr

from setebench.export.format import Format
from setebench.export.source import PRIVATE, Source
from setebench.export.values import Sheet, assumed, derived

GIGA = 1e9
LOGICAL = 1
CHIP_CPU = 2
UNKNOWN = "-1"


@dataclass
class _Tree:
    """Lines of components while they are made, addresses for relations, and the data paths."""

    addresses: Iterator[int] = field(default_factory=lambda: count(1))
    lines: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def open(self, kind: str, number: int, attributes: str = "") -> str:
        """Begin a component; its address."""
        address = f"0x{next(self.addresses):x}"
        self.lines.append(f'<{kind} id="{number}" name="{kind}" addr="{address}" {attributes}>'.replace(" >", ">"))
        return address

    def close(self, *kinds: str) -> None:
        """End components, the innermost first."""
        self.lines += [f"</{kind}>" for kind in kinds]

    def path(self, ends: tuple[str, str], bandwidth: str, latency: str) -> None:
        """A data path between two components."""
        self.paths.append(
            f'<DataPath components="{ends[0]} {ends[1]}" ordered="0" id="{len(self.paths)}" '
            f'DataPathType="{LOGICAL}" bw="{bandwidth}" latency="{latency}"/>'
        )


def write(source: Source) -> str:
    """The XML document."""
    sheet, tree = Sheet(), _Tree()
    given = {level: _attributes(source, sheet, level) for level in source.levels}
    timed = {level: _times(source, sheet, level) for level in (*(f"l{n}" for n in source.levels), "memory")}
    shared = [level for level in reversed(source.levels) if level not in PRIVATE]
    for level in shared:
        sheet.put(f"L{level} cores", assumed(len(source.sharing(level)[0][0]), "cores", source.sharing(level)[1]))
    size = source.facts.memory_bytes if len(source.nodes) == 1 else UNKNOWN
    tree.open("Topology", 0)
    tree.open("Chip", 0, f'model={quoteattr(source.name)} type="{CHIP_CPU}"')
    for node in source.nodes:
        above = {"memory": tree.open("Memory", node.number, f'size="{size}" is_volatile="1"')}
        within = shared if node.cores else []
        above |= {f"l{level}": tree.open("Cache", node.number, given[level]) for level in within}
        for core in node.cores:
            _core(tree, (source.cores.index(core), core), given, timed, above)
        tree.close(*("Cache" for _ in within), "Memory")
    tree.close("Chip", "Topology")
    comments = [
        *source.heading("", "sys-sage topology"),
        *(f"{entry.key}: {entry.value.comment}" for entry in sheet.entries),
    ]
    comments += sheet.missing("")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<sys-sage>"]
    lines += [f"<!-- {comment.strip().replace('--', '- -')} -->" for comment in comments]
    lines += ["<Components>", *tree.lines, "</Components>", "<Relations>", *tree.paths, "</Relations>", "</sys-sage>"]
    return "\n".join(lines) + "\n"


def _core(
    tree: _Tree,
    core: tuple[int, tuple[int, ...]],
    given: dict[int, str],
    timed: dict[str, tuple[str, str]],
    shared: dict[str, str],
) -> None:
    number, cpus = core
    own = {f"l{level}": tree.open("Cache", number, given[level]) for level in (2, 1) if level in given}
    address = tree.open("Core", number)
    for cpu in cpus:
        tree.open("HW_Thread", cpu)
        tree.close("HW_Thread")
    tree.close("Core", *("Cache" for _ in own))
    for level, source_address in (own | shared).items():
        bandwidth, latency = timed[level]
        tree.path((source_address, address), bandwidth, latency)


def _attributes(source: Source, sheet: Sheet, level: int) -> str:
    known = {
        "cache_size": source.size(level),
        "cache_associativity_ways": source.ways(level),
        "cache_line_size": source.line(level),
    }
    found = {"cache_level": str(level), "cache_type": str(level)}
    for name, each in known.items():
        value = sheet.put(f"L{level} {name}", each)
        if value is not None:
            found[name] = str(value.value)
    return " ".join(f'{name}="{text}"' for name, text in found.items())


def _times(source: Source, sheet: Sheet, level: str) -> tuple[str, str]:
    """(bw, latency) of the data paths from a level."""
    rate = derived(lambda giga: giga * GIGA, "bytes/s", (source.load_bandwidth(level, 1),), "")
    bandwidth = sheet.put(f"{level} bw", rate)
    latency = sheet.put(f"{level} latency", source.nanoseconds(level))
    return (
        UNKNOWN if bandwidth is None else str(bandwidth.value),
        UNKNOWN if latency is None else str(latency.value),
    )


FORMAT = Format("sys-sage", "sys-sage: XML of components and data paths", write)

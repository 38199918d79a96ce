"""sys-sage: its XML of components and data paths, for `importFromXml`.

Cache and line sizes in bytes, associativity in ways. A data path from a cache, or memory, to each of its cores has
`latency` in nanoseconds and `bw` in bytes a second (our findings are 10^9 bytes), of one thread, not rounded; -1 is
sys-sage's word for unknown. First and second caches are assumed to be a core's own, others to be shared by the cores
of a memory node. sys-sage's reader takes a comment among components for a component, so origin, interval and method
are comments above them. Names: sys-sage, src/xml_load.cpp, xml_dump.cpp, enums.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from setebench.export.format import Format, Sheet
from setebench.export.source import GIGA, PRIVATE, Source
from setebench.export.values import Row, assumed, derived

LOGICAL = "1"
CHIP_CPU = "2"
UNKNOWN = "-1"
ATTRIBUTES = ("cache_size", "cache_associativity_ways", "cache_line_size")


def rows(source: Source) -> Iterator[Row]:
    for level in source.levels:
        known = (source.size(level), source.ways(level), source.line(level))
        yield from ((f"L{level} {name}", each) for name, each in zip(ATTRIBUTES, known, strict=True))
    for name in source.places:
        yield f"{name} bw", derived(lambda giga: giga * GIGA, "bytes/s", (source.bandwidth(name),))
        yield f"{name} latency", source.nanoseconds(name)
    for level in source.levels:
        if level not in PRIVATE:
            groups, why = source.sharing(level)
            yield f"L{level} cores", assumed(len(groups[0]), "cores", why)


class _Tree:
    """Components while they are made, with the addresses that relations name them by."""

    def __init__(self, source: Source, sheet: Sheet) -> None:
        self.source, self.sheet, self.addresses = source, sheet, count(1)
        self.relations = Element("Relations")

    def add(self, above: Element, kind: str, number: int, **more: str) -> Element:
        """A component below another one."""
        given = {"id": str(number), "name": kind, "addr": f"0x{next(self.addresses):x}"}
        return SubElement(above, kind, given | more)

    def cache(self, above: Element, level: int, number: int) -> Element:
        """A cache, with what is known of it."""
        given = {name: f"L{level} {name}" for name in ATTRIBUTES}
        known = {name: str(self.sheet.get(key)) for name, key in given.items() if key in self.sheet.values}
        return self.add(above, "Cache", number, cache_level=str(level), cache_type=str(level), **known)

    def path(self, level: str, start: Element, core: Element) -> None:
        """The data path from a cache, or from memory, to a core."""
        given = {name: str(self.sheet.get(f"{level} {name}", UNKNOWN)) for name in ("bw", "latency")}
        ends, number = f"{start.attrib['addr']} {core.attrib['addr']}", str(len(self.relations))
        base = {"components": ends, "ordered": "0", "id": number, "DataPathType": LOGICAL}
        SubElement(self.relations, "DataPath", base | given)

    def core(self, above: Element, core: tuple[int, ...], shared: dict[str, Element]) -> None:
        """A core with its own caches, its threads, and the paths to it."""
        number = self.source.cores.index(core)
        starts = dict(shared)
        for level in PRIVATE[::-1]:
            if level in self.source.levels:
                above = starts[f"l{level}"] = self.cache(above, level, number)
        made = self.add(above, "Core", number)
        for cpu in core:
            self.add(made, "HW_Thread", cpu)
        for level_name, start in starts.items():
            self.path(level_name, start, made)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    tree, root = _Tree(source, sheet), Element("sys-sage")
    topology = tree.add(SubElement(root, "Components"), "Topology", 0)
    chip = tree.add(topology, "Chip", 0, model=source.name, type=CHIP_CPU)
    size = str(source.facts.memory_bytes) if len(source.nodes) == 1 else UNKNOWN
    for node in source.nodes:
        above = tree.add(chip, "Memory", node.number, size=size, is_volatile="1")
        starts = {"memory": above}
        for level in reversed(source.levels):
            if level not in PRIVATE and node.cores:
                above = starts[f"l{level}"] = tree.cache(above, level, node.number)
        for core in node.cores:
            tree.core(above, core, starts)
    root.append(tree.relations)
    indent(root)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    said = [f"{key}: {each.comment}" for key, each in sheet.values.items()]
    for comment in (*source.heading("", "sys-sage topology"), *said, *sheet.missing("")):
        yield f"<!-- {comment.strip().replace('--', '- -')} -->"
    yield tostring(root, encoding="unicode")


FORMAT = Format("sys-sage", "sys-sage: XML of components and data paths", rows, lines)

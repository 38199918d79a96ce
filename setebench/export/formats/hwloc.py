"""hwloc: a topology in XML (version 2), for `lstopo --input FILE` and HWLOC_XMLFILE.

Cache sizes and line sizes in bytes, associativity in ways. `Latency` of a memory node in nanoseconds and `Bandwidth`
in MiB/s (our findings are 10^9 bytes), both rounded to the nearest; bandwidth is that of the load kernel with the
most threads that were measured. Caches' latencies have no place of their own and are `info` elements, in nanoseconds.
Cores and memory nodes are as the system shows them, nodes of memory alone without caches; first and second caches are
assumed to be a core's own, the third to be shared by a memory node. hwloc's own reader of XML knows no comments, so
origin, interval and method are `info` elements too. Names: hwloc 2.9, hwloc2.dtd, topology-xml.c, memattrs.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from setebench.export.format import Format, Sheet
from setebench.export.source import GIGA, PRIVATE, Cores, Source, same
from setebench.export.values import Known, Open, Row, Value, assumed, derived

MEBI = 1 << 20
ATTRIBUTES = {"size": "cache_size", "line": "cache_linesize", "ways": "cache_associativity"}
UNIFIED, DATA = "0", "1"


def rows(source: Source) -> Iterator[Row]:
    first = next((node for node in source.nodes if node.cores), source.nodes[0])
    for level in source.levels:
        if level not in PRIVATE:
            yield f"l{level}.cpuset", assumed(_mask(first.cpus), "", source.sharing(level)[1])
        yield f"l{level}.size", source.size(level)
        yield f"l{level}.line", source.line(level)
        yield f"l{level}.ways", source.ways(level)
        yield f"l{level}.latency", source.nanoseconds(f"l{level}")
    if len(source.nodes) > 1:  # what the facts have is that of all nodes together
        yield "local_memory", Open("memory_bytes", "the result does not say how much of it each node has")
    yield "Bandwidth", derived(lambda rate: rate * GIGA / MEBI, "MiB/s", (_bandwidth(source),))
    yield "Latency", derived(same, "ns", (source.nanoseconds("memory"),))


def _bandwidth(source: Source) -> Known:
    threads = sum(len(core) for core in source.cores)
    found = [source.bandwidth("memory", "load", number) for number in range(threads, 0, -1)]
    return next((known for known in found if isinstance(known, Value)), found[-1])


def _mask(members: Iterable[int]) -> str:
    """A bit set as hwloc writes it: words of 32 bits, the highest first."""
    bits = sum(1 << member for member in set(members))
    words = max(-(-bits.bit_length() // 32), 1)
    return ",".join(f"0x{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


class _Tree:
    """Objects while they are made, with numbers that count them."""

    def __init__(self, source: Source, sheet: Sheet) -> None:
        self.source, self.sheet, self.numbers = source, sheet, count(1)

    def add(self, above: Element, what: str, cpus: Iterable[int], nodes: Iterable[int], **more: object) -> Element:
        """An object below another one."""
        sets = {"cpuset": _mask(cpus), "nodeset": _mask(nodes)}
        sets |= {f"complete_{name}": mask for name, mask in sets.items()}
        given = {"type": what, **sets, "gp_index": str(next(self.numbers))}
        return SubElement(above, "object", given | {name: str(each) for name, each in more.items()})

    def cache(self, above: Element, level: int, cpus: Iterable[int], node: int) -> Element:
        """A cache, with what is known of it."""
        names = {f"l{level}.{ours}": name for ours, name in ATTRIBUTES.items()}
        given = {name: self.sheet.get(key) for key, name in names.items() if key in self.sheet.values}
        kind = DATA if level == 1 else UNIFIED
        return self.add(above, f"L{level}Cache", cpus, [node], **given, depth=level, cache_type=kind)

    def cores(self, above: Element, cores: Cores, node: int) -> None:
        """Cores of a node with their own caches."""
        for core in cores:
            inner = above
            for level in PRIVATE[::-1]:
                if level in self.source.levels:
                    inner = self.cache(inner, level, core, node)
            inner = self.add(inner, "Core", core, [node], os_index=self.source.cores.index(core))
            for cpu in core:
                self.add(inner, "PU", [cpu], [node], os_index=cpu)


def lines(source: Source, sheet: Sheet) -> Iterator[str]:
    """hwloc wants infos first, and puts a node of memory alone, which has no caches, below the whole machine."""
    tree, root = _Tree(source, sheet), Element("topology", {"version": "2.0"})
    nodes = source.nodes
    cpus, numbers = [cpu for node in nodes for cpu in node.cpus], [node.number for node in nodes]
    machine = tree.add(root, "Machine", cpus, numbers, os_index=0)
    machine.attrib |= {"allowed_cpuset": _mask(cpus), "allowed_nodeset": _mask(numbers)}
    infos = [("setebench", line.strip()) for line in source.heading("", "hwloc topology")]
    infos += [(f"setebench {key}", f"{each.value} {each.unit}; {each.comment}") for key, each in sheet.values.items()]
    infos += [(f"setebench left out {key}", reason) for key, reason in sheet.left_out.items()]
    for name, value in infos:
        SubElement(machine, "info", name=name, value=value)
    shared = [level for level in reversed(source.levels) if level not in PRIVATE]
    targets = {}
    for node in nodes:
        above = machine
        for level in shared if node.cores else ():
            above = tree.cache(above, level, node.cpus, node.number)
        if node.cores and not shared and len(nodes) > 1:  # something must hold a node and its cores
            above = tree.add(above, "Group", node.cpus, [node.number], kind=0, subkind=0)
        size = source.facts.memory_bytes if len(nodes) == 1 else 0
        made = tree.add(above, "NUMANode", node.cpus, [node.number], os_index=node.number, local_memory=size)
        targets[node.number] = made.attrib["gp_index"]
        tree.cores(above, node.cores, node.number)
    for name, flags in (("Bandwidth", "5"), ("Latency", "6")):  # what was measured is local
        if name in sheet.values:
            attribute = SubElement(root, "memattr", name=name, flags=flags)
            for node in (each for each in nodes if each.cores):
                where = {"target_obj_type": "NUMANode", "target_obj_gp_index": targets[node.number]}
                given = where | {"value": str(sheet.get(name)), "initiator_cpuset": _mask(node.cpus)}
                SubElement(attribute, "memattr_value", given)
    indent(root)
    yield from ('<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">')
    yield tostring(root, encoding="unicode")


FORMAT = Format("hwloc", "hwloc: topology XML with Latency and Bandwidth attributes", rows, lines)

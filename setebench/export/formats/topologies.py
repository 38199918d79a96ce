"""Topologies: hwloc, sys-sage and MT4G. Cache and line sizes are in bytes, associativity in ways.

Cores and memory nodes are as the system shows them; first and second caches are assumed to be a core's own, others to
be shared by the cores of a memory node. Nodes of memory alone have no caches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from setebench.export.source import PRIVATE, Node, Source
from setebench.export.values import Format, Open, Row, Sheet, Value, assumed, derived
from setebench.text import GIBI, KILO, MEBI

XML = '<?xml version="1.0" encoding="UTF-8"?>'
Add = Callable[[Element, str, int, Iterable[int], Node], Element]
"""Adds below an element one of a kind (memory, l1 to l4, core, thread, group) with a number and CPUs, of a node."""


def grown(
    source: Source, root: Element, add: Add, memory_outside: bool
) -> Iterator[tuple[Node, Element, dict[str, Element]]]:
    """Add all nodes, caches, cores and threads below `root`, memory above the caches of its node or beside its cores;
    for each core its node, its element, and the caches and memory that serve it, by name."""
    for node in source.nodes:
        above, serving = root, dict[str, Element]()
        if memory_outside:
            above = serving["memory"] = add(above, "memory", node.number, node.cpus, node)
        shared = [level for level in reversed(source.levels) if level not in PRIVATE and node.cores]
        for level in shared:
            above = serving[f"l{level}"] = add(above, f"l{level}", node.number, node.cpus, node)
        if not memory_outside:
            if node.cores and not shared and len(source.nodes) > 1:  # something must hold a node and its cores
                above = add(above, "group", node.number, node.cpus, node)
            serving["memory"] = add(above, "memory", node.number, node.cpus, node)
        for core in node.cores:
            number, inner, own = source.cores.index(core), above, dict(serving)
            for level in (level for level in reversed(PRIVATE) if level in source.levels):
                inner = own[f"l{level}"] = add(inner, f"l{level}", number, core, node)
            made = add(inner, "core", number, core, node)
            for cpu in core:
                add(made, "thread", cpu, (cpu,), node)
            yield node, made, own


def _caches(source: Source, names: Iterable[str]) -> Iterator[Row]:
    """Size, ways and line size of each level, by these names."""
    for level in source.levels:
        known = (source.size(level), source.ways(level), source.line(level))
        yield from ((f"l{level} {name}", each) for name, each in zip(names, known, strict=True))
        if level not in PRIVATE:
            groups, why = source.sharing(level)
            yield f"l{level} cores", assumed(len(groups[0]), "cores", why)


def _given(sheet: Sheet, level: str, names: Iterable[str]) -> dict[str, str]:
    return {name: str(sheet.get(f"{level} {name}")) for name in names if f"{level} {name}" in sheet.values}


# -- hwloc ------------------------------------------------------------------------------------------------------------

HWLOC = ("cache_size", "cache_associativity", "cache_linesize")
LOCAL = {"Bandwidth": "5", "Latency": "6"}  # flags: of these what is local was measured
KINDS = {"memory": "NUMANode", "core": "Core", "thread": "PU", "group": "Group"}


def hwloc_rows(source: Source) -> Iterator[Row]:
    """hwloc 2.9: a topology in XML for `lstopo --input FILE` and HWLOC_XMLFILE. `Latency` of a memory node in
    nanoseconds and `Bandwidth` of loads with one thread in MiB/s, rounded; caches' latencies, in nanoseconds, have no
    place of their own. Names: hwloc2.dtd, topology-xml.c, memattrs.h."""
    yield from _caches(source, HWLOC)
    yield from ((f"l{level} latency", source.nanoseconds(f"l{level}")) for level in source.levels)
    if len(source.nodes) > 1:  # what the facts have is that of all nodes together
        yield "local_memory", Open("memory_bytes", "the result does not say how much of it each node has")
    yield "Bandwidth", derived(lambda rate: rate / MEBI, "MiB/s", (source.bandwidth("memory"),))
    yield "Latency", derived(float, "ns", (source.nanoseconds("memory"),))


def _mask(members: Iterable[int]) -> str:
    """A bit set as hwloc writes it: words of 32 bits, the highest first."""
    bits = sum(1 << member for member in set(members))
    words = max(-(-bits.bit_length() // 32), 1)
    return ",".join(f"0x{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


def hwloc(source: Source, sheet: Sheet) -> Iterator[str]:
    """hwloc wants infos first, and puts a node of memory alone below the whole machine; its reader knows no comments,
    so origin, interval and method are infos."""
    numbers, nodes = count(1), [node.number for node in source.nodes]

    def made(above: Element, what: str, sets: tuple[Iterable[int], Iterable[int]], **more: object) -> Element:
        masks = dict(zip(("cpuset", "nodeset"), map(_mask, sets), strict=True))
        masks |= {f"complete_{name}": mask for name, mask in masks.items()}
        given = {"type": what, **masks, "gp_index": str(next(numbers))}
        return SubElement(above, "object", given | {name: str(each) for name, each in more.items()})

    def add(above: Element, kind: str, number: int, cpus: Iterable[int], node: Node) -> Element:
        sets = (cpus, (node.number,))
        if kind in KINDS:
            more: dict[str, object] = {"kind": 0, "subkind": 0} if kind == "group" else {"os_index": number}
            if kind == "memory":
                more["local_memory"] = source.facts.memory_bytes if len(source.nodes) == 1 else 0
            return made(above, KINDS[kind], sets, **more)
        kept = {"depth": kind[1:], "cache_type": int(kind == "l1")}
        return made(above, f"{kind.upper()}Cache", sets, **kept, **_given(sheet, kind, HWLOC))

    root, every = Element("topology", {"version": "2.0"}), [cpu for node in source.nodes for cpu in node.cpus]
    machine = made(root, "Machine", (every, nodes), os_index=0)
    machine.attrib |= {"allowed_cpuset": _mask(every), "allowed_nodeset": _mask(nodes)}
    infos = [("setebench", line.strip()) for line in source.heading("", "hwloc topology")]
    infos += [(f"setebench {key}", f"{each.value} {each.unit}; {each.comment}") for key, each in sheet.values.items()]
    infos += [(f"setebench left out {key}", reason) for key, reason in sheet.left_out.items()]
    for name, value in infos:
        SubElement(machine, "info", name=name, value=value)
    targets = {node: own["memory"] for node, _, own in grown(source, machine, add, memory_outside=False)}
    for name in (name for name in LOCAL if name in sheet.values):
        attribute = SubElement(root, "memattr", name=name, flags=LOCAL[name])
        for node, memory in targets.items():
            where = {"target_obj_type": "NUMANode", "target_obj_gp_index": memory.attrib["gp_index"]}
            given = where | {"value": str(sheet.get(name)), "initiator_cpuset": _mask(node.cpus)}
            SubElement(attribute, "memattr_value", given)
    indent(root)
    yield from (XML, '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', tostring(root, encoding="unicode"))


# -- sys-sage ---------------------------------------------------------------------------------------------------------

SAGE = ("cache_size", "cache_associativity_ways", "cache_line_size")
SAGE_KINDS = {"memory": "Memory", "core": "Core", "thread": "HW_Thread"}
LOGICAL, CHIP_CPU, UNKNOWN = "1", "2", "-1"


def sage_rows(source: Source) -> Iterator[Row]:
    """sys-sage: XML of components and data paths, for `importFromXml`. A data path from a cache, or memory, to each of
    its cores has `latency` in nanoseconds and `bw` in bytes a second, of one thread, not rounded; -1 is sys-sage's word
    for unknown. Names: src/xml_load.cpp, xml_dump.cpp, enums.hpp."""
    yield from _caches(source, SAGE)
    for name in source.places:
        yield f"{name} bw", source.bandwidth(name)
        yield f"{name} latency", source.nanoseconds(name)


def sys_sage(source: Source, sheet: Sheet) -> Iterator[str]:
    """Its reader takes a comment among components for a component, so comments stand above them."""
    addresses = count(1)
    size = str(source.facts.memory_bytes) if len(source.nodes) == 1 else UNKNOWN

    def made(above: Element, what: str, number: int, **more: str) -> Element:
        return SubElement(above, what, {"id": str(number), "name": what, "addr": f"0x{next(addresses):x}"} | more)

    def add(above: Element, kind: str, number: int, _cpus: Iterable[int], _node: Node) -> Element:
        if kind in SAGE_KINDS:
            return made(
                above, SAGE_KINDS[kind], number, **({"size": size, "is_volatile": "1"} if kind == "memory" else {})
            )
        level = kind[1:]
        return made(above, "Cache", number, cache_level=level, cache_type=level, **_given(sheet, kind, SAGE))

    root, relations = Element("sys-sage"), Element("Relations")
    topology = made(SubElement(root, "Components"), "Topology", 0)
    chip = made(topology, "Chip", 0, model=source.name, type=CHIP_CPU)
    for _, core, serving in grown(source, chip, add, memory_outside=True):
        for level, start in serving.items():
            own = {name: str(sheet.get(f"{level} {name}", UNKNOWN)) for name in ("bw", "latency")}
            ends = f"{start.attrib['addr']} {core.attrib['addr']}"
            base = {"components": ends, "ordered": "0", "id": str(len(relations)), "DataPathType": LOGICAL}
            SubElement(relations, "DataPath", base | own)
    root.append(relations)
    indent(root)
    yield XML
    said = [f"{key}: {each.comment}" for key, each in sheet.values.items()]
    for comment in (*source.heading("", "sys-sage topology"), *said, *sheet.missing("")):
        yield f"<!-- {comment.strip().replace('--', '- -')} -->"
    yield tostring(root, encoding="unicode")


# -- MT4G -------------------------------------------------------------------------------------------------------------


def mt4g_rows(source: Source) -> Iterator[Row]:
    """MT4G's JSON of a memory hierarchy, with the members that a CPU has. `latency.mean` is in cycles (not rounded),
    bandwidths in GiB/s, of one thread; `amount` is the number of such caches; `clockRate` in kHz, rounded. Statistics
    of MT4G's own are left out. Names: sample_results, and sys-sage's reader mt4g_v1_x.cpp."""
    yield "general.clockRate", derived(lambda hertz: hertz / KILO, "kHz", (source.hertz(),))
    for name in source.places:
        path = f"memory.{'main' if name == 'memory' else name}"
        if name != "memory":
            groups, why = source.sharing(int(name[1:]))
            yield f"{path}.amount", assumed(len(groups), "caches", why)
            yield f"{path}.size", source.size(int(name[1:]))
            yield f"{path}.lineSize", source.line(int(name[1:]))
        elif source.facts.memory_bytes:
            yield f"{path}.totalGlobalMem", assumed(source.facts.memory_bytes, "bytes", "as the system shows")
        yield f"{path}.latency", source.get(f"latency.{name}")
        for rate, kernel in (("readBandwidth", "load"), ("writeBandwidth", "store")):
            known = (source.bandwidth(name, kernel),)
            yield f"{path}.{rate}", derived(lambda number: number / GIBI, "GiB/s", known, "", float)


def mt4g(source: Source, sheet: Sheet) -> Iterator[str]:
    """Numbers with units, which are not the finding's words for them: those may be any text."""
    units = {"clockRate": "kHz", "latency": "cycles", "readBandwidth": "GiB/s", "writeBandwidth": "GiB/s"}
    names = {"latency": "mean", "size": "size", "lineSize": "size"}

    def member(path: str, each: Value) -> object:
        name = path.rpartition(".")[2]
        if name == "amount":
            return each.value
        how = {names[name]: each.value, "method": each.why} if name in names else {}
        return {"value": each.value, "unit": units.get(name, "bytes"), **how}

    document = {"general": {}, "memory": {}} | sheet.nested(member)
    document["general"]["name"] = source.name
    about = sheet.provenance(source.heading("", "in the form of MT4G"))
    document["meta"] = {"timestamp": source.document.started, "hostCpu": source.name, "setebench": about}
    yield json.dumps(document, indent=4)


FORMATS = (
    Format("hwloc", "hwloc: topology XML with Latency and Bandwidth attributes", hwloc_rows, hwloc),
    Format("sys-sage", "sys-sage: XML of components and data paths", sage_rows, sys_sage),
    Format("mt4g", "MT4G: JSON of the memory hierarchy", mt4g_rows, mt4g),
)

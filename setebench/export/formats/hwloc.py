"""hwloc: a topology in XML (version 2), for `lstopo --input FILE` and HWLOC_XMLFILE.

Cache sizes and line sizes in bytes, associativity in ways. `Latency` of a memory node in nanoseconds and `Bandwidth`
in MiB/s (our findings are 10^9 bytes), both rounded to the nearest; bandwidth is that of the load kernel with the
most threads that were measured. Caches' latencies have no place of their own and are `info` elements, in nanoseconds.
Cores and memory nodes are as the system shows them, nodes of memory alone without caches; first and second caches are
assumed to be a core's own, the third to be shared by a memory node. hwloc's own reader of XML knows no comments, so
origin, interval and method are `info` elements too. Names: hwloc 2.9, hwloc2.dtd, topology-xml.c, memattrs.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from xml.sax.saxutils import quoteattr

from setebench.export.format import Format
from setebench.export.source import PRIVATE, Node, Source
from setebench.export.values import Entry, Known, Open, Sheet, Value, assumed, derived

MEBI = 1 << 20
GIGA = 1e9
ATTRIBUTES = {"size": "cache_size", "line": "cache_linesize", "ways": "cache_associativity"}
UNIFIED, DATA = 0, 1
WORD_BITS = 32


def write(source: Source) -> str:
    """The XML document."""
    nodes = source.nodes
    cpus = [cpu for node in nodes for cpu in node.cpus]
    ids = count(1)
    sheet = Sheet()
    everything = _sets(cpus, [node.number for node in nodes])
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">']
    lines += ['<topology version="2.0">', f'<object type="Machine" os_index="0" {everything} gp_index="{next(ids)}">']
    targets: dict[int, int] = {}
    below = [line for node in nodes for line in _node(source, sheet, node, ids, targets)]
    attributes = list(_attributes(source, sheet, nodes, targets))
    lines += [*_infos(source, sheet), *below, "</object>", *attributes, "</topology>"]  # hwloc wants infos first
    return "\n".join(lines) + "\n"


def _sets(cpus: Iterable[int], nodes: Iterable[int]) -> str:
    names = ("{}", "complete_{}", "allowed_{}")
    masks = (("cpuset", _mask(cpus)), ("nodeset", _mask(nodes)))
    return " ".join(f'{name.format(kind)}="{mask}"' for kind, mask in masks for name in names)


def _mask(members: Iterable[int]) -> str:
    """A bit set as hwloc writes it: words of 32 bits, the highest first."""
    bits = sum(1 << member for member in set(members))
    words: list[str] = []
    while bits or not words:
        words.append(f"0x{bits & ((1 << WORD_BITS) - 1):08x}")
        bits >>= WORD_BITS
    return ",".join(reversed(words))


def _own(cpus: Iterable[int], node: Node) -> str:
    """The sets of an object below the machine: without the allowed ones, which only the machine has."""
    cpu, memory = _mask(cpus), _mask([node.number])
    return f'cpuset="{cpu}" complete_cpuset="{cpu}" nodeset="{memory}" complete_nodeset="{memory}"'


def _node(source: Source, sheet: Sheet, node: Node, ids: Iterator[int], targets: dict[int, int]) -> Iterator[str]:
    """A node of memory alone has no CPUs of its own, and so no caches: hwloc then puts it below the whole machine."""
    shared = [level for level in reversed(source.levels) if level not in PRIVATE and node.cores]
    for level in shared:
        _once(sheet, f"l{level}.cpuset", assumed(_mask(node.cpus), "", source.sharing(level)[1]))
        yield _cache(source, sheet, level, f'{_own(node.cpus, node)} gp_index="{next(ids)}"')
    grouped = bool(node.cores) and not shared and len(source.nodes) > 1  # something must hold a node and its cores
    if grouped:
        yield f'<object type="Group" {_own(node.cpus, node)} gp_index="{next(ids)}" kind="0" subkind="0">'
    targets[node.number] = next(ids)
    yield (
        f'<object type="NUMANode" os_index="{node.number}" {_own(node.cpus, node)} gp_index="{targets[node.number]}" '
        f'local_memory="{_memory(source, sheet)}"/>'
    )
    for core in node.cores:
        below = [level for level in PRIVATE[::-1] if source.has_level(level)]
        for level in below:
            yield _cache(source, sheet, level, f'{_own(core, node)} gp_index="{next(ids)}"')
        number = source.cores.index(core)
        yield f'<object type="Core" os_index="{number}" {_own(core, node)} gp_index="{next(ids)}">'
        for cpu in core:
            yield f'<object type="PU" os_index="{cpu}" {_own([cpu], node)} gp_index="{next(ids)}"/>'
        yield "</object>" * (len(below) + 1)
    yield "</object>" * (len(shared) + grouped)


def _memory(source: Source, sheet: Sheet) -> int:
    """Of a node. What the facts have is that of all nodes together."""
    if len(source.nodes) > 1:
        sheet.put("local_memory", Open("memory_bytes", "the result does not say how much of it each node has"))
        return 0
    return source.facts.memory_bytes


def _cache(source: Source, sheet: Sheet, level: int, place: str) -> str:
    known = {"size": source.size(level), "line": source.line(level), "ways": source.ways(level)}
    given = {}
    for name, each in known.items():
        if _once(sheet, f"l{level}.{name}", each) is not None and isinstance(each, Value):
            given[ATTRIBUTES[name]] = each.value
    _once(sheet, f"l{level}.latency", source.nanoseconds(f"l{level}"))
    text = " ".join(f'{key}="{value}"' for key, value in given.items())
    kind = DATA if level == 1 else UNIFIED
    return f'<object type="L{level}Cache" {place} {text} depth="{level}" cache_type="{kind}">'


def _once(sheet: Sheet, key: str, known: Known) -> Value | None:
    """Put it unless another core's cache has put the same."""
    if any(entry.key == key for entry in sheet.entries):
        return known if isinstance(known, Value) else None
    return sheet.put(key, known)


def _infos(source: Source, sheet: Sheet) -> Iterator[str]:
    for line in source.heading("", "hwloc topology"):
        yield _info("setebench", line.strip())
    for entry in sheet.entries:
        yield _info(f"setebench {entry.key}", _said(entry))
    for key, reason in sheet.left_out.items():
        yield _info(f"setebench left out {key}", reason)


def _said(entry: Entry) -> str:
    return f"{entry.value.value} {entry.value.unit}; {entry.value.comment}"


def _info(name: str, value: str) -> str:
    return f"<info name={quoteattr(name)} value={quoteattr(value)}/>"


def _attributes(source: Source, sheet: Sheet, nodes: Sequence[Node], targets: dict[int, int]) -> Iterator[str]:
    """Latency and Bandwidth of each node for its own CPUs: what was measured is local."""
    latency = derived(lambda ns: ns, "ns", (source.nanoseconds("memory"),), "")
    bandwidth = derived(lambda rate: rate * GIGA / MEBI, "MiB/s", (_bandwidth(source),), "")
    for name, flags, known in (("Bandwidth", 5, bandwidth), ("Latency", 6, latency)):
        if sheet.put(name, known) is None or isinstance(known, Open):
            continue
        yield f'<memattr name="{name}" flags="{flags}">'
        for node in (each for each in nodes if each.cores):
            yield (
                f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="{targets[node.number]}" '
                f'value="{known.value}" initiator_cpuset="{_mask(node.cpus)}"/>'
            )
        yield "</memattr>"


def _bandwidth(source: Source) -> Known:
    threads = sum(len(core) for core in source.cores)
    found = [source.load_bandwidth("memory", number) for number in range(threads, 0, -1)]
    return next((known for known in found if isinstance(known, Value)), found[-1])


FORMAT = Format("hwloc", "hwloc: topology XML with Latency and Bandwidth attributes", write)

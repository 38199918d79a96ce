"""What is wrong with a machine file: msgspec's word on single fields, and rules across fields, where each field is
allowed alone but no memory system could be."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.files.toml_lines import Path
from setebench.sim.pmu.sense import AMOUNTS, mistaken_for, possible_faults
from setebench.sim.spec.capacity import usable_lines
from setebench.sim.spec.fields import PREFETCHERS, TableType, allowed, kind_of, literals, table_fields, tables_in
from setebench.sim.spec.replacement_ages import ages

MOST_LINES = 10 << 20
"""Cache lines of all caches together: 512 MiB of the last level and all private ones. Keeps a simulated machine's tag
arrays within about 200 MB."""

MOST_CHANGE = 0.2
"""How much of its mean a core's frequency may change, up or down, in all."""

MOST_TLB_WAYS = 4096
"""Ways of a fully associative TLB, which is searched one by one."""

MOST_CHARACTERS = 300
KINDS = f"one of {', '.join(str(kind_of(each)) for each in PREFETCHERS)}"

Rules = Iterator[tuple[object, str, str]]
"""(true where the rule is broken, the field, what is wrong)."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: `levels[0].ways`, or nothing where all of a file is meant."""

    name: str
    message: str

    @property
    def path(self) -> Path:
        """The field as keys and list indices."""
        parts = re.findall(r"\[(\d+)\]|([^.\[\]]+)", self.name)
        return tuple(int(index) if index else key for index, key in parts)


def converted(data: dict[str, Any]) -> spec.Machine | Problem:
    """The machine that parsed TOML describes, or the first of its fields that can't be."""
    try:
        return msgspec.convert(data, spec.Machine)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        unknown = re.search(r"unknown field `(.*)`", message, re.DOTALL)
        where = place.rpartition("$")[2].strip("`") + (f".{unknown[1]}" if unknown else "")
        name, message = (_printable(text) for text in (where.replace("[...]", "").lstrip("."), message))
        problem = Problem(name, message)
        may_be = _allowed(data, problem.path)
        return Problem(name, f"{message}; allowed: {may_be}") if may_be else problem


def _allowed(data: Any, path: Path) -> str:
    """What may stand at a place of parsed TOML, in words; nothing where no field has such a place."""
    tables: tuple[TableType, ...] = (spec.Machine,)
    found = ""
    for part in path:
        if isinstance(part, int):
            data = data[part] if isinstance(data, list) else None
            tables = tuple(each for each in tables if kind_of(each) in (None, (data or {}).get("kind")))
            continue
        data = data.get(part) if isinstance(data, dict) else None
        fields = [table_fields(each)[part] for each in tables if part in table_fields(each)]
        found = allowed(fields[0]) if fields else KINDS if part == "kind" else ""
        tables = tuple(tables_in(fields[0].type)) if fields else ()
    return found


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)[:MOST_CHARACTERS]


def field_problems(data: dict[str, Any]) -> list[Problem]:
    """The first of the single fields of a parsed machine file that can't be, if there is one."""
    found = converted(data)
    return [found] if isinstance(found, Problem) else []


def sense_problems(machine: spec.Machine) -> list[Problem]:
    """Contradictions between the fields of a machine, in no particular order."""
    rules = (_values(machine, ""), _clock(machine), _core(machine), _caches(machine), _level_details(machine))
    more = (_tlbs(machine), _memory(machine), _hints(machine), _prefetchers(machine), _coherence(machine))
    every = itertools.chain(*rules, *more, _pmu(machine))
    return [Problem(name, message) for broken, name, message in every if broken]


def _values(node: Any, name: str) -> Rules:
    """Powers of two, and lists that stand for a set of choices."""
    if isinstance(node, tuple):
        for index, each in enumerate(node):
            yield from _values(each, f"{name}[{index}]")
    if not isinstance(node, msgspec.Struct):
        return
    for field in table_fields(type(node)).values():
        value, inside = getattr(node, field.name), f"{name}.{field.name}".lstrip(".")
        if field.power_of_two:
            yield value & (value - 1), inside, f"{value} is not a power of two"
        elif isinstance(value, tuple) and any(map(literals, getattr(field.type, "__args__", ()))):
            yield len(set(value)) < len(value), inside, "an element stands there twice"
        yield from _values(value, inside)


def _clock(machine: spec.Machine) -> Rules:
    clock = machine.clock
    stands = clock.step_ticks > 0.01 * clock.ticks_per_second
    yield stands, "clock.step_ticks", "a step of more than 10 ms; the clock would stand still"
    changes = f"{clock.jump:g} and a drift of {clock.drift:g} are more than {MOST_CHANGE:g}"
    yield clock.drift + clock.jump > MOST_CHANGE, "clock.jump", changes


def _core(machine: spec.Machine) -> Rules:
    core, noise, first = machine.core, machine.noise, machine.levels[0]
    yield 8 not in core.access_sizes, "core.access_sizes", "8 must be among them: latencies are those of 8-byte loads"
    for name in ("blocking_load", "blocking_store", "blocking_prefetch"):
        broken = core.out_of_order and getattr(core, name)
        yield broken, f"core.{name}", "true needs an in-order core (out_of_order = false)"
    held = noise.co_runner_entries * (core.threads_per_core if first.mshr_shared_by_smt else 1)
    none_left = noise.co_runner_interval_cycles and 0 < first.mshr_entries <= held
    yield none_left, "noise.co_runner_entries", f"of {first.mshr_entries} mshr_entries {held} leave none"


def _caches(machine: spec.Machine) -> Rules:
    sizes = [usable_lines(level) for level in machine.levels]
    for number, (above, below) in enumerate(itertools.pairwise(machine.levels), 1):
        small = (
            f"level {number + 1} holds {sizes[number]} lines, not more than the {sizes[number - 1]} of level {number}"
        )
        yield sizes[number] <= sizes[number - 1], f"levels[{number}].sets", small
        fast = f"{below.latency_cycles:g} is not more than the {above.latency_cycles:g} of level {number}"
        yield below.latency_cycles <= above.latency_cycles, f"levels[{number}].latency_cycles", fast
    lines = machine.core.cores * sum(sizes[:2]) + sum(sizes[2:])
    yield lines > MOST_LINES, "levels", f"all caches hold {lines} lines; at most {MOST_LINES} can be simulated"


def _level_details(machine: spec.Machine) -> Rules:
    private = sum(usable_lines(level) for level in machine.levels[:2])
    for index, level in enumerate(machine.levels):
        at = f"levels[{index}]"
        odd = level.sets & (level.sets - 1) and (level.hashed_index or not index)
        yield odd, f"{at}.sets", f"{level.sets} is no power of two, as level 1 and a hashed index need"
        yield level.slices > 1 and index != 2, f"{at}.slices", f"{level.slices} is for level 3"
        yield level.slices > 1 and level.hashed_index, f"{at}.hashed_index", "a level with slices has a hash already"
        yield level.physical_index and index, f"{at}.physical_index", "true is for level 1; the others always are"
        yield level.way_tag_bits and index, f"{at}.way_tag_bits", f"{level.way_tag_bits} is for level 1"
        partition = f"{level.allocated_ways} of only {level.ways} ways"
        yield level.allocated_ways > level.ways, f"{at}.allocated_ways", partition
        yield level.inclusion == "victim" and index != 2, f"{at}.inclusion", '"victim" is for level 3'
        named = 'names the variant where replacement is "qlru", and only there'
        yield (level.replacement == "qlru") != bool(level.qlru), f"{at}.qlru", named
        unknown = level.qlru and ages(level.qlru) is None
        yield unknown, f"{at}.qlru", f'"{level.qlru}" is no variant; an example is "H11_M1_R0_U0"'
        both = bool(level.directory_sets) == bool(level.directory_ways)
        yield not both, f"{at}.directory_ways", "directory_sets and directory_ways are both 0 or neither"
        lines = level.directory_sets * level.directory_ways
        wrong = lines and (index != 2 or level.inclusion == "inclusive")
        yield wrong, f"{at}.directory_sets", "a directory is for a level 3 that isn't inclusive"
        few = f"a directory of {lines} lines can't hold those of one core's caches"
        yield 0 < lines <= private and not wrong, f"{at}.directory_sets", few
        for name in ("mshr_demand_limit", "mshr_prefetch_limit", "mshr_hardware_limit"):
            limit = getattr(level, name)
            yield 0 < level.mshr_entries < limit, f"{at}.{name}", f"{limit} of only {level.mshr_entries} mshr_entries"


def _tlbs(machine: spec.Machine) -> Rules:
    tlb = machine.tlb
    both = (tlb.l1_4k_store is None) == (tlb.l1_2m_store is None)
    yield not both, "tlb", "l1_4k_store and l1_2m_store are given both or not at all"
    for name in ("l1_4k", "l2_4k", "l1_2m", "l2_2m", "l1_4k_store", "l1_2m_store"):
        table: spec.TlbTable = getattr(tlb, name) or spec.TlbTable()
        entries, ways = table.entries, table.ways
        whole = f"0 (fully associative) is for at most {MOST_TLB_WAYS} entries, not {entries}"
        yield not ways and entries > MOST_TLB_WAYS, f"tlb.{name}.ways", whole
        sets = entries // ways if ways else 1
        uneven = entries and ways and (sets * ways != entries or sets & (sets - 1))
        yield uneven, f"tlb.{name}.ways", f"{entries} entries / {ways} ways is not a power of two of sets"
        unsorted = f'"{table.index}" is for a table of sets, with ways of 1 or more'
        yield not ways and table.index != "linear", f"tlb.{name}.index", unsorted
        shares = table.pages_per_entry > 1 and "2m" in name
        yield shares, f"tlb.{name}.pages_per_entry", "only 4 KiB pages share an entry"
    for size in ("4k", "2m"):
        first, second = getattr(tlb, f"l1_{size}"), getattr(tlb, f"l2_{size}")
        for name in ("entries", "miss_penalty_cycles") if first.entries and second.entries else ():
            near, far = getattr(first, name), getattr(second, name)
            yield far < near, f"tlb.l2_{size}.{name}", f"{far:g} is less than the {near:g} of level 1"


def _memory(machine: spec.Machine) -> Rules:
    memory, last = machine.memory, machine.levels[-1].latency_cycles
    least = memory.latency_cycles - memory.spread_cycles - memory.row_hit_saves_cycles
    slow = f"{memory.latency_cycles:g} less spread_cycles and row_hit_saves_cycles is not more than the {last:g} of the"
    yield least <= last, "memory.latency_cycles", f"{slow} last level"
    bankless = memory.row_bytes and (not memory.banks or memory.row_bytes < machine.line_size_bytes)
    yield bankless, "memory.row_bytes", "rows are of banks (1 or more), and hold at least a line"
    rowless = memory.row_hit_saves_cycles and not memory.row_bytes
    yield rowless, "memory.row_hit_saves_cycles", "needs rows (row_bytes)"
    yield 4096 not in memory.page_sizes, "memory.page_sizes", "4096 must be among them"
    yield memory.bytes % (1 << 21), "memory.bytes", f"{memory.bytes} is not a multiple of 2097152"


def _hints(machine: spec.Machine) -> Rules:
    for name, hint in machine.software_prefetch.hints.items():
        at = f"software_prefetch.hints.{name}"
        yield hint.fills == "l3" and len(machine.levels) < 3, f"{at}.fills", '"l3", but there are only two levels'
        inside = hint.fills == "l1" and machine.levels[1].inclusion != "inclusive"
        needs = 'true needs fills = "l1" and a level 2 that is not inclusive'
        yield hint.bypasses_l2 and not inside, f"{at}.bypasses_l2", needs


def _prefetchers(machine: spec.Machine) -> Rules:
    kinds = [(each.level, kind_of(type(each))) for each in machine.prefetchers]
    for index, each in enumerate(machine.prefetchers):
        at, first = f"prefetchers[{index}]", each.level == 1
        again = f'a second "{kinds[index][1]}" at level {each.level}; one of a kind per level'
        yield kinds[index] in kinds[:index], f"{at}.kind", again
        above = f'"{each.fills}" for a prefetcher of level {each.level}, with {len(machine.levels)} levels'
        yield not each.level <= int(each.fills[1]) <= len(machine.levels), f"{at}.fills", above
        asks = first and "l1_prefetcher" in each.trained_by
        yield asks, f"{at}.trained_by", '"l1_prefetcher" is for prefetchers of level 2'
        yield first and each.shared_by_cores, f"{at}.shared_by_cores", "true is for prefetchers of level 2"
        crosses = "false, but crosses_4k is true; what crosses in small pages crosses in large ones"
        yield each.crosses_4k and not each.crosses_4k_in_2m, f"{at}.crosses_4k_in_2m", crosses
        yield from _own(machine, each, at)


def _own(machine: spec.Machine, each: spec.AnyPrefetcher, at: str) -> Rules:
    """Fields of single kinds."""
    if isinstance(each, spec.Streamer | spec.Stride):
        far = f"{each.degree} is more than max_distance {each.max_distance}"
        yield each.degree > each.max_distance, f"{at}.degree", far
    if isinstance(each, spec.Streamer):
        four = "needs four numbers (line 0, 1, last but one, last) or none"
        yield len(each.trigger_at_page_edge) not in (0, 4), f"{at}.trigger_at_page_edge", four
        unasked = each.trigger_by_l1_prefetcher and "l1_prefetcher" not in each.trained_by
        yield unasked, f"{at}.trigger_by_l1_prefetcher", 'needs "l1_prefetcher" in trained_by'
        one_way = each.streams_per_page == 2 and each.directions != "both"
        yield one_way, f"{at}.streams_per_page", '2 (one upwards, one downwards) needs directions = "both"'
    elif isinstance(each, spec.Stride):
        least = f"{each.min_stride_bytes} is more than max_stride_bytes {each.max_stride_bytes}"
        yield each.min_stride_bytes > each.max_stride_bytes, f"{at}.min_stride_bytes", least
    elif isinstance(each, spec.Region | spec.SpatialPattern):
        lines = each.region_size_bytes // machine.line_size_bytes
        few = f"{lines} lines; allowed: 2 to 64 lines of {machine.line_size_bytes} bytes"
        yield not 2 <= lines <= 64, f"{at}.region_size_bytes", few
    elif isinstance(each, spec.FeedbackStream):
        low = f"{each.low_percent} is more than high_percent {each.high_percent}"
        yield each.low_percent > each.high_percent, f"{at}.low_percent", low


def _coherence(machine: spec.Machine) -> Rules:
    table, cores = machine.coherence.distance_cycles, machine.core.cores
    uneven = table and [len(row) for row in table] != [cores] * cores
    yield uneven, "coherence.distance_cycles", f"must have {cores} rows of {cores} numbers, one per core, or be empty"


def _pmu(machine: spec.Machine) -> Rules:
    for role, faults in ({} if machine.pmu is None else machine.pmu.events).items():
        at, possible = f"pmu.events.{role}", possible_faults(role)
        yield len({fault.kind for fault in faults}) < len(faults), at, "a kind of fault stands there twice"
        for index, fault in enumerate(faults):
            impossible = f'an event of {role} can\'t have "{fault.kind}"; allowed: {", ".join(possible)}'
            yield fault.kind not in possible, f"{at}[{index}].kind", impossible
            low, high = AMOUNTS.get(fault.kind, (0.0, 0.0))
            sizes = f"{low:g} to {high:g}" if high else "0, as this fault has no size"
            size = f'{fault.amount:g} for "{fault.kind}"; allowed: {sizes}'
            yield not low <= fault.amount <= high, f"{at}[{index}].amount", size
            others = mistaken_for(role) if fault.kind == "other_level" else ("",)
            wrong = f'"{fault.role}" for "{fault.kind}"; allowed: ' + ", ".join(f'"{other}"' for other in others)
            yield fault.role not in others, f"{at}[{index}].role", wrong
            alone = fault.kind == "undercounts_smt" and machine.core.threads_per_core == 1
            yield alone, f"{at}[{index}].kind", '"undercounts_smt" needs threads_per_core of 2 or more'

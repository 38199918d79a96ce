"""Checks of a machine file across fields: what each field allows alone but no memory system could be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from setebench.sim import spec
from setebench.sim.files.toml_lines import Path
from setebench.sim.spec.capacity import usable_lines
from setebench.sim.spec.check_fields import Problem
from setebench.sim.spec.check_pmu import pmu_problems
from setebench.sim.spec.fields import kind_of
from setebench.sim.spec.replacement_ages import ages

MOST_LINES = 10 << 20
"""Cache lines of all caches together: 512 MiB of the last level and all private ones. Keeps a simulated machine's tag
arrays within about 200 MB."""

MOST_CHANGE = 0.2
"""How much of its mean a core's frequency may change, up or down, in all."""

MOST_TLB_WAYS = 4096
"""Ways of a fully associative TLB, which is searched one by one."""


def sense_problems(machine: spec.Machine) -> list[Problem]:
    """Contradictions between the fields of a machine, in no particular order."""
    checks = (_clock, _core, _caches, _level_details, _tlbs, _memory, _hints, _prefetchers, _coherence, pmu_problems)
    return [problem for check in checks for problem in check(machine)]


def _clock(machine: spec.Machine) -> Iterator[Problem]:
    clock = machine.clock
    if clock.step_ticks > 0.01 * clock.ticks_per_second:
        yield Problem(("clock", "step_ticks"), "a step of more than 10 ms; the clock would stand still")
    if clock.drift + clock.jump > MOST_CHANGE:
        yield Problem(("clock", "jump"), f"{clock.jump:g} and a drift of {clock.drift:g} are more than {MOST_CHANGE:g}")


def _core(machine: spec.Machine) -> Iterator[Problem]:
    core = machine.core
    if 8 not in core.access_sizes:
        yield Problem(("core", "access_sizes"), "8 must be among them: latencies are those of 8-byte loads")
    for name in ("blocking_load", "blocking_store", "blocking_prefetch"):
        if core.out_of_order and getattr(core, name):
            yield Problem(("core", name), "true needs an in-order core (out_of_order = false)")
    noise, first = machine.noise, machine.levels[0]
    entries, visitors = first.mshr_entries, core.threads_per_core if first.mshr_shared_by_smt else 1
    if noise.co_runner_interval_cycles and 0 < entries <= visitors * noise.co_runner_entries:
        yield Problem(
            ("noise", "co_runner_entries"),
            f"{noise.co_runner_entries} a thread of {entries} mshr_entries leave none",
        )


def _caches(machine: spec.Machine) -> Iterator[Problem]:
    sizes = [usable_lines(level) for level in machine.levels]
    for number, (above, below) in enumerate(itertools.pairwise(machine.levels), 1):
        if sizes[number] <= sizes[number - 1]:
            yield Problem(
                ("levels", number, "sets"),
                f"level {number + 1} holds {sizes[number]} lines (sets * ways{_slices(below)}), not more than the "
                f"{sizes[number - 1]} of level {number}",
            )
        if below.latency_cycles <= above.latency_cycles:
            yield Problem(
                ("levels", number, "latency_cycles"),
                f"{below.latency_cycles:g} is not more than the {above.latency_cycles:g} of level {number}",
            )
    lines = machine.core.cores * sum(sizes[:2]) + sum(sizes[2:])
    if lines > MOST_LINES:
        yield Problem(("levels",), f"all caches together hold {lines} lines; at most {MOST_LINES} can be simulated")


def _slices(level: spec.Level) -> str:
    return " * slices" if level.slices > 1 else ""


def _level_details(machine: spec.Machine) -> Iterator[Problem]:
    for index, level in enumerate(machine.levels):
        path: Path = ("levels", index)
        yield from _index(level, index)
        if index and level.physical_index:
            yield Problem((*path, "physical_index"), "true is for level 1; the others' index is always physical")
        if index and level.way_tag_bits:
            yield Problem((*path, "way_tag_bits"), "ways are predicted in level 1 only")
        if level.slices > 1 and index != 2:
            yield Problem((*path, "slices"), f"{level.slices} slices are for level 3")
        if level.slices > 1 and level.hashed_index:
            yield Problem((*path, "hashed_index"), "true is for a level without slices, whose choice is a hash already")
        if level.allocated_ways > level.ways:
            yield Problem((*path, "allocated_ways"), f"{level.allocated_ways} of only {level.ways} ways")
        if level.inclusion == "victim" and index != 2:
            yield Problem((*path, "inclusion"), '"victim" is for level 3')
        yield from _variant(level, path)
        yield from _directory(machine, index)
        for name in ("mshr_demand_limit", "mshr_prefetch_limit", "mshr_hardware_limit"):
            if 0 < level.mshr_entries < getattr(level, name):
                yield Problem(
                    ("levels", index, name), f"{getattr(level, name)} of only {level.mshr_entries} mshr_entries"
                )


def _index(level: spec.Level, index: int) -> Iterator[Problem]:
    if level.sets & (level.sets - 1) and (level.hashed_index or not index):
        yield Problem(("levels", index, "sets"), f"{level.sets} is no power of two, as level 1 and a hashed index need")


def _directory(machine: spec.Machine, index: int) -> Iterator[Problem]:
    level = machine.levels[index]
    path: Path = ("levels", index)
    lines = level.directory_sets * level.directory_ways
    if bool(level.directory_sets) != bool(level.directory_ways):
        yield Problem((*path, "directory_ways"), "directory_sets and directory_ways are both 0 or neither")
    elif lines and (index != 2 or level.inclusion == "inclusive"):
        yield Problem((*path, "directory_sets"), "a directory is for a level 3 that isn't inclusive")
    elif lines and lines <= sum(usable_lines(private) for private in machine.levels[:2]):
        yield Problem((*path, "directory_sets"), f"a directory of {lines} lines can't hold those of one core's caches")


def _variant(level: spec.Level, path: Path) -> Iterator[Problem]:
    if (level.replacement == "qlru") != bool(level.qlru):
        yield Problem((*path, "qlru"), 'names the variant where replacement is "qlru", and only there')
    elif level.qlru and ages(level.qlru) is None:
        yield Problem((*path, "qlru"), f'"{level.qlru}" is no variant; an example is "H11_M1_R0_U0"')


def _tlbs(machine: spec.Machine) -> Iterator[Problem]:
    tlb = machine.tlb
    if (tlb.l1_4k_store is None) != (tlb.l1_2m_store is None):
        yield Problem(("tlb",), "l1_4k_store and l1_2m_store are given both or not at all")
    for name in ("l1_4k", "l2_4k", "l1_2m", "l2_2m", "l1_4k_store", "l1_2m_store"):
        table: spec.TlbTable | None = getattr(tlb, name)
        if table is not None:
            yield from _tlb_table(table, ("tlb", name))
    for size in ("4k", "2m"):
        first, second = getattr(tlb, f"l1_{size}"), getattr(tlb, f"l2_{size}")
        if first.entries and second.entries and second.entries < first.entries:
            yield Problem(
                ("tlb", f"l2_{size}", "entries"), f"{second.entries} is less than the {first.entries} of level 1"
            )
        if first.entries and second.entries and second.miss_penalty_cycles < first.miss_penalty_cycles:
            yield Problem(
                ("tlb", f"l2_{size}", "miss_penalty_cycles"),
                f"{second.miss_penalty_cycles:g} is less than the {first.miss_penalty_cycles:g} of level 1",
            )


def _tlb_table(table: spec.TlbTable, path: Path) -> Iterator[Problem]:
    if not table.ways and table.entries > MOST_TLB_WAYS:
        yield Problem(
            (*path, "ways"), f"0 (fully associative) is for at most {MOST_TLB_WAYS} entries, not {table.entries}"
        )
    if table.entries and table.ways and not _power_of_two(table.entries / table.ways):
        yield Problem((*path, "ways"), f"{table.entries} entries / {table.ways} ways is not a power of two of sets")
    if not table.ways and table.index != "linear":
        yield Problem((*path, "index"), f'"{table.index}" is for a table of sets, with ways of 1 or more')
    if table.pages_per_entry > 1 and "2m" in str(path[-1]):
        yield Problem((*path, "pages_per_entry"), "only 4 KiB pages share an entry")


def _memory(machine: spec.Machine) -> Iterator[Problem]:
    memory, last = machine.memory, machine.levels[-1]
    saved = f" and row_hit_saves_cycles {memory.row_hit_saves_cycles:g}" if memory.row_bytes else ""
    if memory.latency_cycles - memory.spread_cycles - memory.row_hit_saves_cycles <= last.latency_cycles:
        yield Problem(
            ("memory", "latency_cycles"),
            f"{memory.latency_cycles:g} less spread_cycles {memory.spread_cycles:g}{saved} is not more than the "
            f"{last.latency_cycles:g} of level {len(machine.levels)}",
        )
    if memory.row_bytes and (not memory.banks or memory.row_bytes < machine.line_size_bytes):
        yield Problem(("memory", "row_bytes"), "rows are of banks (1 or more), and hold at least a line")
    if memory.row_hit_saves_cycles and not memory.row_bytes:
        yield Problem(("memory", "row_hit_saves_cycles"), "needs rows (row_bytes)")
    if 4096 not in memory.page_sizes:
        yield Problem(("memory", "page_sizes"), "4096 must be among them")
    if memory.bytes % (1 << 21):
        yield Problem(("memory", "bytes"), f"{memory.bytes} is not a multiple of 2097152")


def _hints(machine: spec.Machine) -> Iterator[Problem]:
    for name, hint in machine.software_prefetch.hints.items():
        path: Path = ("software_prefetch", "hints", name)
        if hint.fills == "l3" and len(machine.levels) < 3:
            yield Problem((*path, "fills"), '"l3", but there are only two levels')
        if hint.bypasses_l2 and (hint.fills != "l1" or machine.levels[1].inclusion == "inclusive"):
            yield Problem((*path, "bypasses_l2"), 'true needs fills = "l1" and a level 2 that is not inclusive')


def _prefetchers(machine: spec.Machine) -> Iterator[Problem]:
    seen = set()
    for index, prefetcher in enumerate(machine.prefetchers):
        path: Path = ("prefetchers", index)
        identity = (prefetcher.level, kind_of(type(prefetcher)))
        if identity in seen:
            yield Problem((*path, "kind"), f'a second "{identity[1]}" at level {identity[0]}; one of a kind per level')
        seen.add(identity)
        yield from _prefetcher_common(machine, prefetcher, path)
        if isinstance(prefetcher, spec.Streamer):
            yield from _streamer(prefetcher, path)
        elif isinstance(prefetcher, spec.Stride):
            yield from _stride(prefetcher, path)
        elif isinstance(prefetcher, spec.Region | spec.SpatialPattern):
            yield from _region(machine, prefetcher, path)
        elif isinstance(prefetcher, spec.NextPage) and prefetcher.level != 1:
            yield Problem((*path, "level"), "2, but next_page is for level 1: physical pages have no order")
        elif isinstance(prefetcher, spec.FeedbackStream) and prefetcher.low_percent > prefetcher.high_percent:
            yield Problem(
                (*path, "low_percent"), f"{prefetcher.low_percent} is more than high_percent {prefetcher.high_percent}"
            )


def _prefetcher_common(machine: spec.Machine, prefetcher: spec.AnyPrefetcher, path: Path) -> Iterator[Problem]:
    fills = int(prefetcher.fills[1])
    if not prefetcher.level <= fills <= len(machine.levels):
        yield Problem(
            (*path, "fills"),
            f'"{prefetcher.fills}" for a prefetcher of level {prefetcher.level}, with {len(machine.levels)} levels',
        )
    if prefetcher.level == 1 and "l1_prefetcher" in prefetcher.trained_by:
        yield Problem((*path, "trained_by"), '"l1_prefetcher" is for prefetchers of level 2')
    if prefetcher.level == 1 and prefetcher.shared_by_cores:
        yield Problem((*path, "shared_by_cores"), "true is for prefetchers of level 2")
    if prefetcher.crosses_4k and not prefetcher.crosses_4k_in_2m:
        yield Problem(
            (*path, "crosses_4k_in_2m"),
            "false, but crosses_4k is true; what crosses in small pages crosses in large ones",
        )


def _streamer(prefetcher: spec.Streamer, path: Path) -> Iterator[Problem]:
    if prefetcher.degree > prefetcher.max_distance:
        yield Problem((*path, "degree"), f"{prefetcher.degree} is more than max_distance {prefetcher.max_distance}")
    if len(prefetcher.trigger_at_page_edge) not in (0, 4):
        yield Problem((*path, "trigger_at_page_edge"), "needs four numbers (line 0, 1, last but one, last) or none")
    if prefetcher.trigger_by_l1_prefetcher and "l1_prefetcher" not in prefetcher.trained_by:
        yield Problem((*path, "trigger_by_l1_prefetcher"), 'needs "l1_prefetcher" in trained_by')
    if prefetcher.streams_per_page == 2 and prefetcher.directions != "both":
        yield Problem((*path, "streams_per_page"), '2 (one upwards, one downwards) needs directions = "both"')


def _stride(prefetcher: spec.Stride, path: Path) -> Iterator[Problem]:
    if prefetcher.degree > prefetcher.max_distance:
        yield Problem((*path, "degree"), f"{prefetcher.degree} is more than max_distance {prefetcher.max_distance}")
    if prefetcher.min_stride_bytes > prefetcher.max_stride_bytes:
        yield Problem(
            (*path, "min_stride_bytes"),
            f"{prefetcher.min_stride_bytes} is more than max_stride_bytes {prefetcher.max_stride_bytes}",
        )


def _region(machine: spec.Machine, prefetcher: spec.Region | spec.SpatialPattern, path: Path) -> Iterator[Problem]:
    lines = prefetcher.region_size_bytes // machine.line_size_bytes
    if not 2 <= lines <= 64:
        yield Problem(
            (*path, "region_size_bytes"), f"{lines} lines; allowed: 2 to 64 lines of {machine.line_size_bytes} bytes"
        )


def _coherence(machine: spec.Machine) -> Iterator[Problem]:
    table, cores = machine.coherence.distance_cycles, machine.core.cores
    if table and (len(table) != cores or any(len(row) != cores for row in table)):
        yield Problem(
            ("coherence", "distance_cycles"), f"must have {cores} rows of {cores} numbers, one per core, or be empty"
        )


def _power_of_two(value: float) -> bool:
    return value >= 1 and value == int(value) and int(value) & (int(value) - 1) == 0

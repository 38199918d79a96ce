"""What is wrong with a machine file: msgspec's word on single fields, and rules across fields that the simulator and
the truth rest on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from setebench.errors import UsageError
from setebench.sim import spec
from setebench.sim.files.origins import Path
from setebench.sim.recordings import recording
from setebench.sim.spec.fields import kind_of
from setebench.text import visible

MOST_LINES = 10 << 20
"""Cache lines of all caches together: 512 MiB of the last level and all private ones, tag arrays of some 200 MB."""

MOST_TLB_WAYS = 4096
"""Ways of a fully associative TLB, which is searched one by one."""

MOST_CHARACTERS = 300  # of a message

Rules = Iterator[tuple[object, str, str]]
"""(true where the rule is broken, the field, what is wrong)."""


class Problem(NamedTuple):
    """What is wrong, and where: `levels[0].ways`, or nothing where all of a file is meant."""

    name: str
    message: str

    @property
    def path(self) -> Path:
        """The field as keys and list indices."""
        return tuple(int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", self.name))


def checked(data: dict[str, Any]) -> spec.Machine | Problem:
    """The machine that parsed TOML describes, or the first thing that is wrong with it."""
    try:
        machine = msgspec.convert(data, spec.Machine)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        unknown = re.search(r"unknown field `(.*)`", message, re.DOTALL)
        where = place.rpartition("$")[2].strip("`") + (f".{unknown[1]}" if unknown else "")
        return Problem(*(visible(text)[:MOST_CHARACTERS] for text in (where.replace("[...]", "").lstrip("."), message)))
    # contradictions between fields: what can't be simulated, or what no memory system is
    every = itertools.chain.from_iterable(each(machine) for each in (_noise, _core, _levels, _tlbs, _prefetchers, _pmu))
    return next((Problem(name, message) for broken, name, message in every if broken), machine)


def _noise(machine: spec.Machine) -> Rules:
    try:
        recording(machine.noise.recorded)
    except UsageError as error:
        yield True, "noise.recorded", str(error)


def _core(machine: spec.Machine) -> Rules:
    core, noise, first, memory = machine.core, machine.noise, machine.levels[0], machine.memory
    yield 8 not in core.access_sizes, "core.access_sizes", "8 must be among them: latencies are those of 8-byte loads"
    yield 4096 not in memory.page_sizes, "memory.page_sizes", "4096 must be among them"
    held = noise.co_runner_entries * (core.threads_per_core if first.mshr_shared_by_smt else 1)
    none_left = (noise.co_runner_interval_cycles or noise.recorded) and 0 < first.mshr_entries <= held
    yield none_left, "noise.co_runner_entries", f"of {first.mshr_entries} mshr_entries {held} leave none"
    table, cores = machine.coherence.distance_cycles, core.cores
    uneven = table and [len(row) for row in table] != [cores] * cores
    yield uneven, "coherence.distance_cycles", f"must have {cores} rows of {cores} numbers, one per core, or be empty"


def _levels(machine: spec.Machine) -> Rules:
    levels, memory, last = machine.levels, machine.memory, machine.levels[-1].latency_cycles
    sizes = [level.lines for level in levels]
    lines = machine.core.cores * sum(sizes[:2]) + sum(sizes[2:])
    yield lines > MOST_LINES, "levels", f"all caches hold {lines} lines; at most {MOST_LINES} can be simulated"
    odd = levels[0].sets & (levels[0].sets - 1)
    yield odd, "levels[0].sets", f"{levels[0].sets} is no power of two, as level 1 needs"
    for index, level in enumerate(levels):
        at = f"levels[{index}]"
        yield level.inclusion == "victim" and index != 2, f"{at}.inclusion", '"victim" is for level 3'
        wrong = (level.replacement == "qlru") != bool(level.qlru)
        yield wrong, f"{at}.qlru", f'"{level.qlru}"; "qlru" alone has a variant, as "H11_M1_R0_U0"'
    for number, (above, below) in enumerate(itertools.pairwise(levels), 1):
        small = f"{below.lines} lines are not more than the {above.lines} of level {number}"
        yield below.lines <= above.lines, f"levels[{number}].sets", small
        fast = f"{below.latency_cycles:g} is not more than the {above.latency_cycles:g} of level {number}"
        yield below.latency_cycles <= above.latency_cycles, f"levels[{number}].latency_cycles", fast
    slow = f"{memory.latency_cycles:g} less spread_cycles is not more than the {last:g} of the last level"
    yield memory.latency_cycles - memory.spread_cycles <= last, "memory.latency_cycles", slow


def _tlbs(machine: spec.Machine) -> Rules:
    for name in ("l1_4k", "l2_4k", "l1_2m", "l2_2m"):
        table: spec.TlbTable = getattr(machine.tlb, name)
        entries, ways = table.entries, table.ways
        whole = f"0 (fully associative) is for at most {MOST_TLB_WAYS} entries, not {entries}"
        yield not ways and entries > MOST_TLB_WAYS, f"tlb.{name}.ways", whole
        sets, rest = divmod(entries, ways or max(entries, 1))
        yield rest or sets & (sets - 1), f"tlb.{name}.ways", f"{entries} entries / {ways} ways is not a power of two"


def _prefetchers(machine: spec.Machine) -> Rules:
    kinds = [(each.level, kind_of(type(each))) for each in machine.prefetchers]
    parts = [(each.fills, isinstance(each, spec.Lead) and each.trained_by) for each in machine.prefetchers]
    for index, each in enumerate(machine.prefetchers):
        at, (level, kind) = f"prefetchers[{index}]", kinds[index]
        again = f'a second "{kind}" at level {level}; one of a kind per level and place that it fills'
        alike = zip(kinds[:index], parts, strict=False)
        yield (kinds[index], parts[index]) in alike, f"{at}.kind", again
        above = f'"{each.fills}" for a prefetcher of level {level}, with {len(machine.levels)} levels'
        yield not level <= int(each.fills[1]) <= len(machine.levels), f"{at}.fills", above
        if isinstance(each, spec.Streamer):
            four = "needs four numbers (line 0, 1, last but one, last) or none"
            yield len(each.trigger_at_page_edge) not in (0, 4), f"{at}.trigger_at_page_edge", four
        if isinstance(each, spec.Region):
            lines = each.region_size_bytes // machine.line_size_bytes
            few = f"{lines} lines; allowed: 2 to 64 lines of {machine.line_size_bytes} bytes"
            yield not 2 <= lines <= 64, f"{at}.region_size_bytes", few


def _pmu(machine: spec.Machine) -> Rules:
    for role, faults in ({} if machine.pmu is None else machine.pmu.events).items():
        yield role not in spec.SIMULATED_ROLES, f"pmu.events.{role}", "the simulator counts no such event"
        for index, fault in enumerate(faults):
            known = fault.role in spec.SIMULATED_ROLES if fault.kind == "other_level" else not fault.role
            yield not known, f"pmu.events.{role}[{index}].role", 'is the event that "other_level" counts, no other\'s'

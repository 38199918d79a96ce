"""A simulated memory system behind the same protocol as real silicon.

What a scenario holds is a `SimulatedMachine`, which has facts alone. The machine file, the caches and the event counts
stay in a table of their own, so that nothing a scenario can reach from its machine shows it the truth. Tests read them
by way of `setebench.sim.inspect`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Counting
from setebench.errors import ProbeError, ProbeFault, SetebenchError, UnsupportedError, UsageError
from setebench.machine import Facts, Region, Ticks
from setebench.probe import BRACKETS, FLUSHES, HINTS, Kind, Placements, Probe, placement_table
from setebench.probe.kernels import KERNELS, NAMES, Kernel, array_spacing
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Arrays, threads_of
from setebench.sim.build import build
from setebench.sim.compiled import prepare
from setebench.sim.memory_map import MemoryMap
from setebench.sim.pmu.unit import SimulatedPmu

Ints = NDArray[np.int64]
OWN_ADDRESS, OWN_STEP = 0x400000, 16  # where a probe's instructions without an address of their own lie
FREE_ADDRESS, FREE_STEP = 0x800008, 36  # and named ones that the machine may place
STREAM_ADDRESS, STREAM_STEP = 0xC00000, 1024  # and the loops of streams

FENCES = ("m", "l", "s", "serialize")
LINES_PER_SECOND = 1e6
"""Lines of streams that get simulated on a CPU of today. The same whatever the host, or the same seed would not give
the same answer."""


@dataclass(frozen=True)
class Simulation:
    """Everything of one open machine; never handed out."""

    machine: spec.Machine
    arrays: Arrays
    memory: MemoryMap
    pmu: SimulatedPmu


OPEN: WeakKeyDictionary[object, Simulation] = WeakKeyDictionary()
"""By machine, until it is closed or nobody holds it any more."""


def simulation(machine: object) -> Simulation:
    """The simulation behind a machine. Raises `SetebenchError` once the machine is closed."""
    try:
        return OPEN[machine]
    except KeyError:
        raise SetebenchError("this simulated machine is closed") from None


def open_machine_file(machine: spec.Machine, seed: int = 1) -> SimulatedMachine:
    """Open a simulated machine with these parameters. Same machine, same seed, same calls: same ticks.

    Its state (address space of a seventh of its memory, most of it never used) goes when it is closed, or when nobody
    holds the machine any more."""
    arrays = build(machine, seed)
    pmu = SimulatedPmu(machine, arrays, seed)
    simulated = SimulatedMachine(facts_of(machine))
    OPEN[simulated] = Simulation(machine, arrays, MemoryMap(machine, arrays), pmu)
    return simulated


def facts_of(machine: spec.Machine) -> Facts:
    """What a scenario may know of the machine before measuring."""
    core = machine.core
    cpus = range(core.cores * core.threads_per_core)
    hints = {"prefetch_shared": "t0", "prefetch_exclusive": "w"}
    return Facts(
        name=machine.name,
        kind="sim",
        cpus=tuple(cpus),
        siblings=tuple(tuple(cpus[first :: core.cores]) for first in range(core.cores)),
        ticks_per_second=machine.clock.ticks_per_second,
        line_size=machine.line_size_bytes,
        page_sizes=machine.memory.page_sizes,
        memory_bytes=machine.memory.bytes,
        brackets=tuple(machine.clock.brackets),
        access_sizes=core.access_sizes,
        prefetch_hints=tuple(name for name in HINTS if name in machine.software_prefetch.hints),
        fences=FENCES if "cpuid" in machine.clock.brackets else FENCES[:3],
        kernels=tuple(n for n in NAMES if n not in hints or hints[n] in machine.software_prefetch.hints),
        lines_per_second=LINES_PER_SECOND,
    )


class SimulatedMachine:
    """A `setebench.machine.Machine` whose memory system is simulated; `facts` may be known before measuring."""

    __slots__ = ("__weakref__", "facts")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `setebench.machine.Machine.allocate`."""
        return simulation(self).memory.allocate(size, page_size, populate)

    def release(self, region: Region) -> None:
        """See `setebench.machine.Machine.release`."""
        simulation(self).memory.release(region)

    def link(self, region: Region, addresses: Ints) -> None:
        """See `setebench.machine.Machine.link`."""
        simulation(self).memory.link(region, np.asarray(addresses, dtype=np.int64))

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `setebench.machine.Machine.run`."""
        chosen = self.facts.cpus[0] if cpu is None else cpu
        return self.run_together({chosen: probe}, placements, warmup=warmup)[chosen]

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """See `setebench.machine.Machine.run_together`; threads are interleaved by simulated time."""
        sim = simulation(self)
        for cpu in set(probes) - set(self.facts.cpus):
            raise UsageError(f"{self.facts.name} has no CPU {cpu}; it has 0 to {len(self.facts.cpus) - 1}")
        for probe in probes.values():
            _check(probe, self.facts)
        with sim.pmu.watching(probes):
            return _run(sim, self.facts, probes, placements, warmup)

    def event_roles(self) -> dict[str, str]:
        """See `setebench.counters.protocol.CountsEvents`."""
        return simulation(self).pmu.event_roles()

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """See `setebench.counters.protocol.CountsEvents`."""
        return simulation(self).pmu.event_groups(roles)

    def count_events(self, roles: Sequence[str]) -> AbstractContextManager[Counting]:
        """See `setebench.counters.protocol.CountsEvents`."""
        return simulation(self).pmu.count_events(roles)

    def close(self) -> None:
        """Forget the machine's state; any later call raises `SetebenchError`."""
        OPEN.pop(self, None)


def _check(probe: Probe, facts: Facts) -> None:
    """Raise `UnsupportedError` for operation variants that the machine lacks."""
    kinds, sizes, variants = probe.rows[:, at.KIND], probe.rows[:, at.SIZE], probe.rows[:, at.VARIANT]
    timed = ((kinds == Kind.START) | (kinds == Kind.STOP)) & (variants >= 0)
    lacks = {
        "prefetch hint": {HINTS[v] for v in {*variants[kinds == Kind.PREFETCH].tolist()}} - {*facts.prefetch_hints},
        "flush": {FLUSHES[v] for v in variants[kinds == Kind.FLUSH].tolist()} - {*facts.flushes},
        "clock bracket": {BRACKETS[v] for v in {*variants[timed].tolist()}} - {*facts.brackets},
        "access of a size of": {str(size) for size in {*sizes.tolist()}} - {"0", *map(str, facts.access_sizes)},
        "streaming kernel": {NAMES[v] for v in variants[kinds == Kind.STREAM].tolist()} - {*facts.kernels},
        "fence": {FENCES[v] for v in {*variants[kinds == Kind.FENCE].tolist()}} - {*facts.fences},
    }
    for what, missing in lacks.items():
        if missing:
            raise UnsupportedError(f"{facts.name} has no {what} {', '.join(sorted(missing))}")


def _described(kernel: Kernel, rolled: bool) -> int:
    """A streaming kernel as the word that `layout` has the places of."""
    word = kernel.flops << at.FLOPS_AT | kernel.bypass << at.BYPASS_AT | kernel.random << at.RANDOM_AT
    word |= (kernel.name == "prefetch_exclusive") << at.EXCLUSIVE_AT | rolled << at.ROLLED_AT
    for first, arrays in ((0, kernel.reads), (at.WRITES_AT, kernel.writes), (at.FETCHES_AT, kernel.fetches)):
        word |= sum(1 << first + array for array in arrays)
    return word


def _program(probe: Probe, facts: Facts, begin: int) -> Ints:
    """A probe's rows as the kernel reads them: instruction addresses, own brackets, row numbers and streams filled
    in."""
    rows = np.zeros((len(probe), at.ROW_WORDS), dtype=np.int64)
    rows[:, : at.VALUE] = probe.rows
    own, named = OWN_ADDRESS + np.arange(len(rows)) * OWN_STEP, enumerate(probe.instruction_addresses)
    ips = [FREE_ADDRESS + number * FREE_STEP if each.bits is None else each.bits for number, each in named]
    rows[:, at.IP] = np.where(rows[:, at.IP] < 0, own, np.array([*ips, 0], dtype=np.int64)[rows[:, at.IP]])
    rows[:, at.AFTER][rows[:, at.AFTER] >= 0] += begin
    kinds = rows[:, at.KIND]
    timed = ((kinds == Kind.START) | (kinds == Kind.STOP)) & (rows[:, at.VARIANT] < 0)
    rows[timed, at.VARIANT] = BRACKETS.index(facts.brackets[0])
    for row in np.flatnonzero(kinds == Kind.STREAM):
        rows[row, at.IP] = STREAM_ADDRESS + row * STREAM_STEP
        rows[row, at.DESCRIPTION] = _described(KERNELS[NAMES[rows[row, at.VARIANT]]], bool(probe.rows[row, at.DITHER]))
        rows[row, at.SPACING] = array_spacing(int(rows[row, at.COUNT]))
    return rows


def _run(
    sim: Simulation, facts: Facts, probes: Mapping[int, Probe], placements: Placements, warmup: int
) -> dict[int, Ticks]:
    execute = prepare()  # the compiler is only loaded where it is used
    intervals = [probe.intervals for probe in probes.values()]
    tables = [placement_table(probe, placements) for probe in probes.values()]
    lengths = {len(table) for table in tables}
    if len(lengths) != 1:
        raise ProbeError(f"probes that run together need equally many placements, not {sorted(lengths)}")
    arrays, rows, columns = sim.arrays, [len(probe) for probe in probes.values()], [each.shape[1] for each in tables]
    first_rows, first_columns, first_outs = (np.cumsum([0, *sizes]) for sizes in (rows, columns, intervals))
    threads = threads_of(arrays.c, arrays.s)
    for i, cpu in enumerate(probes):
        own = (first_rows[i], first_rows[i + 1], first_columns[i], first_outs[i])
        threads[cpu, at.T_FIRST : at.T_FIRST_OUT + 1] = own
    programs = [_program(probe, facts, int(first)) for probe, first in zip(probes.values(), first_rows, strict=False)]
    program, table = np.concatenate(programs), np.ascontiguousarray(np.concatenate(tables, axis=1))
    out = np.zeros((len(table), max(sum(intervals), 1)), dtype=np.int64)
    places = arrays.c[at.C_THREADS] + np.array([*probes], dtype=np.int64) * at.T_WORDS
    execute(arrays.c, arrays.s, arrays.f, program, places, table, out)
    if arrays.s[at.S_FAULT]:
        row = int(arrays.s[at.S_FAULT]) - 1
        arrays.s[at.S_FAULT] = 0
        begin, what = int(first_rows[first_rows <= row].max()), Kind(int(program[row, at.KIND])).name.lower()
        raise ProbeFault("SIGSEGV", row - begin, int(arrays.s[at.S_FAULT_ADDRESS]), what)
    return {cpu: out[warmup:, first_outs[i] : first_outs[i + 1]].copy() for i, cpu in enumerate(probes)}

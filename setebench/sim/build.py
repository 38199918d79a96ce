"""From a machine file to the arrays that the kernel runs on."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.probe import BRACKETS, HINTS
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import (
    SYSTEM_PAGES,
    Arrays,
    Frames,
    Ints,
    Space,
    fill,
    lines_of,
    threads_of,
    units,
    virtual_pages,
)
from setebench.sim.recordings import recording
from setebench.sim.spec.fields import kind_of
from setebench.sim.spec.replacement_ages import NAMED, ages

SERIALIZE_CYCLES = 100.0  # a cpuid where the machine file gives no bracket of that name
NEAR_WORDS = 1 << 17  # of a level's state, which a host's second cache holds; no result depends on it
LOSS_CYCLES = 2e5  # mean time between bursts of lines lost where a recording says how many were lost
LOST_SECONDS = 1e-3  # in which so many are
PARTS = 1 << (at.HUGE_BITS - at.PAGE_BITS)


def build(machine: spec.Machine, seed: int) -> Arrays:
    """Lay a machine out that a file may describe."""
    rng = np.random.default_rng((seed, 0x5E7E))
    c = np.zeros(at.C_WORDS + machine.core.cores**2, dtype=np.int64)
    space = Space()
    _core(c, machine, space)
    _pages(c, machine, space)
    if (replayed := recording(machine.noise.recorded)) is not None:
        c[at.C_REPLAY_SHARED], c[at.C_REPLAY_LOST] = len(replayed.shared), len(replayed.lost)
        c[at.C_REPLAY] = space.take(2 * len(replayed.shared) + len(replayed.lost))
    c[at.C_LEVELS] = len(machine.levels)
    for index in range(len(machine.levels)):
        _level(c, machine, index, space)
    for index, name in enumerate(("l1_4k", "l1_2m", "l2_4k", "l2_2m")):
        _tlb(c, machine, index, getattr(machine.tlb, name), space)
    for name, hint in machine.software_prefetch.hints.items():
        fill(c, "H_", hint, at.C_HINT + HINTS.index(name) * at.H_WORDS)
    _prefetchers(c, machine, space)
    pages = machine.memory.bytes >> at.PAGE_BITS
    c[at.C_LINKS] = space.take(virtual_pages(machine) << int(c[at.C_PAGE_LINES_BITS]))  # last, as most is never used
    small = Frames(SYSTEM_PAGES, pages, 1, rng)
    huge = Frames(_huge_base(pages), max(pages // PARTS, 1), PARTS, rng)
    arrays = Arrays(c, _state(c, machine, space, rng), _clock(machine, rng), small, huge)
    _replay(arrays, machine)
    return arrays


def _core(c: Ints, machine: spec.Machine, space: Space) -> None:
    core, noise, brackets = machine.core, machine.noise, machine.clock.brackets
    for table in (core, core.vector_load_extra, noise, machine.clock, machine.coherence):
        fill(c, "C_", table)
    fill(c, "C_PF_", machine.software_prefetch)
    c[at.C_LINE_BITS] = machine.line_size_bytes.bit_length() - 1
    c[at.C_PAGE_LINES_BITS] = at.PAGE_BITS - c[at.C_LINE_BITS]
    c[at.C_ISSUE] = at.UNIT // core.issue_width
    c[at.C_TRANSFER] = units(core.integer_to_vector_cycles + core.vector_to_integer_cycles)
    c[at.C_CO_RUNNER_ISSUE] = round(c[at.C_ISSUE] * noise.co_runner_issue_share / (1 - noise.co_runner_issue_share))
    c[at.C_LOSS_SHARE] = round(noise.loss_share * at.LOSS_PARTS)
    c[at.C_CPUID] = units(brackets.get("cpuid", SERIALIZE_CYCLES))
    for index, name in enumerate(BRACKETS):
        c[at.C_BRACKET + index] = units(brackets[name]) if name in brackets else -1
    c[at.C_DISTANCE] = at.C_WORDS
    c[at.C_WORDS :] = [units(cycles) for row in machine.coherence.distance_cycles for cycles in row] or 0
    cpus = core.cores * core.threads_per_core
    c[at.C_THREADS] = space.take(cpus * at.T_WORDS)
    c[at.C_RINGS] = space.take(cpus * (core.reorder_window + core.load_queue + core.store_queue))
    c[at.C_EVENTS] = space.take(core.cores * at.EVENT_WORDS)
    c[at.C_OUT] = space.take(2 * at.MAX_OUT)
    c[at.C_WALKERS] = machine.tlb.walkers
    c[at.C_WALK_SLOTS] = space.take(core.cores * machine.tlb.walkers)


def _huge_base(pages: int) -> int:
    """First frame of the 2 MiB blocks: behind the 4 KiB frames, aligned."""
    return -(-(SYSTEM_PAGES + pages) // PARTS) * PARTS


def _pages(c: Ints, machine: spec.Machine, space: Space) -> None:
    """Memory may be allocated as 4 KiB frames, and again as blocks of 2 MiB."""
    pages = machine.memory.bytes >> at.PAGE_BITS
    c[at.C_PAGES] = max(_huge_base(pages) + max(-(-pages // PARTS), 1) * PARTS, virtual_pages(machine))
    c[at.C_PAGE_TABLE] = space.take(int(c[at.C_PAGES]))
    c[at.C_FRAME_TABLE] = space.take(int(c[at.C_PAGES]))
    c[at.C_SHARERS] = space.take(int(c[at.C_PAGES]))
    fill(c, "C_MEMORY_", machine.memory)
    c[at.C_MEMORY_PORT] = space.port(units(machine.memory.interval_cycles))


def _level(c: Ints, machine: spec.Machine, index: int, space: Space) -> None:
    v, level = at.C_LEVEL + index * at.L_WORDS, machine.levels[index]
    owners = machine.core.cores if index < 2 else 1
    fill(c, "L_", level, v)
    c[v + at.L_SET_BITS] = level.sets.bit_length() - 1
    by_bits = at.BY_BITS if index else at.BY_VIRTUAL_BITS
    by_number = at.BY_REMAINDER if level.sets & (level.sets - 1) else by_bits
    c[v + at.L_INDEX] = at.BY_HASH if level.hashed_index else by_number
    limits = c[v + at.L_MSHR_DEMAND_LIMIT : v + at.L_MSHR_HARDWARE_LIMIT + 1]
    limits[limits >= level.mshr_entries] = 0
    c[v + at.L_SLOT_WORDS] = level.mshr_entries + limits.sum()
    c[v + at.L_SLOTS] = space.take(int(c[v + at.L_SLOT_WORDS]) * owners * machine.core.threads_per_core)
    _sets(c, v, level, owners, space)
    c[at.C_FAR_L3] = index == 2 and c[v + at.L_SETS] * c[v + at.L_SET_WORDS] > NEAR_WORDS
    rules = ages(NAMED.get(level.replacement, level.qlru))
    if rules is not None:
        c[v + at.L_HIT_AGE_3 : v + at.L_UPDATE_ON_MISS + 1] = msgspec.structs.astuple(rules)
    c[v + at.L_PORTS] = space.port(at.UNIT // level.ports, owners)
    c[v + at.L_FILLS] = space.port(units(level.fill_interval_cycles), owners)


def _sets(c: Ints, v: int, level: spec.Level, owners: int, space: Space) -> None:
    """A set's words, arrival times and tree bits lie beside each other and begin a line of the host's caches, so that
    a lookup touches as few of those as possible: they take most of the simulator's time in random accesses."""
    ways = level.ways
    c[v + at.L_READY] = ways
    c[v + at.L_TREE] = 2 * ways
    c[v + at.L_TREE_WAYS] = 1 << (ways - 1).bit_length()
    used = 2 * ways + (level.replacement == "tree_plru")
    c[v + at.L_SET_WORDS] = -(-used // at.HOST_LINE_WORDS) * at.HOST_LINE_WORDS
    c[v + at.L_LINES] = space.take(owners * level.sets * int(c[v + at.L_SET_WORDS]), at.HOST_LINE_WORDS)


def _tlb(c: Ints, machine: spec.Machine, index: int, table: spec.TlbTable, space: Space) -> None:
    x = at.C_TLB + index * at.X_WORDS
    fill(c, "X_", table, x)
    c[x + at.X_WAYS] = table.ways or table.entries
    c[x + at.X_SETS] = table.entries // max(c[x + at.X_WAYS], 1) or 1
    c[x + at.X_WAYS] *= table.entries > 0
    c[x + at.X_SET_BITS] = int(c[x + at.X_SETS]).bit_length() - 1
    c[x + at.X_TABLE] = space.take(2 * machine.core.cores * table.entries)


def _prefetchers(c: Ints, machine: spec.Machine, space: Space) -> None:
    """Configuration words of every prefetcher, and room for its state: of each core, or of all together."""
    c[at.C_PREFETCHERS] = len(machine.prefetchers)
    for index, prefetcher in enumerate(machine.prefetchers):
        p = at.C_PREFETCHER + index * at.P_WORDS
        threads = 1 if prefetcher.shared_by_smt else machine.core.threads_per_core
        fill(c, f"{str(kind_of(type(prefetcher))).upper()}_", prefetcher, p)
        c[p + at.P_KIND] = at.KINDS.index(type(prefetcher))
        c[p + at.P_FILLS] = int(prefetcher.fills[1])
        c[p + at.P_TRAINED] = sum(1 << at.SOURCES.index(source) for source in set(prefetcher.trained_by))
        c[p + at.P_THREAD_WORDS] = 0 if threads == 1 else at.STATE_WORDS
        c[p + at.P_CORE_WORDS] = at.STATE_WORDS * threads
        c[p + at.P_STATE] = space.take(at.STATE_WORDS * threads * machine.core.cores)
        c[at.C_L1_PREFETCHERS if prefetcher.level == 1 else at.C_L2_PREFETCHERS] += 1


def _state(c: Ints, machine: spec.Machine, space: Space, rng: np.random.Generator) -> Ints:
    s = np.zeros(space.words + at.HOST_LINE_WORDS, dtype=np.int64)
    first = -(s.ctypes.data // 8) % at.HOST_LINE_WORDS  # words that begin a line of the host's caches
    s = s[first : first + space.words]
    s[at.S_RANDOM] = rng.integers(1, 2**62)
    s[at.S_NOW] = units(float(rng.uniform(1e6, 2e6)))
    for cpu, thread in enumerate(threads_of(c, s)):
        thread[at.T_CPU], thread[at.T_CORE], thread[at.T_PAGE] = cpu, cpu % machine.core.cores, -1
        sizes = [machine.core.reorder_window, machine.core.load_queue, machine.core.store_queue]
        thread[at.T_WINDOW_RING : at.T_STORE_RING + 1] = c[at.C_RINGS] + cpu * sum(sizes) + np.cumsum([0, *sizes[:2]])
    for begin, interval in space.ports:
        s[begin + at.PORT_INTERVAL] = interval
    for index in range(len(machine.levels)):
        lines_of(c, s, index)[:] = at.EMPTY
    pages = np.arange(SYSTEM_PAGES)
    s[c[at.C_PAGE_TABLE] : c[at.C_PAGE_TABLE] + SYSTEM_PAGES] = (pages << at.FRAME_BITS) | at.PRESENT
    s[c[at.C_FRAME_TABLE] : c[at.C_FRAME_TABLE] + SYSTEM_PAGES] = pages + 1
    return s


def _replay(arrays: Arrays, machine: spec.Machine) -> None:
    """What a recording has besides pace and gaps, in time of the kernel. Shares are those of a burst of lost lines."""
    replayed, c, block = recording(machine.noise.recorded), arrays.c, units(float(arrays.f[at.F_BLOCK_CYCLES]))
    if replayed is None:
        return
    c[at.C_REPLAY_BEGIN], c[at.C_REPLAY_PERIOD] = round(block * arrays.f[at.F_BEGIN]), block * replayed.blocks
    bursts = LOST_SECONDS * machine.clock.ticks_per_second / machine.clock.ticks_per_cycle / LOSS_CYCLES
    shares = at.LOSS_PARTS * (1.0 - (1.0 - replayed.lost) ** (1.0 / bursts))
    parts = np.concatenate([*(replayed.shared * block).T, shares])
    arrays.s[c[at.C_REPLAY] : c[at.C_REPLAY] + len(parts)] = np.round(parts)
    if len(replayed.lost):
        c[at.C_LOSS_INTERVAL_CYCLES] = units(LOSS_CYCLES)


def _clock(machine: spec.Machine, rng: np.random.Generator) -> NDArray[np.float64]:
    clock, replayed = machine.clock, recording(machine.noise.recorded)
    f = np.zeros(at.F_WORDS)
    for name in ("ticks_per_cycle", "step_ticks", "drift", "drift_period_cycles"):
        f[getattr(at, f"F_{name.upper()}")] = getattr(clock, name)
    f[at.F_PHASE] = rng.uniform(0.0, clock.step_ticks)
    f[at.F_DRIFT_PHASE] = rng.uniform(0.0, 2.0 * np.pi)
    if replayed is None:
        return f
    f[at.F_BLOCKS], f[at.F_GAPS] = replayed.blocks, replayed.gaps
    f[at.F_BLOCK_TICKS] = replayed.block_seconds * clock.ticks_per_second
    f[at.F_BLOCK_CYCLES] = f[at.F_BLOCK_TICKS] / clock.ticks_per_cycle
    f[at.F_BEGIN] = rng.uniform(0.0, replayed.blocks)
    return np.concatenate([f, replayed.table])

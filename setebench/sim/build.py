"""From a machine file to the arrays that the kernel runs on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.probe import BRACKETS, HINTS
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import SYSTEM_PAGES, Arrays, Ints, Space, aligned_zeros, fill, lines_of, units, virtual_pages
from setebench.sim.build_prefetchers import FILLS, lay_out_prefetchers
from setebench.sim.frames import Frames
from setebench.sim.recordings import recording
from setebench.sim.spec.checks import sense_problems
from setebench.sim.spec.replacement_ages import NAMED, ages

REPLACEMENTS = {
    "lru": at.LRU,
    "random": at.RANDOM,
    "fifo": at.FIFO,
    "tree_plru": at.TREE_PLRU,
    "bit_plru": at.BIT_PLRU,
    "nru": at.NRU,
    "srrip": at.AGES,
    "brrip": at.AGES,
    "qlru": at.AGES,
}
INCLUSIONS = {"neither": at.NEITHER, "inclusive": at.INCLUSIVE, "exclusive": at.EXCLUSIVE, "victim": at.VICTIM}
HOST_NEAR_BYTES = 256 << 10
"""State of a cache up to this size stays in the host's own second cache beside all else: no result depends on it."""
SERIALIZE_CYCLES = 100.0  # a cpuid where the machine file gives no bracket of that name


def build(machine: spec.Machine, seed: int) -> Arrays:
    """Lay a machine out. Raises `UsageError` for one that can't be simulated."""
    for problem in sense_problems(machine, plausible=False):
        raise UsageError(f"{machine.name}: {problem.name}: {problem.message}")
    rng = np.random.default_rng((seed, 0x5E7E))
    c = np.zeros(at.C_WORDS + machine.core.cores**2, dtype=np.int64)
    space = Space()
    _core(c, machine)
    _pages(c, machine, space)
    _threads(c, machine, space)
    c[at.C_LEVELS] = len(machine.levels)
    for index, level in enumerate(machine.levels):
        _level(c, machine, index, level, space)
    c[at.C_FAR_LEVEL] = _far_level(c)
    tlb = machine.tlb
    for index, table in enumerate((tlb.l1_4k, tlb.l1_2m, tlb.l2_4k, tlb.l2_2m)):
        _tlb(c, machine, index, table, space)
    _software_prefetch(c, machine)
    lay_out_prefetchers(c, machine, space)
    _coherence(c, machine)
    pages = machine.memory.bytes >> at.PAGE_BITS
    c[at.C_LINKS] = space.take(virtual_pages(machine) << int(c[at.C_PAGE_LINES_BITS]))  # last, as most is never used
    s = _state(c, machine, space, rng)
    small = Frames(SYSTEM_PAGES, pages, 1, rng)
    huge = Frames(_huge_base(pages), max(pages // 512, 1), 512, rng)
    remote = Frames(_near_pages(machine), _remote_pages(machine) // 512, 512, rng)
    return Arrays(c, s, _clock(machine, rng), small, huge, remote)


def _core(c: Ints, machine: spec.Machine) -> None:
    core, noise, brackets = machine.core, machine.noise, machine.clock.brackets
    for table in (core, core.vector_load_extra, noise, machine.clock):
        fill(c, "C_", table)
    c[at.C_LINE_BITS] = machine.line_size_bytes.bit_length() - 1
    c[at.C_PAGE_LINES_BITS] = at.PAGE_BITS - c[at.C_LINE_BITS]
    c[at.C_ISSUE] = at.UNIT // core.issue_width
    c[at.C_TRANSFER] = units(core.integer_to_vector_cycles + core.vector_to_integer_cycles)
    c[at.C_CO_RUNNER_ISSUE] = round(c[at.C_ISSUE] * noise.co_runner_issue_share / (1 - noise.co_runner_issue_share))
    c[at.C_CO_RUNNER_LINES] = units(noise.co_runner_line_interval_cycles * at.CO_RUNNER_BATCH)
    c[at.C_LOSS_SHARE] = round(noise.loss_share * at.LOSS_PARTS)
    c[at.C_CPUID] = units(brackets.get("cpuid", SERIALIZE_CYCLES))
    for index, name in enumerate(BRACKETS):
        c[at.C_BRACKET + index] = units(brackets[name]) if name in brackets else -1


def _huge_base(pages: int) -> int:
    """First frame of the 2 MiB blocks: behind the 4 KiB frames, aligned."""
    return -(-(SYSTEM_PAGES + pages) // 512) * 512


def _near_pages(machine: spec.Machine) -> int:
    """Frames of near memory: what may be allocated as 4 KiB frames, and again as blocks of 2 MiB."""
    pages = machine.memory.bytes >> at.PAGE_BITS
    return _huge_base(pages) + max(-(-pages // 512), 1) * 512


def _remote_pages(machine: spec.Machine) -> int:
    return 0 if machine.remote_memory is None else machine.remote_memory.bytes >> at.PAGE_BITS


def _pages(c: Ints, machine: spec.Machine, space: Space) -> None:
    near = _near_pages(machine)
    total = max(near + _remote_pages(machine), virtual_pages(machine))
    c[at.C_PAGES] = total
    c[at.C_PAGE_TABLE] = space.take(total)
    c[at.C_FRAME_TABLE] = space.take(total)
    c[at.C_TLB_HINT] = space.take(2 * total)
    fill(c, "C_MEMORY_", machine.memory)
    c[at.C_MEMORY_PORT] = space.take(at.PORT_WORDS)
    if machine.remote_memory is not None:
        fill(c, "C_REMOTE_", machine.remote_memory)
        c[at.C_REMOTE_LINE] = near << c[at.C_PAGE_LINES_BITS]
        c[at.C_LINK_PORT] = space.take(at.PORT_WORDS)


def _threads(c: Ints, machine: spec.Machine, space: Space) -> None:
    core = machine.core
    cpus = core.cores * core.threads_per_core
    c[at.C_THREADS] = space.take(cpus * at.T_WORDS)
    c[at.C_WINDOW_RING] = space.take(cpus * core.reorder_window)
    c[at.C_LOAD_RING] = space.take(cpus * core.load_queue)
    c[at.C_STORE_RING] = space.take(cpus * core.store_queue)
    c[at.C_EVENTS] = space.take(core.cores * at.EVENT_WORDS)
    c[at.C_OUT] = space.take(2 * at.MAX_OUT)
    c[at.C_WALKERS] = machine.tlb.walkers
    c[at.C_WALK_SLOTS] = space.take(core.cores * machine.tlb.walkers)


def _level(c: Ints, machine: spec.Machine, index: int, level: spec.Level, space: Space) -> None:
    v = at.C_LEVEL + index * at.L_WORDS
    owners = machine.core.cores if index < 2 else 1
    fill(c, "L_", level, v)
    if index == 0:
        fill(c, "C_", level)  # what predicts its ways
    c[v + at.L_SETS] = level.all_sets
    c[v + at.L_REPLACEMENT] = REPLACEMENTS[level.replacement]
    c[v + at.L_INCLUSION] = INCLUSIONS[level.inclusion]
    c[v + at.L_INDEX] = _index(index, level)
    c[v + at.L_SET_BITS] = level.all_sets.bit_length() - 1
    c[v + at.L_PORT] = at.UNIT // level.ports
    limits = (level.mshr_demand_limit, level.mshr_prefetch_limit, level.mshr_hardware_limit)
    for word, limit in zip((at.L_DEMAND, at.L_SOFTWARE, at.L_HARDWARE), limits, strict=True):
        c[v + word] = limit if limit < level.mshr_entries else 0
    c[v + at.L_SLOT_WORDS] = level.mshr_entries + int(c[v + at.L_DEMAND : v + at.L_HARDWARE + 1].sum())
    c[v + at.L_SLOTS] = space.take(int(c[v + at.L_SLOT_WORDS]) * owners * machine.core.threads_per_core)
    _sets(c, v, level, owners, space)
    rules = ages(NAMED.get(level.replacement, level.qlru))
    if rules is not None:
        c[v + at.L_HIT_AGE_3 : v + at.L_UPDATE_ON_MISS + 1] = rules
    c[v + at.L_PORTS] = space.take(at.PORT_WORDS * owners)
    c[v + at.L_FILLS] = space.take(at.PORT_WORDS * owners)


def _index(index: int, level: spec.Level) -> int:
    odd = level.all_sets & (level.all_sets - 1)
    if level.hashed_index or level.slices > 1:
        return at.BY_MIX if odd else at.BY_HASH
    if odd:
        return at.BY_REMAINDER
    return at.BY_BITS if index > 0 or level.physical_index else at.BY_VIRTUAL_BITS


def _far_level(c: Ints) -> int:
    """The first level from the second on whose state is too large to be found in the host's own near caches."""
    for level in range(1, int(c[at.C_LEVELS])):
        v = at.C_LEVEL + level * at.L_WORDS
        if c[v + at.L_SETS] * c[v + at.L_SET_WORDS] * 8 > HOST_NEAR_BYTES:
            return level
    return int(c[at.C_LEVELS])


def _sets(c: Ints, v: int, level: spec.Level, owners: int, space: Space) -> None:
    """A set's words, arrival times and tree bits lie beside each other and begin a line of the host's caches, so that
    a lookup touches as few of those as possible: they take most of the simulator's time in random accesses."""
    ways = level.ways
    c[v + at.L_READY] = ways
    c[v + at.L_TREE] = 2 * ways
    c[v + at.L_TREE_WAYS] = 1 << (ways - 1).bit_length()
    used = 2 * ways + (level.replacement == "tree_plru")
    c[v + at.L_SET_WORDS] = -(-used // at.HOST_LINE_WORDS) * at.HOST_LINE_WORDS
    c[v + at.L_LINES] = space.take(owners * level.all_sets * int(c[v + at.L_SET_WORDS]), at.HOST_LINE_WORDS)


def _tlb(c: Ints, machine: spec.Machine, index: int, table: spec.TlbTable, space: Space) -> None:
    x = at.C_TLB + index * at.X_WORDS
    ways = table.ways or table.entries
    sets = table.entries // ways if ways else 1
    c[x + at.X_SETS] = sets
    c[x + at.X_WAYS] = ways if table.entries else 0
    c[x + at.X_PENALTY] = units(table.miss_penalty_cycles)
    c[x + at.X_HASHED] = table.index == "hashed"
    c[x + at.X_SET_BITS] = max(sets, 1).bit_length() - 1
    c[x + at.X_TAGS] = space.take(machine.core.cores * table.entries)
    c[x + at.X_STAMPS] = space.take(machine.core.cores * table.entries)


def _software_prefetch(c: Ints, machine: spec.Machine) -> None:
    rules = machine.software_prefetch
    fill(c, "C_PF_", rules)
    c[at.C_PF_DROPS] = rules.when_full == "drops"
    for name, hint in rules.hints.items():
        h = at.C_HINT + HINTS.index(name) * at.H_WORDS
        c[h + at.H_FILLS] = FILLS[hint.fills]
        c[h + at.H_EXCLUSIVE] = hint.exclusive
        c[h + at.H_BYPASS] = hint.bypasses_l2


def _coherence(c: Ints, machine: spec.Machine) -> None:
    fill(c, "C_", machine.coherence)
    c[at.C_DISTANCE] = at.C_WORDS
    if machine.coherence.distance_cycles:
        table = np.array(machine.coherence.distance_cycles, dtype=np.float64)
        c[at.C_WORDS :] = np.rint(table * at.UNIT).astype(np.int64).ravel()


def _state(c: Ints, machine: spec.Machine, space: Space, rng: np.random.Generator) -> Ints:
    s = aligned_zeros(space.words)
    s[at.S_RANDOM] = rng.integers(1, 2**62)
    s[at.S_NOW] = units(float(rng.uniform(1e6, 2e6)))
    cpus = machine.core.cores * machine.core.threads_per_core
    s[c[at.C_THREADS] :][: cpus * at.T_WORDS].reshape(cpus, at.T_WORDS)[:, at.T_PAGE] = -1
    for index in range(len(machine.levels)):
        lines_of(c, s, index)[:] = at.EMPTY
    pages = np.arange(SYSTEM_PAGES)
    s[c[at.C_PAGE_TABLE] : c[at.C_PAGE_TABLE] + SYSTEM_PAGES] = (pages << at.FRAME_BITS) | at.PRESENT
    s[c[at.C_FRAME_TABLE] : c[at.C_FRAME_TABLE] + SYSTEM_PAGES] = pages + 1
    return s


def _clock(machine: spec.Machine, rng: np.random.Generator) -> NDArray[np.float64]:
    clock, replayed = machine.clock, recording(machine.noise.recorded)
    f = np.zeros(at.F_WORDS)
    for name in ("ticks_per_cycle", "step_ticks", "drift", "drift_period_cycles", "jump", "jump_period_cycles"):
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

"""What the system around does to a thread: interrupts, stalls, steal of a hypervisor, an SMT co-runner, and lines that
leave its caches because other users of the host need their entries of a shared directory."""

from __future__ import annotations

from setebench.sim.events import E_INTERRUPTS, E_MEMORY_WRITES, E_STALLS
from setebench.sim.kernel.basics import core_of, count, free_entry, hold_entry, random_below, random_exponential
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.ledger import mark
from setebench.sim.kernel.memory.caches import find, first_way, purge, put_l1, put_l2
from setebench.sim.layout import (
    C_CO_RUNNER,
    C_CO_RUNNER_ENTRIES,
    C_CO_RUNNER_EVERY,
    C_CO_RUNNER_LINES,
    C_COUNTING,
    C_EPISODE,
    C_EPISODE_EVERY,
    C_INTERRUPT,
    C_INTERRUPT_EVERY,
    C_INTERRUPT_LINES,
    C_LEVEL,
    C_LOSS_EVERY,
    C_LOSS_SHARE,
    C_PAGE_LINES_BITS,
    C_STALL,
    C_STALL_EVERY,
    C_STEAL,
    C_STEAL_EVERY,
    C_STEAL_LINES,
    C_THREADS,
    CO_RUNNER_BATCH,
    EXECUTES,
    L_ENTRIES,
    L_LINES,
    L_SET_WORDS,
    L_SETS,
    L_SHARED,
    L_SLOT_WORDS,
    L_SLOTS,
    L_WAYS,
    L_WORDS,
    LINE_SHIFT,
    LOSS_PARTS,
    NEVER,
    OWNED,
    T_CLOCK,
    T_CO_RUNNER,
    T_CO_RUNNER_LEAVES,
    T_DISTURBED,
    T_EPISODE_ENDS,
    T_INTERRUPT,
    T_LOSS,
    T_STALL,
    T_STEAL,
    T_WORDS,
)

HANDLER_PAGES, OTHERS_PAGES = 16, 512
"""Pages of the simulated system whose lines an interrupt's handler brings, and anybody else."""

MOST_DRAWS = 3
"""Times the lines of a cache that are drawn at most when a burst takes some: it leaves one in twenty."""


@compiled
def disturb(c: Ints, s: Ints, cpu: int, t: int) -> int:
    """All disturbances that come before t; returns when the thread goes on."""
    th = c[C_THREADS] + cpu * T_WORDS
    core = core_of(c, cpu)
    if t >= s[th + T_STALL]:
        count(c, s, core, E_STALLS, 1)
        t += c[C_STALL]
        s[th + T_STALL] = t + random_exponential(s, c[C_STALL_EVERY])
    if t >= s[th + T_INTERRUPT]:
        count(c, s, core, E_INTERRUPTS, 1)
        if c[C_COUNTING]:  # the handler executes
            mark(c, s, cpu, t, t + c[C_INTERRUPT], EXECUTES)
        t += c[C_INTERRUPT]
        s[th + T_INTERRUPT] = t + random_exponential(s, c[C_INTERRUPT_EVERY])
        _pollute(c, s, core, c[C_INTERRUPT_LINES], HANDLER_PAGES)
    if t >= s[th + T_STEAL]:
        t = _steal(c, s, th, core, t)
    if t >= s[th + T_CO_RUNNER]:
        _run_co_runner(c, s, cpu, t)
    if t >= s[th + T_LOSS]:
        _lose_lines(c, s, th, core, t)
    _note_next(s, th)
    return t


@compiled
def _note_next(s: Ints, th: int) -> None:
    """Note when the next disturbance is due."""
    first = min(min(s[th + T_INTERRUPT], s[th + T_STALL]), min(s[th + T_CO_RUNNER], s[th + T_STEAL]))
    s[th + T_DISTURBED] = min(first, s[th + T_LOSS])


@compiled
def _steal(c: Ints, s: Ints, th: int, core: int, t: int) -> int:
    """The hypervisor runs another guest, if this is an episode; else one begins at a time from now on."""
    if t >= s[th + T_EPISODE_ENDS]:
        begins = t + random_exponential(s, c[C_EPISODE_EVERY]) if c[C_EPISODE_EVERY] else t
        s[th + T_EPISODE_ENDS] = begins + random_exponential(s, c[C_EPISODE])
        s[th + T_STEAL] = begins + random_exponential(s, c[C_STEAL_EVERY])
        return t
    count(c, s, core, E_STALLS, 1)
    t += c[C_STEAL] // 2 + random_below(s, c[C_STEAL])
    s[th + T_STEAL] = t + random_exponential(s, c[C_STEAL_EVERY])
    _pollute(c, s, core, c[C_STEAL_LINES], OTHERS_PAGES)
    return t


@compiled
def _run_co_runner(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """A co-runner comes to another thread of the core, brings lines while it is there, or has left."""
    th = c[C_THREADS] + cpu * T_WORDS
    leaves = s[th + T_CO_RUNNER_LEAVES]
    if t < leaves:
        _pollute(c, s, core_of(c, cpu), CO_RUNNER_BATCH, OTHERS_PAGES)
    elif s[th + T_CO_RUNNER] < leaves:  # it left while the thread waited
        s[th + T_CO_RUNNER] = leaves + random_exponential(s, c[C_CO_RUNNER_EVERY])
        return
    else:
        leaves = t + random_exponential(s, c[C_CO_RUNNER])
        s[th + T_CO_RUNNER_LEAVES] = leaves
        _share_entries(c, s, cpu, t, leaves)
    lines = t + c[C_CO_RUNNER_LINES]
    if c[C_CO_RUNNER_LINES] and lines < leaves:
        s[th + T_CO_RUNNER] = lines
    else:
        s[th + T_CO_RUNNER] = leaves + random_exponential(s, c[C_CO_RUNNER_EVERY])


@compiled
def _lose_lines(c: Ints, s: Ints, th: int, core: int, t: int) -> None:
    """Others take directory entries of the core's lines, which leave all caches: those of one burst, or of all that
    came while the core did nothing."""
    bursts = 1 + (t - s[th + T_LOSS]) // c[C_LOSS_EVERY]
    share = min(bursts * c[C_LOSS_SHARE], MOST_DRAWS * LOSS_PARTS)
    for level in range(2):
        v = C_LEVEL + level * L_WORDS
        ways = c[v + L_WAYS]
        lines = c[v + L_SETS] * ways
        own = c[v + L_LINES] + core * c[v + L_SETS] * c[v + L_SET_WORDS]
        drawn = lines * share
        for _ in range(drawn // LOSS_PARTS + (random_below(s, LOSS_PARTS) < drawn % LOSS_PARTS)):
            at = random_below(s, lines)
            word = s[own + at // ways * c[v + L_SET_WORDS] + at % ways]
            line = word >> LINE_SHIFT
            # a line of both levels has one entry, and is drawn among those of level 2
            if line >= 0 and (level == 1 or find(c, s, 1, line, first_way(c, s, 1, core, line)) < 0):
                count(c, s, core, E_MEMORY_WRITES, max(purge(c, s, line), 0))
    s[th + T_LOSS] = t + random_exponential(s, c[C_LOSS_EVERY])


@compiled
def _share_entries(c: Ints, s: Ints, cpu: int, t: int, leaves: int) -> None:
    """A co-runner on another thread of the core holds some of its level-1 miss entries until it leaves."""
    owner = core_of(c, cpu) if c[C_LEVEL + L_SHARED] else cpu
    base = c[C_LEVEL + L_SLOTS] + owner * c[C_LEVEL + L_SLOT_WORDS]
    entries = c[C_LEVEL + L_ENTRIES]
    for _ in range(min(c[C_CO_RUNNER_ENTRIES], entries - 1)):
        hold_entry(s, base, entries, free_entry(s, base, entries, t), leaves)


@compiled
def _pollute(c: Ints, s: Ints, core: int, lines: int, pages: int) -> None:
    """Lines of so many of the system's pages, the first of the simulated memory, come into the core's caches."""
    bits = c[C_PAGE_LINES_BITS]
    for _ in range(lines):
        line = random_below(s, pages << bits)
        if find(c, s, 1, line, first_way(c, s, 1, core, line)) < 0:
            put_l2(c, s, core, line, OWNED, 0)
        if find(c, s, 0, line, first_way(c, s, 0, core, line)) < 0:
            put_l1(c, s, core, line, OWNED, 0)


@compiled
def arm_noise(c: Ints, s: Ints, cpu: int) -> None:
    """Set a thread's first interrupt, stall, co-runner, steal and loss of lines, NEVER where there are none."""
    th = c[C_THREADS] + cpu * T_WORDS
    s[th + T_INTERRUPT] = NEVER
    s[th + T_STALL] = NEVER
    s[th + T_CO_RUNNER] = NEVER
    s[th + T_STEAL] = NEVER
    s[th + T_LOSS] = NEVER
    now = s[th + T_CLOCK]
    if c[C_INTERRUPT_EVERY]:
        s[th + T_INTERRUPT] = now + random_exponential(s, c[C_INTERRUPT_EVERY])
    if c[C_STALL_EVERY]:
        s[th + T_STALL] = now + random_exponential(s, c[C_STALL_EVERY])
    if c[C_CO_RUNNER_EVERY]:
        s[th + T_CO_RUNNER] = now + random_exponential(s, c[C_CO_RUNNER_EVERY])
    if c[C_STEAL_EVERY]:
        s[th + T_STEAL] = now + 1
    if c[C_LOSS_EVERY]:
        s[th + T_LOSS] = now + random_exponential(s, c[C_LOSS_EVERY])
    _note_next(s, th)

"""What the system around does to a thread: interrupts, an SMT co-runner, and lines that leave its caches because other
users of the host need their entries of a shared directory. Steal is among the gaps of a recording; co-runners and lost
lines come as it says, where it has them."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count, free_entry, hold_entry, random_below, random_exponential
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.memory.caches import locate, purge, put
from setebench.sim.kernel.memory.miss_entries import slots_of

HANDLER_PAGES = 16
"""Pages of the simulated system whose lines an interrupt's handler brings."""

MOST_DRAWS = 3
"""Times the lines of a cache that are drawn at most when a burst takes some: it leaves one in twenty."""


@compiled
def disturb(c: Ints, s: Ints, th: int, t: int) -> int:
    """All disturbances that come before t; returns when the thread goes on."""
    core = s[th + lay.T_CORE]
    if t >= s[th + lay.T_INTERRUPT]:
        t += c[lay.C_INTERRUPT_CYCLES]
        s[th + lay.T_COMPLETE] = max(s[th + lay.T_COMPLETE], t)  # the handler executes
        s[th + lay.T_INTERRUPT] = t + random_exponential(s, c[lay.C_INTERRUPT_INTERVAL_CYCLES])
        for _ in range(c[lay.C_INTERRUPT_LINES]):  # of the handler, whose pages are the first of the simulated memory
            line = random_below(s, HANDLER_PAGES << c[lay.C_PAGE_LINES_BITS])
            for level in (1, 0):
                if locate(c, s, level, core, line) < 0:
                    put(c, s, level, core, line, lay.OWNED, 0)
    if t >= s[th + lay.T_CO_RUNNER]:
        _run_co_runner(c, s, th, t)
    if t >= s[th + lay.T_LOSS]:
        _lose_lines(c, s, th, core, t)
    _note_next(s, th)
    return t


@compiled
def _note_next(s: Ints, th: int) -> None:
    """Note when the next disturbance is due."""
    s[th + lay.T_DISTURBED] = min(s[th + lay.T_INTERRUPT], s[th + lay.T_CO_RUNNER], s[th + lay.T_LOSS])


@compiled
def _run_co_runner(c: Ints, s: Ints, th: int, t: int) -> None:
    """A co-runner comes to another thread of the core and holds some of its level-1 miss entries until it leaves."""
    spells, came = c[lay.C_REPLAY_SHARED], s[th + lay.T_CO_RUNNER]
    if spells:
        leaves = came + s[c[lay.C_REPLAY] + spells + _shared_after(c, s, came - 1)]
    else:
        leaves = t + random_exponential(s, c[lay.C_CO_RUNNER_CYCLES])
    s[th + lay.T_CO_RUNNER_LEAVES] = leaves
    s[th + lay.T_CO_RUNNER] = _next_co_runner(c, s, max(t, leaves))
    base, entries, _, _ = slots_of(c, s, 0, th, lay.DEMAND)
    for _ in range(min(c[lay.C_CO_RUNNER_ENTRIES], entries - 1)):
        hold_entry(s, base, entries, free_entry(s, base, entries, t), leaves)


@inlined
def _first(s: Ints, t: int, mean: int) -> int:
    """When what comes in such intervals comes first, NEVER where there is none."""
    return t + random_exponential(s, mean) if mean else lay.NEVER


@inlined
def _place(c: Ints, t: int) -> int:
    """Where in the recording, which repeats itself, time t is."""
    return (t + c[lay.C_REPLAY_BEGIN]) % c[lay.C_REPLAY_PERIOD]


@compiled
def _shared_after(c: Ints, s: Ints, t: int) -> int:
    """The first recorded co-runner that comes after time t."""
    place, low, high = _place(c, t), 0, c[lay.C_REPLAY_SHARED]
    while low < high:
        middle = (low + high) // 2
        if s[c[lay.C_REPLAY] + middle] <= place:
            low = middle + 1
        else:
            high = middle
    return low % c[lay.C_REPLAY_SHARED]


@compiled
def _next_co_runner(c: Ints, s: Ints, t: int) -> int:
    """When the first co-runner after time t comes."""
    if c[lay.C_REPLAY_SHARED]:
        ahead = s[c[lay.C_REPLAY] + _shared_after(c, s, t)] - _place(c, t)
        return t + (ahead if ahead > 0 else ahead + c[lay.C_REPLAY_PERIOD])
    return _first(s, t, c[lay.C_CO_RUNNER_INTERVAL_CYCLES])


@compiled
def _lose_lines(c: Ints, s: Ints, th: int, core: int, t: int) -> None:
    """Others take directory entries of the core's lines, which leave all caches: those of one burst, or of all that
    came while the core did nothing."""
    bursts = 1 + (t - s[th + lay.T_LOSS]) // c[lay.C_LOSS_INTERVAL_CYCLES]
    share, recorded = c[lay.C_LOSS_SHARE], c[lay.C_REPLAY_LOST]
    if recorded:
        part = c[lay.C_REPLAY_PERIOD] // recorded + 1
        share = s[c[lay.C_REPLAY] + 2 * c[lay.C_REPLAY_SHARED] + _place(c, t) // part]
    share = min(bursts * share, MOST_DRAWS * lay.LOSS_PARTS)
    for level in range(2):
        v = lay.C_LEVEL + level * lay.L_WORDS
        ways = c[v + lay.L_WAYS]
        lines = c[v + lay.L_SETS] * ways
        own = c[v + lay.L_LINES] + core * c[v + lay.L_SETS] * c[v + lay.L_SET_WORDS]
        drawn = lines * share
        for _ in range(drawn // lay.LOSS_PARTS + (random_below(s, lay.LOSS_PARTS) < drawn % lay.LOSS_PARTS)):
            at = random_below(s, lines)
            word = s[own + at // ways * c[v + lay.L_SET_WORDS] + at % ways]
            line = word >> lay.LINE_SHIFT
            # a line of both levels has one entry, and is drawn among those of level 2
            if line >= 0 and (level == 1 or locate(c, s, 1, core, line) < 0):
                count(c, s, core, lay.E_MEM_WRITE, max(purge(c, s, line), 0))
    s[th + lay.T_LOSS] = t + random_exponential(s, c[lay.C_LOSS_INTERVAL_CYCLES])


@compiled
def arm_noise(c: Ints, s: Ints, th: int) -> None:
    """Set a thread's first interrupt, co-runner and loss of lines."""
    t = s[th + lay.T_CLOCK]
    s[th + lay.T_INTERRUPT] = _first(s, t, c[lay.C_INTERRUPT_INTERVAL_CYCLES])
    s[th + lay.T_CO_RUNNER] = _next_co_runner(c, s, t)
    s[th + lay.T_LOSS] = _first(s, t, c[lay.C_LOSS_INTERVAL_CYCLES])
    _note_next(s, th)

"""The cycle ledger of a machine with a PMU: what held in each cycle of a thread, while events are counted.

Timing here is dataflow, not cycle by cycle, so what a cycle was like is only known once everything that reaches into it
was simulated. A ring holds the latest cycles: of each by how much less or more of something there is than in the cycle
before (misses of loads in flight, loads that wait, instructions that begin, ...), four counts of 15 bits in each of two
words. So a stretch of any length is two additions. Cycles are settled in their order, which gives back the counts, when
the ring needs their place and at the end of a run. A stretch that is noted a whole ring too late (behind a page fault,
say) only adds to the sum of misses in flight, which needs nothing else of its cycles.

Nothing is kept while nothing is counted: callers look at `C_COUNTING` first.
"""

from __future__ import annotations

from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import (
    C_LEDGER,
    CHAIN_WAITS,
    ENTRY_WAITS_L1,
    ENTRY_WAITS_L2,
    EXECUTES,
    IN_FLIGHT,
    LEDGER_CYCLES,
    LEDGER_FIELD,
    LEDGER_FIELDS,
    LEDGER_MASK,
    LG_CHAIN_L1_MISS,
    LG_CHAIN_LOAD,
    LG_EXECUTING,
    LG_FB_FULL,
    LG_FLOORS,
    LG_IN_FLIGHT,
    LG_IN_FLIGHT_CYCLES,
    LG_INSTRUCTIONS,
    LG_LAST,
    LG_NOW,
    LG_RING,
    LG_SETTLED,
    LG_SQ_FULL,
    LG_STALL_L1_MISS,
    LG_STALL_LOAD,
    LG_STORES_FULL,
    LG_WORDS,
    LOAD_WAITS,
    STORES_FULL,
    UNIT,
)

FLOOR = 4
"""Misses that an event counts as one where it counts whole fours in each cycle."""


@inlined
def ledger_of(c: Ints, cpu: int) -> int:
    """Where a thread's ledger lies in the state."""
    return c[C_LEDGER] + cpu * LG_WORDS


@inlined
def _count(first: int, second: int, what: int) -> int:
    """How much there is of something, given both words of a cycle."""
    word = first if what < LEDGER_FIELDS else second
    return (word >> (LEDGER_FIELD * (what % LEDGER_FIELDS))) & ((1 << LEDGER_FIELD) - 1)


@compiled
def _add_cycle(s: Ints, ledger: int, first: int, second: int) -> None:
    """Add one cycle to the totals."""
    misses = _count(first, second, IN_FLIGHT)
    missing = 1 if misses else 0
    s[ledger + LG_IN_FLIGHT] += misses
    s[ledger + LG_FLOORS] += misses // FLOOR
    s[ledger + LG_IN_FLIGHT_CYCLES] += missing
    s[ledger + LG_STORES_FULL] += 1 if _count(first, second, STORES_FULL) else 0
    s[ledger + LG_FB_FULL] += 1 if _count(first, second, ENTRY_WAITS_L1) else 0
    s[ledger + LG_SQ_FULL] += 1 if _count(first, second, ENTRY_WAITS_L2) else 0
    if _count(first, second, EXECUTES):
        s[ledger + LG_EXECUTING] += 1
        return
    chain = 1 if _count(first, second, CHAIN_WAITS) else 0
    waiting = 1 if _count(first, second, LOAD_WAITS) else 0
    s[ledger + LG_STALL_L1_MISS] += missing
    s[ledger + LG_CHAIN_L1_MISS] += missing | chain
    s[ledger + LG_STALL_LOAD] += waiting
    s[ledger + LG_CHAIN_LOAD] += waiting | chain


@compiled
def _settle(s: Ints, ledger: int, until: int) -> None:
    """Add to the totals the cycles that come before `until` and were not yet."""
    now = ledger + LG_NOW
    for cycle in range(s[ledger + LG_SETTLED], until):
        at = ledger + LG_RING + 2 * (cycle & LEDGER_MASK)
        if s[at] or s[at + 1]:
            s[now] += s[at]
            s[now + 1] += s[at + 1]
            s[at] = 0
            s[at + 1] = 0
        if s[now] or s[now + 1]:
            _add_cycle(s, ledger, s[now], s[now + 1])
    s[ledger + LG_SETTLED] = max(s[ledger + LG_SETTLED], until)


@compiled
def _note(s: Ints, ledger: int, first: int, end: int, what: int) -> None:
    """Note one more of something in the cycles from `first` to before `end`."""
    if end <= first:
        return
    s[ledger + LG_LAST] = max(s[ledger + LG_LAST], end)
    _settle(s, ledger, first - LEDGER_CYCLES + 1)
    settled = s[ledger + LG_SETTLED]
    if first < settled:
        if what == IN_FLIGHT:
            s[ledger + LG_IN_FLIGHT] += min(end, settled) - first
        if end <= settled:
            return
        first = settled
    more = 1 << (LEDGER_FIELD * (what % LEDGER_FIELDS))
    ring = ledger + LG_RING + what // LEDGER_FIELDS
    s[ring + 2 * (first & LEDGER_MASK)] += more
    _settle(s, ledger, end - LEDGER_CYCLES + 1)
    s[ring + 2 * (end & LEDGER_MASK)] -= more


@compiled
def mark(c: Ints, s: Ints, cpu: int, begin: int, end: int, what: int) -> None:
    """Note one more of something (a constant of `layout`) in the cycles that begin between two times."""
    _note(s, ledger_of(c, cpu), begin // UNIT, end // UNIT, what)


@compiled
def begins(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """Note that one instruction begins to execute at t."""
    ledger = ledger_of(c, cpu)
    s[ledger + LG_INSTRUCTIONS] += 1
    _note(s, ledger, t // UNIT, t // UNIT + 1, EXECUTES)


@compiled
def begin_chain(c: Ints, s: Ints, cpu: int, t: int, instructions: int, step: int) -> None:
    """Note `instructions` that each need the one before, `step` apart, the first of which begins at t."""
    if step == UNIT:
        s[ledger_of(c, cpu) + LG_INSTRUCTIONS] += instructions
        mark(c, s, cpu, t, t + instructions * step, EXECUTES)
        return
    for k in range(instructions):
        begins(c, s, cpu, t + k * step)
    mark(c, s, cpu, t, t + instructions * step, CHAIN_WAITS)


@compiled
def open_ledger(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """A run begins at t: since the one before nothing happened but what that left behind."""
    ledger = ledger_of(c, cpu)
    _settle(s, ledger, min(t // UNIT, s[ledger + LG_LAST] + 1))
    s[ledger + LG_SETTLED] = max(s[ledger + LG_SETTLED], t // UNIT)


@compiled
def close_ledger(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """A run ends at t. What it leaves behind (stores that still wait for an entry) is left to the next one."""
    _settle(s, ledger_of(c, cpu), t // UNIT)

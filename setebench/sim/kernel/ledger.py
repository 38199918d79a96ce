"""The cycle ledger of a machine with a PMU: what held in each cycle of a thread, while events are counted.

Timing here is dataflow, not cycle by cycle, so what a cycle was like is only known once everything that reaches into it
was simulated. A ring keeps one word for each of the latest cycles: how many level-1 misses of loads are in flight, and
flags. Marks come in program order, which is not the order of time. A mark for a newer cycle first adds the cycle that
its word held to the totals; the end of a run adds the rest. A mark that comes a whole ring too late (behind a page
fault, say) only adds to the sum of misses in flight, which needs no other mark of its cycle.

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
    IN_FLIGHT_MASK,
    LEDGER_BITS,
    LEDGER_CYCLES,
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
    LG_RING,
    LG_SQ_FULL,
    LG_STALL_L1_MISS,
    LG_STALL_LOAD,
    LG_STORES_FULL,
    LG_WORDS,
    LOAD_WAITS,
    STAMP_SHIFT,
    STORES_FULL,
    UNIT,
)

FLOOR = 4
"""Misses that an event counts as one where it counts whole fours in each cycle."""


@inlined
def ledger_of(c: Ints, cpu: int) -> int:
    """Where a thread's ledger lies in the state."""
    return c[C_LEDGER] + cpu * LG_WORDS


@compiled
def _settle(s: Ints, ledger: int, word: int) -> None:
    """Add one cycle to the totals."""
    misses = word & IN_FLIGHT_MASK
    s[ledger + LG_IN_FLIGHT] += misses
    s[ledger + LG_FLOORS] += misses // FLOOR
    missing = 1 if misses else 0
    s[ledger + LG_IN_FLIGHT_CYCLES] += missing
    s[ledger + LG_STORES_FULL] += 1 if word & STORES_FULL else 0
    s[ledger + LG_FB_FULL] += 1 if word & ENTRY_WAITS_L1 else 0
    s[ledger + LG_SQ_FULL] += 1 if word & ENTRY_WAITS_L2 else 0
    if word & EXECUTES:
        s[ledger + LG_EXECUTING] += 1
        return
    chain = 1 if word & CHAIN_WAITS else 0
    waiting = 1 if word & LOAD_WAITS else 0
    s[ledger + LG_STALL_L1_MISS] += missing
    s[ledger + LG_CHAIN_L1_MISS] += missing | chain
    s[ledger + LG_STALL_LOAD] += waiting
    s[ledger + LG_CHAIN_LOAD] += waiting | chain


@inlined
def _note(s: Ints, ledger: int, cycle: int, misses: int, flags: int) -> None:
    at = ledger + LG_RING + (cycle & LEDGER_MASK)
    stamp = cycle >> LEDGER_BITS
    word = s[at]
    held = word >> STAMP_SHIFT
    if held > stamp:
        s[ledger + LG_IN_FLIGHT] += misses
        return
    if held < stamp:
        _settle(s, ledger, word)
        word = stamp << STAMP_SHIFT
    s[at] = (word + misses) | flags


@compiled
def mark(c: Ints, s: Ints, cpu: int, begin: int, end: int, misses: int, flags: int) -> None:
    """Note for each cycle that begins from `begin` to `end` (times) that `misses` more are in flight, and `flags`."""
    ledger = ledger_of(c, cpu)
    last = end // UNIT
    s[ledger + LG_LAST] = max(s[ledger + LG_LAST], last)
    for cycle in range(begin // UNIT, last):
        _note(s, ledger, cycle, misses, flags)


@compiled
def begins(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """Note that one instruction begins to execute at t."""
    ledger = ledger_of(c, cpu)
    s[ledger + LG_INSTRUCTIONS] += 1
    cycle = t // UNIT
    s[ledger + LG_LAST] = max(s[ledger + LG_LAST], cycle)
    _note(s, ledger, cycle, 0, EXECUTES)


@compiled
def begin_chain(c: Ints, s: Ints, cpu: int, t: int, instructions: int, step: int) -> None:
    """Note `instructions` that each need the one before, `step` apart, the first of which begins at t."""
    for k in range(instructions):
        begins(c, s, cpu, t + k * step)
    if step > UNIT:
        mark(c, s, cpu, t, t + instructions * step, 0, CHAIN_WAITS)


@compiled
def settle_all(c: Ints, s: Ints, cpu: int, since: int) -> None:
    """Add to the totals what the ring holds of the time from `since` on; nothing is left in it."""
    ledger = ledger_of(c, cpu)
    last = s[ledger + LG_LAST]
    for cycle in range(max(since // UNIT, last + 1 - LEDGER_CYCLES), last + 1):
        at = ledger + LG_RING + (cycle & LEDGER_MASK)
        _settle(s, ledger, s[at])
        s[at] = 0

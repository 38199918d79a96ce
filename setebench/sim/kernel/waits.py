"""What a thread's cycles go to, while events are counted (`C_COUNTING`): words of `layout.EVENTS`, in whole cycles.

Instructions retire in order. So a cycle without any is one that the next instruction to complete has the others wait:
it counts as idle, and as a wait for what that instruction is (`T_WAITS_FOR`), until others turn out to complete in it.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count
from setebench.sim.kernel.compiler import Ints, compiled

FLOOR = 4
"""Misses that an event counts as one where it counts whole fours in each cycle."""


@compiled
def _idle(c: Ints, s: Ints, th: int, first: int, end: int, sign: int) -> None:
    """Count cycles from `first` to before `end` as ones without an instruction, or (`sign` -1) take them back."""
    core, reason = s[th + lay.T_CORE], s[th + lay.T_WAITS_FOR]
    cycles = sign * max(end - first, 0)
    count(c, s, core, lay.E_NO_EXECUTE, cycles)
    count(c, s, core, lay.E_CHAIN_WAIT, cycles if reason == lay.FOR_CHAIN else 0)
    count(c, s, core, lay.E_STALL_LOAD_ANY, cycles if reason >= lay.FOR_LOAD else 0)
    if reason == lay.FOR_MISS:
        began = s[th + lay.T_MISS_CYCLE] if sign > 0 else 0
        count(c, s, core, lay.E_STALL_L1D_MISS, sign * max(end - max(first, began), 0))


@compiled
def note_complete(c: Ints, s: Ints, th: int, instructions: int, done: int) -> None:
    """Note instructions, the last of which completes at `done`, and the cycles in which it was waited for."""
    count(c, s, s[th + lay.T_CORE], lay.E_INSTRUCTIONS, instructions)
    cycle, before = done // lay.UNIT, max(s[th + lay.T_COMPLETE], s[lay.S_NOW]) // lay.UNIT
    if cycle >= before:
        _idle(c, s, th, before + 1, cycle, 1)
        s[th + lay.T_WAITED_FOR] = s[th + lay.T_WAITS_FOR]
    elif cycle > s[th + lay.T_BUSY_CYCLE]:  # ahead of what still waits
        s[th + lay.T_WAITS_FOR] = s[th + lay.T_WAITED_FOR]
        _idle(c, s, th, cycle, cycle + 1, -1)
        s[th + lay.T_BUSY_CYCLE] = cycle
    s[th + lay.T_COMPLETE] = max(s[th + lay.T_COMPLETE], done)
    s[th + lay.T_WAITS_FOR] = 0


@compiled
def note_chain(c: Ints, s: Ints, th: int, start: int, instructions: int, step: int) -> None:
    """Note instructions that each need the one before, `step` apart, but for the number that `complete` still gets."""
    last = min(instructions, c[lay.C_REORDER_WINDOW]) if c[lay.C_OUT_OF_ORDER] else 1
    note_complete(c, s, th, instructions - last, start)
    s[th + lay.T_WAITS_FOR] = lay.FOR_CHAIN
    end = start + instructions * step
    _idle(c, s, th, 0, max(end - s[th + lay.T_COMPLETE], 0) // step * (step - lay.UNIT) // lay.UNIT, 1)
    s[th + lay.T_COMPLETE] = max(s[th + lay.T_COMPLETE], end)


@compiled
def span(c: Ints, s: Ints, th: int, event: int, until: int, begin: int, end: int) -> None:
    """Count the cycles between two times that no earlier span of this kind had; `until` (a T_ index) is where those
    end. Spans of a kind come about in the order of their ends."""
    noted = th + until
    count(c, s, s[th + lay.T_CORE], event, max(end // lay.UNIT - max(begin, s[noted]) // lay.UNIT, 0))
    s[noted] = max(s[noted], end)


@compiled
def note_load(c: Ints, s: Ints, th: int, arrives: int) -> None:
    """Note a load whose line `arrives`; what S_SERVED and S_ENTRY say of it still holds."""
    core, entry = s[th + lay.T_CORE], s[lay.S_ENTRY]
    misses = s[lay.S_SERVED] > 1
    s[th + lay.T_WAITS_FOR] = lay.FOR_MISS if misses else lay.FOR_LOAD
    if misses:
        cycles = arrives // lay.UNIT - entry // lay.UNIT
        s[th + lay.T_MISS_CYCLE] = entry // lay.UNIT
        count(c, s, core, lay.E_L1D_INFLIGHT_SUM, cycles)
        owner = core if c[lay.C_LEVEL + lay.L_MSHR_SHARED_BY_SMT] else s[th + lay.T_CPU]
        base, in_flight = c[lay.C_LEVEL + lay.L_SLOTS] + owner * c[lay.C_LEVEL + lay.L_SLOT_WORDS], 0
        for each in range(base, base + c[lay.C_LEVEL + lay.L_MSHR_ENTRIES]):  # one that begins then among them
            in_flight += s[each] > entry
        count(c, s, core, lay.E_IN_FLIGHT_FOURS, 0 if in_flight % FLOOR else cycles)
        span(c, s, th, lay.E_L1D_INFLIGHT_CYCLES, lay.T_IN_FLIGHT_UNTIL, entry, arrives)

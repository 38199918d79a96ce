"""The core: when instructions enter, complete and retire, and the operations on memory.

Timing is dataflow: every instruction gets its times from the issue width, the reorder window and the queues before it,
its operands and the memory system, one instruction after the other in program order. Nothing is simulated cycle by
cycle, which is what makes plain streams fast.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.waits import note_chain, note_complete

LOADS, STORES = range(2)
"""Queues, whose words lie one behind the other."""


@inlined
def enter(c: Ints, s: Ints, th: int) -> int:
    """Let the next instruction into the core; returns when it enters."""
    t = s[th + lay.T_CLOCK]
    if c[lay.C_OUT_OF_ORDER]:
        t = max(t, s[s[th + lay.T_WINDOW_RING] + s[th + lay.T_WINDOW_POS]])
    s[th + lay.T_CLOCK] = t + c[lay.C_ISSUE] + (c[lay.C_CO_RUNNER_ISSUE] if t < s[th + lay.T_CO_RUNNER_LEAVES] else 0)
    return t


@inlined
def complete(c: Ints, s: Ints, th: int, done: int) -> int:
    """Note that the instruction which entered last completes at `done`, and retire it in order."""
    if c[lay.C_COUNTING]:
        note_complete(c, s, th, 1, done)
    s[th + lay.T_COMPLETE] = max(s[th + lay.T_COMPLETE], done)
    if c[lay.C_OUT_OF_ORDER]:
        retired = max(s[th + lay.T_RETIRED], done)
        s[th + lay.T_RETIRED] = retired
        pos = s[th + lay.T_WINDOW_POS]
        s[s[th + lay.T_WINDOW_RING] + pos] = retired
        s[th + lay.T_WINDOW_POS] = pos + 1 if pos + 1 < c[lay.C_REORDER_WINDOW] else 0
        return retired
    return done


@inlined
def queue_wait(c: Ints, s: Ints, th: int, queue: int, t: int) -> int:
    """When a queue (LOADS or STORES, a ring of release times) has a place for an instruction that enters at t."""
    free = s[s[th + lay.T_LOAD_RING + queue] + s[th + lay.T_LOAD_POS + queue]]
    if free > t:
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], free + c[lay.C_ISSUE])
        return free
    return t


@inlined
def queue_leave(c: Ints, s: Ints, th: int, queue: int, t: int) -> None:
    """Note that the instruction which entered a queue last leaves it at t."""
    at = s[th + lay.T_LOAD_POS + queue]
    s[s[th + lay.T_LOAD_RING + queue] + at] = t
    s[th + lay.T_LOAD_POS + queue] = at + 1 if at + 1 < c[lay.C_LOAD_QUEUE + queue] else 0


@inlined
def hold(c: Ints, s: Ints, th: int, t: int) -> None:
    """In an in-order core nothing enters before t; an out-of-order one doesn't care."""
    if not c[lay.C_OUT_OF_ORDER]:
        block(c, s, th, t)


@inlined
def block(c: Ints, s: Ints, th: int, t: int) -> None:
    """Nothing enters before t."""
    s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], t)


@compiled
def chain(c: Ints, s: Ints, th: int, instructions: int, step: int, register: int) -> None:
    """`instructions` each needing the one before, `step` apart; `register` (a T_ index, -1 for none) carries the chain
    from one operation to the next. Only the last of them that fit the reorder window leave a trace in it."""
    t = enter(c, s, th)
    start = max(t, s[th + register]) if register >= 0 else t
    end = start + instructions * step
    if register >= 0:
        s[th + register] = end
    if c[lay.C_COUNTING]:
        note_chain(c, s, th, start, instructions, step)
    if not c[lay.C_OUT_OF_ORDER]:
        block(c, s, th, end - step + c[lay.C_ISSUE])
        complete(c, s, th, end)
        return
    window = c[lay.C_REORDER_WINDOW]
    s[th + lay.T_CLOCK] += (instructions - 1) * c[lay.C_ISSUE]
    if instructions > window:
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], end - window * step)
    ring = s[th + lay.T_WINDOW_RING]
    for k in range(min(instructions, window) - 1, -1, -1):
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], s[ring + s[th + lay.T_WINDOW_POS]])
        complete(c, s, th, end - k * step)


@compiled
def free_instructions(c: Ints, s: Ints, th: int, instructions: int, latency: int) -> None:
    """`instructions` that need nothing and nobody, each done `latency` after it entered."""
    for _ in range(instructions):
        t = enter(c, s, th)
        complete(c, s, th, t + latency)

"""The core: when instructions enter, complete and retire, and the operations on memory.

Timing is dataflow: every instruction gets its times from the issue width, the reorder window and the queues before it,
its operands and the memory system, one instruction after the other in program order. Nothing is simulated cycle by
cycle, which is what makes plain streams fast.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.waits import note_chain, note_complete


@inlined
def enter(c: Ints, s: Ints, cpu: int) -> int:
    """Let the next instruction into the core; returns when it enters."""
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    t = s[th + lay.T_CLOCK]
    if c[lay.C_OUT_OF_ORDER]:
        t = max(t, s[c[lay.C_WINDOW_RING] + cpu * c[lay.C_REORDER_WINDOW] + s[th + lay.T_WINDOW_POS]])
    s[th + lay.T_CLOCK] = t + c[lay.C_ISSUE] + (c[lay.C_CO_RUNNER_ISSUE] if t < s[th + lay.T_CO_RUNNER_LEAVES] else 0)
    return t


@inlined
def complete(c: Ints, s: Ints, cpu: int, done: int) -> int:
    """Note that the instruction which entered last completes at `done`, and retire it in order."""
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    if c[lay.C_COUNTING]:
        note_complete(c, s, cpu, 1, done)
    s[th + lay.T_COMPLETE] = max(s[th + lay.T_COMPLETE], done)
    if c[lay.C_OUT_OF_ORDER]:
        retired = max(s[th + lay.T_RETIRED], done)
        s[th + lay.T_RETIRED] = retired
        pos = s[th + lay.T_WINDOW_POS]
        s[c[lay.C_WINDOW_RING] + cpu * c[lay.C_REORDER_WINDOW] + pos] = retired
        s[th + lay.T_WINDOW_POS] = pos + 1 if pos + 1 < c[lay.C_REORDER_WINDOW] else 0
        return retired
    return done


@inlined
def queue_wait(c: Ints, s: Ints, cpu: int, ring: int, size: int, position: int, t: int) -> int:
    """When the queue (a ring of release times) has a place for an instruction that enters at t."""
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    free = s[ring + cpu * size + s[th + position]]
    if free > t:
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], free + c[lay.C_ISSUE])
        return free
    return t


@inlined
def queue_leave(c: Ints, s: Ints, cpu: int, ring: int, size: int, position: int, t: int) -> None:
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    at = s[th + position]
    s[ring + cpu * size + at] = t
    s[th + position] = at + 1 if at + 1 < size else 0


@inlined
def hold(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """In an in-order core nothing enters before t; an out-of-order one doesn't care."""
    if not c[lay.C_OUT_OF_ORDER]:
        block(c, s, cpu, t)


@inlined
def block(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """Nothing enters before t."""
    clock = c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_CLOCK
    s[clock] = max(s[clock], t)


@compiled
def chain(c: Ints, s: Ints, cpu: int, instructions: int, step: int, register: int) -> None:
    """`instructions` each needing the one before, `step` apart; `register` (a T_ index, -1 for none) carries the chain
    from one operation to the next. Only the last of them that fit the reorder window leave a trace in it."""
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    t = enter(c, s, cpu)
    start = max(t, s[th + register]) if register >= 0 else t
    end = start + instructions * step
    if register >= 0:
        s[th + register] = end
    if c[lay.C_COUNTING]:
        note_chain(c, s, cpu, start, instructions, step)
    if not c[lay.C_OUT_OF_ORDER]:
        block(c, s, cpu, end - step + c[lay.C_ISSUE])
        complete(c, s, cpu, end)
        return
    window = c[lay.C_REORDER_WINDOW]
    s[th + lay.T_CLOCK] += (instructions - 1) * c[lay.C_ISSUE]
    if instructions > window:
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], end - window * step)
    ring = c[lay.C_WINDOW_RING] + cpu * window
    for k in range(min(instructions, window) - 1, -1, -1):
        s[th + lay.T_CLOCK] = max(s[th + lay.T_CLOCK], s[ring + s[th + lay.T_WINDOW_POS]])
        complete(c, s, cpu, end - k * step)


@compiled
def free_instructions(c: Ints, s: Ints, cpu: int, instructions: int, latency: int) -> None:
    """`instructions` that need nothing and nobody, each done `latency` after it entered."""
    for _ in range(instructions):
        t = enter(c, s, cpu)
        complete(c, s, cpu, t + latency)

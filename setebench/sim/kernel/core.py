"""The core: when instructions enter, complete and retire, and the operations on memory.

Timing is dataflow: every instruction gets its times from the issue width, the reorder window and the queues before it,
its operands and the memory system, one instruction after the other in program order. Nothing is simulated cycle by
cycle, which is what makes plain streams fast.
"""

from __future__ import annotations

from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.ledger import begin_chain, begins
from setebench.sim.layout import (
    C_CO_RUNNER_ISSUE,
    C_COUNTING,
    C_ISSUE,
    C_OUT_OF_ORDER,
    C_THREADS,
    C_WINDOW,
    C_WINDOW_RING,
    T_CLOCK,
    T_CO_RUNNER_LEAVES,
    T_COMPLETE,
    T_RETIRED,
    T_WINDOW_POS,
    T_WORDS,
)


@inlined
def enter(c: Ints, s: Ints, cpu: int) -> int:
    """Let the next instruction into the core; returns when it enters."""
    th = c[C_THREADS] + cpu * T_WORDS
    t = s[th + T_CLOCK]
    if c[C_OUT_OF_ORDER]:
        t = max(t, s[c[C_WINDOW_RING] + cpu * c[C_WINDOW] + s[th + T_WINDOW_POS]])
    s[th + T_CLOCK] = t + c[C_ISSUE] + (c[C_CO_RUNNER_ISSUE] if t < s[th + T_CO_RUNNER_LEAVES] else 0)
    return t


@inlined
def complete(c: Ints, s: Ints, cpu: int, done: int) -> int:
    """Note that the instruction which entered last completes at `done`, and retire it in order."""
    th = c[C_THREADS] + cpu * T_WORDS
    s[th + T_COMPLETE] = max(s[th + T_COMPLETE], done)
    if c[C_OUT_OF_ORDER]:
        retired = max(s[th + T_RETIRED], done)
        s[th + T_RETIRED] = retired
        pos = s[th + T_WINDOW_POS]
        s[c[C_WINDOW_RING] + cpu * c[C_WINDOW] + pos] = retired
        s[th + T_WINDOW_POS] = pos + 1 if pos + 1 < c[C_WINDOW] else 0
        return retired
    return done


@inlined
def queue_wait(c: Ints, s: Ints, cpu: int, ring: int, size: int, position: int, t: int) -> int:
    """When the queue (a ring of release times) has a place for an instruction that enters at t."""
    th = c[C_THREADS] + cpu * T_WORDS
    free = s[ring + cpu * size + s[th + position]]
    if free > t:
        s[th + T_CLOCK] = max(s[th + T_CLOCK], free + c[C_ISSUE])
        return free
    return t


@inlined
def queue_leave(c: Ints, s: Ints, cpu: int, ring: int, size: int, position: int, t: int) -> None:
    th = c[C_THREADS] + cpu * T_WORDS
    at = s[th + position]
    s[ring + cpu * size + at] = t
    s[th + position] = at + 1 if at + 1 < size else 0


@inlined
def hold(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """In an in-order core nothing enters before t; an out-of-order one doesn't care."""
    if not c[C_OUT_OF_ORDER]:
        block(c, s, cpu, t)


@inlined
def block(c: Ints, s: Ints, cpu: int, t: int) -> None:
    """Nothing enters before t."""
    clock = c[C_THREADS] + cpu * T_WORDS + T_CLOCK
    s[clock] = max(s[clock], t)


@compiled
def chain(c: Ints, s: Ints, cpu: int, instructions: int, step: int, register: int) -> None:
    """`instructions` each needing the one before, `step` apart; `register` (a T_ index, -1 for none) carries the chain
    from one operation to the next. Only the last of them that fit the reorder window leave a trace in it."""
    th = c[C_THREADS] + cpu * T_WORDS
    t = enter(c, s, cpu)
    start = max(t, s[th + register]) if register >= 0 else t
    end = start + instructions * step
    if register >= 0:
        s[th + register] = end
    if c[C_COUNTING]:
        begin_chain(c, s, cpu, start, instructions, step)
    if not c[C_OUT_OF_ORDER]:
        block(c, s, cpu, end - step + c[C_ISSUE])
        complete(c, s, cpu, end)
        return
    window = c[C_WINDOW]
    s[th + T_CLOCK] += (instructions - 1) * c[C_ISSUE]
    if instructions > window:
        s[th + T_CLOCK] = max(s[th + T_CLOCK], end - window * step)
    ring = c[C_WINDOW_RING] + cpu * window
    for k in range(min(instructions, window) - 1, -1, -1):
        s[th + T_CLOCK] = max(s[th + T_CLOCK], s[ring + s[th + T_WINDOW_POS]])
        complete(c, s, cpu, end - k * step)


@compiled
def free_instructions(c: Ints, s: Ints, cpu: int, instructions: int, latency: int) -> None:
    """`instructions` that need nothing and nobody, each done `latency` after it entered."""
    for _ in range(instructions):
        t = enter(c, s, cpu)
        if c[C_COUNTING]:
            begins(c, s, cpu, t)
        complete(c, s, cpu, t + latency)

"""Loads, stores and flushes: the operations that touch memory, but for software prefetches."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.core import LOADS, STORES, block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.memory.caches import purge
from setebench.sim.kernel.memory.hierarchy import access
from setebench.sim.kernel.memory.translation import translate
from setebench.sim.kernel.waits import note_load


@inlined
def parts(c: Ints, size: int) -> int:
    """How many ports an access of so many bytes takes."""
    return max(size // c[lay.C_PORT_BYTES], 1)


@inlined
def load_value(c: Ints, s: Ints, th: int, address: int, size: int, ready: int) -> int:
    """When the value of a load is there whose address is known at `ready`."""
    core = s[th + lay.T_CORE]
    count(c, s, core, lay.E_LOAD, 1)
    t = translate(c, s, th, address, ready)
    done = access(c, s, th, address, parts(c, size), False, t)
    if c[lay.C_COUNTING]:
        note_load(c, s, th, done)
    return done + (c[lay.C_BYTES16 + (size >> 5)] if size > 8 else 0)


@compiled
def load(c: Ints, s: Ints, th: int, address: int, size: int, operand: int) -> int:
    """One load; `operand` is when its address is known. Returns when its value is there."""
    t = enter(c, s, th)
    t = queue_wait(c, s, th, LOADS, t)
    ready = max(t, operand)
    done = load_value(c, s, th, address, size, ready)
    hold(c, s, th, max(ready, s[lay.S_ENTRY]))
    if c[lay.C_BLOCKING_LOAD] and s[lay.S_SERVED] > 1:
        block(c, s, th, done)
    left = complete(c, s, th, done)
    queue_leave(c, s, th, LOADS, left)
    return done


@inlined
def store_enters(c: Ints, s: Ints, th: int, operand: int) -> int:
    """When an operation of the store queue has a place there and its operand, which is there at `operand`."""
    entered = enter(c, s, th)
    t = queue_wait(c, s, th, STORES, entered)
    count(c, s, s[th + lay.T_CORE], lay.E_STALL_STORE_BUFFER, t // lay.UNIT - entered // lay.UNIT)
    return max(t, operand)


@inlined
def store_leaves(c: Ints, s: Ints, th: int, written: int) -> None:
    """The operation that entered the store queue last leaves it when it is written."""
    s[th + lay.T_DRAINED] = max(s[th + lay.T_DRAINED], written)
    queue_leave(c, s, th, STORES, written)


@compiled
def store(c: Ints, s: Ints, th: int, address: int, size: int, operand: int) -> None:
    """One store: it retires at once and is written when its line is there, in order with the stores before it."""
    core = s[th + lay.T_CORE]
    count(c, s, core, lay.E_STORE, 1)
    ready = store_enters(c, s, th, operand)
    known = translate(c, s, th, address, ready)
    step = max(c[lay.C_STORE_CYCLES] * parts(c, size), c[lay.C_ISSUE])
    written = max(access(c, s, th, address, parts(c, size), True, known), s[th + lay.T_STORED] + step)
    s[th + lay.T_STORED] = written
    hold(c, s, th, max(ready, s[lay.S_ENTRY]))
    if c[lay.C_BLOCKING_STORE]:
        if s[lay.S_SERVED] > 1:
            block(c, s, th, written)
        complete(c, s, th, written)
    else:
        complete(c, s, th, max(ready, known) + lay.UNIT)
    store_leaves(c, s, th, written)


@compiled
def flush(c: Ints, s: Ints, th: int, address: int, operand: int) -> None:
    """One flush: takes effect in program order, takes its time as a store does, and waits for the one before."""
    ready = translate(c, s, th, address, store_enters(c, s, th, operand))
    if purge(c, s, (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]) > 0:
        count(c, s, s[th + lay.T_CORE], lay.E_MEM_WRITE, 1)
    done = max(ready, s[th + lay.T_STORED]) + c[lay.C_FLUSH_CYCLES]
    s[th + lay.T_STORED] = done
    hold(c, s, th, ready)
    complete(c, s, th, ready + lay.UNIT)
    store_leaves(c, s, th, done)

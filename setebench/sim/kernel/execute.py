"""Running probes: one row after the other, one thread or several interleaved by simulated time."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count
from setebench.sim.kernel.compiler import FloatArray, Floats, IntArray, Ints, Table, compiled, entry
from setebench.sim.kernel.disturbances import arm_noise
from setebench.sim.kernel.rows import step

ALL_OF_IT, ONE_STEP = -1, 1


@compiled
def _next_thread(s: Ints, threads: Ints, number: int) -> int:
    """The runnable thread that is furthest behind in time, -1 if none can run."""
    best, best_time = -1, lay.NEVER
    for i in range(number):
        th = threads[i]
        time = s[th + lay.T_CHASE_READY] if s[th + lay.T_CHASE_LEFT] > 0 else s[th + lay.T_CLOCK]
        if time < best_time and s[th + lay.T_ROW] < s[th + lay.T_END] and not s[th + lay.T_WAITING]:
            best, best_time = th, time
    return best


@compiled
def _meet(s: Ints, threads: Ints, number: int) -> bool:
    """Let go all threads that wait at a barrier, at the time the last one came; returns whether any waited."""
    latest = -1
    for i in range(number):
        latest = max(latest, s[threads[i] + lay.T_CLOCK] if s[threads[i] + lay.T_WAITING] else -1)
    for i in range(number):
        th = threads[i]
        if s[th + lay.T_WAITING]:
            s[th + lay.T_WAITING] = 0
            s[th + lay.T_CLOCK] = latest
            s[th + lay.T_COMPLETE] = latest  # waiting is a loop of instructions
    return latest >= 0


@compiled
def _begin_repetition(c: Ints, s: Ints, threads: Ints, number: int, column: int, first: int) -> None:
    """Every thread starts at the same time, after all that the repetition before left to complete. The repetition's
    addresses begin at `column`, its ticks at `first`. Disturbances are set of threads that never ran."""
    for i in range(number):
        th = threads[i]
        s[th + lay.T_CLOCK] = s[lay.S_NOW]
        if s[th + lay.T_DISTURBED] == 0:
            arm_noise(c, s, th)
        s[th + lay.T_ROW] = s[th + lay.T_FIRST]
        s[th + lay.T_COLUMN] = column + s[th + lay.T_FIRST_COLUMN]
        s[th + lay.T_OUT] = first + s[th + lay.T_FIRST_OUT]
        s[th + lay.T_ADVANCE] = 0
        s[th + lay.T_CHASE_LEFT] = 0
        s[th + lay.T_WAITING] = 0


@compiled
def _repetition(
    c: Ints, s: Ints, f: Floats, program: Ints, threads: Ints, number: int, addresses: Ints, out: Ints
) -> None:
    """Run every thread's rows once: the thread furthest behind does its next operation, one that is alone all."""
    s[lay.S_QUANTUM] = ALL_OF_IT if number == 1 else ONE_STEP
    while not s[lay.S_FAULT]:
        th = _next_thread(s, threads, number)
        if th < 0:
            if not _meet(s, threads, number):
                break
            continue
        left = s[lay.S_QUANTUM]
        while left != 0 and s[th + lay.T_ROW] < s[th + lay.T_END] and not s[th + lay.T_WAITING] and not s[lay.S_FAULT]:
            step(c, s, f, th, program, addresses, out)
            left -= 1
    began = s[lay.S_NOW] // lay.UNIT - lay.IDLE_CYCLES
    for i in range(number):
        th = threads[i]
        own = max(s[th + lay.T_CLOCK], s[th + lay.T_COMPLETE])
        count(c, s, s[th + lay.T_CORE], lay.E_CYCLES, own // lay.UNIT - began)
        s[lay.S_NOW] = max(s[lay.S_NOW], own)
    s[lay.S_NOW] += lay.IDLE_CYCLES * lay.UNIT


@entry
def execute(
    c: IntArray, s: IntArray, f: FloatArray, program: Table, threads: IntArray, table: Table, out: Table
) -> None:
    """Run `program` (rows of all threads, one thread's after the other) once per row of the placement `table`.

    `threads` says where the words of the threads lie, which say what is theirs of the rest. `out` gets the ticks. A
    touch of an unmapped address ends the run with S_FAULT set.
    """
    rows, addresses, ticks = program.ctypes, table.ctypes, out.ctypes
    number = threads.shape[0]
    for k in range(table.shape[0]):
        _begin_repetition(c.ctypes, s.ctypes, threads.ctypes, number, k * table.shape[1], k * out.shape[1])
        _repetition(c.ctypes, s.ctypes, f.ctypes, rows, threads.ctypes, number, addresses, ticks)
        if s[lay.S_FAULT]:
            break

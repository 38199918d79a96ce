"""Running probes: one row after the other, one thread or several interleaved by simulated time."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count
from setebench.sim.kernel.compiler import FloatArray, Floats, IntArray, Ints, Table, compiled, entry
from setebench.sim.kernel.disturbances import arm_noise
from setebench.sim.kernel.rows import step

ALL_OF_IT, ONE_STEP = -1, 1
(D_THREAD, D_BEGIN, D_END, D_COLUMN, D_OUT, D_WORDS) = range(6)


@compiled
def _next_thread(s: Ints, threads: Ints, number: int) -> int:
    """Index of the runnable thread that is furthest behind in time, -1 if none can run."""
    best = -1
    best_time = 0
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        if s[th + lay.T_ROW] >= s[th + lay.T_END] or s[th + lay.T_WAITING]:
            continue
        time = s[th + lay.T_CHASE_READY] if s[th + lay.T_CHASE_LEFT] > 0 else s[th + lay.T_CLOCK]
        if best < 0 or time < best_time:
            best = i
            best_time = time
    return best


@compiled
def _meet(s: Ints, threads: Ints, number: int) -> bool:
    """Let go all threads that wait at a barrier, at the time the last one came; returns whether any waited."""
    latest = -1
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        if s[th + lay.T_WAITING]:
            latest = max(latest, s[th + lay.T_CLOCK])
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        if s[th + lay.T_WAITING]:
            s[th + lay.T_WAITING] = 0
            s[th + lay.T_CLOCK] = latest
            s[th + lay.T_COMPLETE] = latest  # waiting is a loop of instructions
    return latest >= 0


@compiled
def _begin_repetition(s: Ints, threads: Ints, number: int, column: int, first: int) -> None:
    """Every thread starts at the same time, after all that the repetition before left to complete. The repetition's
    addresses begin at `column`, its ticks at `first`."""
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        d = i * D_WORDS
        s[th + lay.T_CLOCK] = s[lay.S_NOW]
        s[th + lay.T_ROW] = threads[d + D_BEGIN]
        s[th + lay.T_END] = threads[d + D_END]
        s[th + lay.T_COLUMN] = column + threads[d + D_COLUMN]
        s[th + lay.T_OUT] = first + threads[d + D_OUT]
        s[th + lay.T_ADVANCE] = 0
        s[th + lay.T_CHASE_LEFT] = 0
        s[th + lay.T_WAITING] = 0


@compiled
def _end_repetition(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    now = s[lay.S_NOW]
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        own = max(s[th + lay.T_CLOCK], s[th + lay.T_COMPLETE])
        cycles = own // lay.UNIT + lay.IDLE_CYCLES - s[lay.S_NOW] // lay.UNIT
        count(c, s, s[th + lay.T_CORE], lay.E_CYCLES, cycles)
        now = max(now, own)
    s[lay.S_NOW] = now + lay.IDLE_CYCLES * lay.UNIT


@compiled
def _one_step(c: Ints, s: Ints, f: Floats, th: int, program: Ints, addresses: Ints, out: Ints) -> None:
    """A thread's next operation."""
    step(c, s, f, th, program, addresses, out)


@compiled
def _alone(c: Ints, s: Ints, f: Floats, th: int, program: Ints, addresses: Ints, out: Ints) -> None:
    """Rows of a run of one thread, until its end, a fault or a barrier."""
    while s[th + lay.T_ROW] < s[th + lay.T_END] and not s[th + lay.T_WAITING] and not s[lay.S_FAULT]:
        step(c, s, f, th, program, addresses, out)


@compiled
def _repetition(
    c: Ints, s: Ints, f: Floats, program: Ints, threads: Ints, number: int, addresses: Ints, out: Ints
) -> None:
    """Run every thread's rows once: the thread furthest behind does its next operation (all of a chase if alone)."""
    s[lay.S_QUANTUM] = ALL_OF_IT if number == 1 else ONE_STEP
    while not s[lay.S_FAULT]:
        i = _next_thread(s, threads, number) if number > 1 else -1
        if i >= 0:
            _one_step(c, s, f, threads[i * D_WORDS + D_THREAD], program, addresses, out)
            continue
        if number == 1:
            _alone(c, s, f, threads[D_THREAD], program, addresses, out)
        if not _meet(s, threads, number):
            break
    _end_repetition(c, s, threads, number)


@compiled
def _arm(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    """Note which threads run, and set the disturbances of those that never did."""
    for i in range(number):
        th = threads[i * D_WORDS + D_THREAD]
        s[lay.S_ACTIVE] |= 1 << s[th + lay.T_CORE]
        s[th + lay.T_RUNNING] = 1
        if s[th + lay.T_DISTURBED] == 0:
            s[th + lay.T_CLOCK] = s[lay.S_NOW]
            arm_noise(c, s, th)


@entry
def execute(c: IntArray, s: IntArray, f: FloatArray, program: Table, threads: Table, table: Table, out: Table) -> None:
    """Run `program` (rows of all threads, one thread's after the other) once per row of the placement `table`.

    `threads` has one row per thread: where its state lies, first row, end row, first column of the table and of `out`,
    which gets the ticks. A touch of an unmapped address ends the run with S_FAULT set.
    """
    rows, addresses, ticks = program.ctypes, table.ctypes, out.ctypes
    number = threads.shape[0]
    _arm(c.ctypes, s.ctypes, threads.ctypes, number)
    for k in range(table.shape[0]):
        _begin_repetition(s.ctypes, threads.ctypes, number, k * table.shape[1], k * out.shape[1])
        _repetition(c.ctypes, s.ctypes, f.ctypes, rows, threads.ctypes, number, addresses, ticks)
        if s[lay.S_FAULT]:
            break
    for i in range(number):
        s[threads[i, D_THREAD] + lay.T_RUNNING] = 0

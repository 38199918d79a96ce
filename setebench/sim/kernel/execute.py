"""Running probes: one row after the other, one thread or several interleaved by simulated time."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import FloatArray, Floats, IntArray, Ints, Table, compiled
from setebench.sim.kernel.disturbances import arm_noise
from setebench.sim.kernel.rows import fetch_coming, step

ALL_OF_IT, ONE_STEP = -1, 1
(D_CPU, D_BEGIN, D_END, D_COLUMN, D_OUT, D_WORDS) = range(6)


@compiled
def _thread(c: Ints, threads: Ints, i: int) -> int:
    """Where the state of the i-th thread of a run lies."""
    return c[lay.C_THREADS] + threads[i * D_WORDS + D_CPU] * lay.T_WORDS


@compiled
def _next_thread(c: Ints, s: Ints, threads: Ints, number: int) -> int:
    """Index of the runnable thread that is furthest behind in time, -1 if none can run."""
    best = -1
    best_time = 0
    for i in range(number):
        th = _thread(c, threads, i)
        if s[th + lay.T_ROW] >= threads[i * D_WORDS + D_END] or s[th + lay.T_WAITING]:
            continue
        time = s[th + lay.T_CHASE_READY] if s[th + lay.T_CHASE_LEFT] > 0 else s[th + lay.T_CLOCK]
        if best < 0 or time < best_time:
            best = i
            best_time = time
    return best


@compiled
def _meet(c: Ints, s: Ints, threads: Ints, number: int) -> bool:
    """Let go all threads that wait at a barrier, at the time the last one came; returns whether any waited."""
    latest = -1
    for i in range(number):
        th = _thread(c, threads, i)
        if s[th + lay.T_WAITING]:
            latest = max(latest, s[th + lay.T_CLOCK])
    for i in range(number):
        th = _thread(c, threads, i)
        if s[th + lay.T_WAITING]:
            s[th + lay.T_WAITING] = 0
            s[th + lay.T_CLOCK] = latest
            s[th + lay.T_COMPLETE] = latest  # waiting is a loop of instructions
    return latest >= 0


@compiled
def _begin_repetition(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    """Every thread starts at the same time, after all that the repetition before left to complete."""
    for i in range(number):
        th = _thread(c, threads, i)
        s[th + lay.T_CLOCK] = s[lay.S_NOW]
        s[th + lay.T_ROW] = threads[i * D_WORDS + D_BEGIN]
        s[th + lay.T_ADVANCE] = 0
        s[th + lay.T_CHASE_LEFT] = 0
        s[th + lay.T_WAITING] = 0


@compiled
def _end_repetition(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    now = s[lay.S_NOW]
    for i in range(number):
        th = _thread(c, threads, i)
        own = max(s[th + lay.T_CLOCK], s[th + lay.T_COMPLETE])
        cycles = own // lay.UNIT + lay.IDLE_CYCLES - s[lay.S_NOW] // lay.UNIT
        count(c, s, core_of(c, threads[i * D_WORDS + D_CPU]), lay.E_CYCLES, cycles)
        now = max(now, own)
    s[lay.S_NOW] = now + lay.IDLE_CYCLES * lay.UNIT


@compiled
def _one_step(
    c: Ints,
    s: Ints,
    f: Floats,
    cpu: int,
    program: Ints,
    addresses: Ints,
    column: int,
    values: Ints,
    out: Ints,
    first: int,
) -> None:
    """A thread's next operation."""
    step(c, s, f, cpu, program, addresses, column, values, out, first, ONE_STEP)


@compiled
def _alone(
    c: Ints,
    s: Ints,
    f: Floats,
    program: Ints,
    threads: Ints,
    addresses: Ints,
    column: int,
    values: Ints,
    out: Ints,
    first: int,
) -> None:
    """Rows of a run of one thread, until its end, a fault or a barrier."""
    cpu, end = threads[D_CPU], threads[D_END]
    column += threads[D_COLUMN]
    first += threads[D_OUT]
    th = _thread(c, threads, 0)
    while s[th + lay.T_ROW] < end and not s[th + lay.T_WAITING] and not s[lay.S_FAULT]:
        if s[lay.S_SERVED] > 2:
            fetch_coming(c, s, cpu, program, end, addresses, column)
        step(c, s, f, cpu, program, addresses, column, values, out, first, ALL_OF_IT)


@compiled
def _repetition(
    c: Ints,
    s: Ints,
    f: Floats,
    program: Ints,
    threads: Ints,
    number: int,
    addresses: Ints,
    column: int,
    values: Ints,
    out: Ints,
    first: int,
) -> None:
    """Run every thread's rows once: the thread furthest behind does its next operation (all of a chase if alone)."""
    _begin_repetition(c, s, threads, number)
    while not s[lay.S_FAULT]:
        i = _next_thread(c, s, threads, number) if number > 1 else 0
        if i < 0 or number == 1:
            if number == 1:
                _alone(c, s, f, program, threads, addresses, column, values, out, first)
            if not _meet(c, s, threads, number):
                break
            continue
        d = i * D_WORDS
        own_column = column + threads[d + D_COLUMN]
        own_first = first + threads[d + D_OUT]
        _one_step(c, s, f, threads[d + D_CPU], program, addresses, own_column, values, out, own_first)
    _end_repetition(c, s, threads, number)


@compiled
def _run(
    c: Ints,
    s: Ints,
    f: Floats,
    program: Ints,
    threads: Ints,
    number: int,
    addresses: Ints,
    columns: int,
    repetitions: int,
    values: Ints,
    out: Ints,
    out_columns: int,
) -> None:
    for i in range(number):
        th = _thread(c, threads, i)
        cpu = threads[i * D_WORDS + D_CPU]
        s[lay.S_ACTIVE] |= 1 << (core_of(c, cpu))
        s[th + lay.T_RUNNING] = 1
        if s[th + lay.T_DISTURBED] == 0:
            s[th + lay.T_CLOCK] = s[lay.S_NOW]
            arm_noise(c, s, cpu)
    for k in range(repetitions):
        _repetition(c, s, f, program, threads, number, addresses, k * columns, values, out, k * out_columns)
        if s[lay.S_FAULT]:
            break
    for i in range(number):
        s[_thread(c, threads, i) + lay.T_RUNNING] = 0


def execute(
    c: IntArray,
    s: IntArray,
    f: FloatArray,
    program: Table,
    threads: Table,
    table: Table,
    values: IntArray,
    out: Table,
) -> None:
    """Run `program` (rows of all threads, one thread's after the other) once per row of the placement `table`.

    `threads` has one row (CPU, first row, end row, first column of the table, first column of `out`) per thread;
    `values` takes the time at which each load's value is there; `out` gets the ticks. A touch of an unmapped address
    ends the run with S_FAULT set.
    """
    _run(
        c.ctypes,
        s.ctypes,
        f.ctypes,
        program.ctypes,
        threads.ctypes,
        threads.shape[0],
        table.ctypes,
        table.shape[1],
        table.shape[0],
        values.ctypes,
        out.ctypes,
        out.shape[1],
    )

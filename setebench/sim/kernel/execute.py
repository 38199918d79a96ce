"""Running probes: one row after the other, one thread or several interleaved by simulated time."""

from __future__ import annotations

from setebench.probe import Kind
from setebench.sim.kernel.clock import (
    AFTER,
    BASE,
    BRACKET_MFENCE,
    COUNT,
    IP,
    KIND,
    OFFSET,
    SIZE,
    VARIANT,
    WORDS,
    all_done,
    fence,
    start,
    stop,
)
from setebench.sim.kernel.compiler import FloatArray, Floats, IntArray, Ints, Table, compiled, entry, inlined
from setebench.sim.kernel.core import arm_noise, block, chain, complete, disturb, enter, free_instructions, hold
from setebench.sim.kernel.operations import flush, load, load_value, store
from setebench.sim.kernel.software_prefetch import prefetch
from setebench.sim.kernel.stream import stream
from setebench.sim.kernel.translation import UNMAPPED, page_state
from setebench.sim.layout import (
    BASE_ADDRESS,
    C_BLOCKING_LOAD,
    C_CORES,
    C_LINE_BITS,
    C_LINKS,
    C_MULTIPLY,
    C_THREADS,
    C_TRANSFER,
    C_VECTOR_TO_INTEGER,
    IDLE_CYCLES,
    S_ACTIVE,
    S_FAULT,
    S_FAULT_ADDRESS,
    S_NOW,
    S_SERVED,
    T_ADVANCE,
    T_CHAIN,
    T_CHAIN_MULTIPLY,
    T_CHAIN_TRANSFER,
    T_CHASE_ADDRESS,
    T_CHASE_LEFT,
    T_CHASE_READY,
    T_CLOCK,
    T_COMPLETE,
    T_INTERRUPT,
    T_LOOP_LEFT,
    T_LOOP_ROW,
    T_ROW,
    T_RUNNING,
    T_STALL,
    T_WAITING,
    T_WORDS,
    UNIT,
)

K_LOAD, K_STORE, K_PREFETCH, K_FLUSH = int(Kind.LOAD), int(Kind.STORE), int(Kind.PREFETCH), int(Kind.FLUSH)
K_FENCE, K_WAIT, K_NOP, K_MULTIPLY = int(Kind.FENCE), int(Kind.WAIT), int(Kind.NOP), int(Kind.MULTIPLY)
K_ADD, K_TRANSFER, K_START, K_STOP = int(Kind.ADD), int(Kind.TRANSFER), int(Kind.START), int(Kind.STOP)
K_REPEAT, K_END, K_CHASE, K_BARRIER = int(Kind.REPEAT), int(Kind.END), int(Kind.CHASE), int(Kind.BARRIER)
K_STREAM = int(Kind.STREAM)
ALL_OF_IT, ONE_STEP = -1, 1
(D_CPU, D_BEGIN, D_END, D_COLUMN, D_OUT, D_WORDS) = range(6)


@compiled
def _chase(c: Ints, s: Ints, cpu: int, th: int, program: Ints, row: int, quantum: int) -> bool:
    """Follow pointers: dependent loads; at most `quantum` of them now. Returns whether the chase is over."""
    while True:
        address = s[th + T_CHASE_ADDRESS]
        enter(c, s, cpu)
        done = load_value(c, s, cpu, address, program[row + SIZE], program[row + IP], s[th + T_CHASE_READY])
        if program[row + SIZE] > 8:
            done += c[C_VECTOR_TO_INTEGER]
        hold(c, s, cpu, s[th + T_CHASE_READY])
        if c[C_BLOCKING_LOAD] and s[S_SERVED] > 1:
            block(c, s, cpu, done)
        complete(c, s, cpu, done)
        s[th + T_CHASE_READY] = done
        following = s[c[C_LINKS] + ((address - BASE_ADDRESS) >> c[C_LINE_BITS])]
        s[th + T_CHASE_ADDRESS] = following
        s[th + T_CHASE_LEFT] -= 1
        if s[th + T_CHASE_LEFT] == 0:
            return True
        if page_state(c, s, following) == UNMAPPED:
            s[S_FAULT] = s[th + T_ROW] + 1
            s[S_FAULT_ADDRESS] = following
            return True
        quantum -= 1
        if quantum == 0:
            return False


@compiled
def _memory_row(
    c: Ints,
    s: Ints,
    cpu: int,
    th: int,
    program: Ints,
    row: int,
    addresses: Ints,
    column: int,
    values: Ints,
    quantum: int,
) -> bool:
    """An operation with an operand. Returns whether it is finished (a chase may take several calls)."""
    kind = program[row + KIND]
    operand = values[program[row + AFTER]] if program[row + AFTER] >= 0 else 0
    if kind == K_CHASE and s[th + T_CHASE_LEFT] > 0:
        address = s[th + T_CHASE_ADDRESS]
    else:
        address = addresses[column + program[row + BASE]] + program[row + OFFSET] + s[th + T_ADVANCE]
    if kind == K_LOAD:
        if page_state(c, s, address) != UNMAPPED:
            value = load(c, s, cpu, address, program[row + SIZE], program[row + IP], operand)
            # an address is made in integer registers, so one that waits for a vector waits for its way there as well
            values[s[th + T_ROW]] = value + (c[C_VECTOR_TO_INTEGER] if program[row + SIZE] > 8 else 0)
            return True
    elif kind == K_PREFETCH:
        prefetch(c, s, cpu, address, program[row + VARIANT], program[row + IP], operand)
        return True
    elif kind == K_STREAM:
        return stream(c, s, cpu, th, program, row, address)
    elif page_state(c, s, address) != UNMAPPED:
        if kind == K_STORE:
            store(c, s, cpu, address, program[row + IP], operand)
            return True
        if kind == K_FLUSH:
            flush(c, s, cpu, address, program[row + VARIANT], operand)
            return True
        if s[th + T_CHASE_LEFT] == 0:
            s[th + T_CHASE_ADDRESS] = address
            s[th + T_CHASE_LEFT] = program[row + COUNT]
            s[th + T_CHASE_READY] = max(s[th + T_CLOCK], operand)
        finished = _chase(c, s, cpu, th, program, row, quantum)
        values[s[th + T_ROW]] = s[th + T_CHASE_READY]
        return finished
    s[S_FAULT] = s[th + T_ROW] + 1
    s[S_FAULT_ADDRESS] = address
    return True


@compiled
def _arithmetic_row(c: Ints, s: Ints, cpu: int, program: Ints, row: int) -> None:
    """Instructions that neither touch memory nor order anything."""
    kind = program[row + KIND]
    count = program[row + COUNT]
    if kind == K_WAIT:
        chain(c, s, cpu, count, UNIT, -1)
    elif kind == K_ADD:
        chain(c, s, cpu, count, UNIT, T_CHAIN)
    elif kind == K_TRANSFER:
        chain(c, s, cpu, count, c[C_TRANSFER], T_CHAIN_TRANSFER)
    elif kind == K_NOP:
        free_instructions(c, s, cpu, count, 0)
    elif kind == K_MULTIPLY and program[row + VARIANT]:
        chain(c, s, cpu, count, c[C_MULTIPLY], T_CHAIN_MULTIPLY)
    elif kind == K_MULTIPLY:
        free_instructions(c, s, cpu, count, c[C_MULTIPLY])


@compiled
def _plain_row(c: Ints, s: Ints, f: Floats, cpu: int, th: int, program: Ints, row: int, out: Ints, first: int) -> None:
    """An operation without an operand."""
    kind = program[row + KIND]
    if kind == K_FENCE:
        fence(c, s, th, program[row + VARIANT])
    elif kind == K_START:
        start(c, s, f, th, program, row)
    elif kind == K_STOP:
        stop(c, s, f, cpu, th, program, row, out, first)
    elif kind == K_REPEAT:
        s[th + T_LOOP_ROW] = s[th + T_ROW]
        s[th + T_LOOP_LEFT] = program[row + COUNT]
        s[th + T_ADVANCE] = 0
    elif kind == K_BARRIER:
        s[th + T_WAITING] = 1
        s[th + T_CLOCK] = all_done(s, th, BRACKET_MFENCE)
    else:
        _arithmetic_row(c, s, cpu, program, row)


@compiled
def _step(
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
    quantum: int,
) -> None:
    """One operation of a thread (one step of a chase where `quantum` is 1). The thread's addresses of this repetition
    begin at `column`, its ticks at `first`."""
    th = c[C_THREADS] + cpu * T_WORDS
    at = s[th + T_ROW]
    row = at * WORDS
    if s[th + T_CLOCK] >= s[th + T_INTERRUPT] or s[th + T_CLOCK] >= s[th + T_STALL]:
        s[th + T_CLOCK] = disturb(c, s, cpu, s[th + T_CLOCK])
    if program[row + BASE] >= 0:
        if not _memory_row(c, s, cpu, th, program, row, addresses, column, values, quantum):
            return
    elif program[row + KIND] == K_END:
        s[th + T_LOOP_LEFT] -= 1
        if s[th + T_LOOP_LEFT] > 0:
            at = s[th + T_LOOP_ROW]
            s[th + T_ADVANCE] += program[at * WORDS + OFFSET]
        else:
            s[th + T_ADVANCE] = 0
    else:
        _plain_row(c, s, f, cpu, th, program, row, out, first)
    s[th + T_ROW] = at + 1


@compiled
def _thread(c: Ints, threads: Ints, i: int) -> int:
    """Where the state of the i-th thread of a run lies."""
    return c[C_THREADS] + threads[i * D_WORDS + D_CPU] * T_WORDS


@inlined
def _lone_thread(c: Ints, s: Ints, threads: Ints) -> int:
    """As `_next_thread` for a run of one thread, which nobody has to be compared with."""
    th = _thread(c, threads, 0)
    return -1 if s[th + T_ROW] >= threads[D_END] or s[th + T_WAITING] else 0


@compiled
def _next_thread(c: Ints, s: Ints, threads: Ints, number: int) -> int:
    """Index of the runnable thread that is furthest behind in time, -1 if none can run."""
    best = -1
    best_time = 0
    for i in range(number):
        th = _thread(c, threads, i)
        if s[th + T_ROW] >= threads[i * D_WORDS + D_END] or s[th + T_WAITING]:
            continue
        time = s[th + T_CHASE_READY] if s[th + T_CHASE_LEFT] > 0 else s[th + T_CLOCK]
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
        if s[th + T_WAITING]:
            latest = max(latest, s[th + T_CLOCK])
    for i in range(number):
        th = _thread(c, threads, i)
        if s[th + T_WAITING]:
            s[th + T_WAITING] = 0
            s[th + T_CLOCK] = latest
    return latest >= 0


@compiled
def _begin_repetition(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    """Every thread starts at the same time, after all that the repetition before left to complete."""
    for i in range(number):
        th = _thread(c, threads, i)
        s[th + T_CLOCK] = s[S_NOW]
        s[th + T_ROW] = threads[i * D_WORDS + D_BEGIN]
        s[th + T_ADVANCE] = 0
        s[th + T_CHASE_LEFT] = 0
        s[th + T_WAITING] = 0


@compiled
def _end_repetition(c: Ints, s: Ints, threads: Ints, number: int) -> None:
    now = s[S_NOW]
    for i in range(number):
        th = _thread(c, threads, i)
        now = max(now, max(s[th + T_CLOCK], s[th + T_COMPLETE]))
    s[S_NOW] = now + IDLE_CYCLES * UNIT


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
    quantum = ALL_OF_IT if number == 1 else ONE_STEP
    while not s[S_FAULT]:
        i = _next_thread(c, s, threads, number) if number > 1 else _lone_thread(c, s, threads)
        if i >= 0:
            d = i * D_WORDS
            own_column = column + threads[d + D_COLUMN]
            own_first = first + threads[d + D_OUT]
            _step(c, s, f, threads[d + D_CPU], program, addresses, own_column, values, out, own_first, quantum)
        elif not _meet(c, s, threads, number):
            break
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
        s[S_ACTIVE] |= 1 << (cpu % c[C_CORES])
        s[th + T_RUNNING] = 1
        if s[th + T_INTERRUPT] == 0:
            s[th + T_CLOCK] = s[S_NOW]
            arm_noise(c, s, cpu)
    for k in range(repetitions):
        _repetition(c, s, f, program, threads, number, addresses, k * columns, values, out, k * out_columns)
        if s[S_FAULT]:
            break
    for i in range(number):
        s[_thread(c, threads, i) + T_RUNNING] = 0


@entry
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

"""What is counted for the figures: of the throttled reader of Helm and Taura 2019 (4.3.1), of a triad whose volume is
known (5.3), and of working sets of growing size (Molka et al. 2017, 4.1 and 4.3).

Every experiment gives points: what was set, and what was counted or measured there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import numpy as np

from setebench.counters.counting import countable, counted, number
from setebench.counters.metrics import L1_MISS_LATENCY, LOAD_MISS_LATENCY, Measurement, best
from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.kernels import BLOCK_BYTES, KERNELS, array_spacing, stream_bytes
from setebench.machine import Region, SwitchesPrefetchers, Ticks, run_on
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.bandwidth.saturation import Load, saturated
from setebench.stats.bandwidth.saturation import Params as CurveParams

from .params import Params

STREAMS = 4
"""Lines that a reading thread loads at once, one of each stream, as Helm and Taura 2019 did (4.3.1)."""
STAGGER_LINES = 5
"""Streams at one place of a page each would meet in the same sets of caches."""

READER_ROLES = ("l1d_inflight_sum", "load_l1_miss", "load_fb_hit", "load_l1_miss_any", "mem_read", "offcore_mem_read")
VOLUME_ROLES = ("mem_read", "offcore_mem_read", "home_read", "mem_write", "home_write")
LINE_ROLES = (
    *("load", "store", "load_l1_miss", "load_fb_hit", "l1d_fill", "l2_rfo", "l2_rfo_miss", "l2_fill"),
    *("offcore_mem_read", "l1d_writeback", "l2_writeback", "mem_read", "mem_write", "home_read", "home_write"),
)
STALL_ROLES = (
    *("cycles", "no_execute", "stall_l1d_miss", "stall_load_any", "stall_store_buffer", "fb_full", "sq_full"),
)
WORKS = ("", "free", "chained")
ARRAY, LINE = Base("array"), Base("line")

Point = dict[str, Any]


# -- the throttled reader ---------------------------------------------------------------------------------------------


def curves(context: Context, params: Params) -> list[Point]:
    """Bandwidth and latencies by threads, delay, and prefetchers on or off, of each repeat; latencies None where their
    events are missing."""
    roles, cpus = countable(context.machine, READER_ROLES), _cpus(context)
    stride = (params.rounds + STAGGER_LINES) * context.machine.facts.line_size
    counts = sorted({1, len(cpus), *(some for some in (len(cpus) // 4, len(cpus) // 2, len(cpus) - 1) if some > 1)})
    points = []
    with ExitStack() as stack:
        regions = {cpu: stack.enter_context(context.memory(STREAMS * stride)) for cpu in cpus}
        for prefetchers, switched in _switches(context, cpus):
            with switched:
                for threads, delay in itertools.product(counts, params.delays):
                    off = "on" if prefetchers else "off"
                    context.progress(f"{threads} reading, {delay} no-operations, prefetchers {off}")
                    known = {"threads": threads, "delay": delay, "prefetchers": prefetchers}
                    used = {cpu: regions[cpu] for cpu in cpus[:threads]}
                    points.append(known | _read(context, params, roles, (used, delay, stride)))
    return points


def _read(context: Context, params: Params, roles: Sequence[str], step: tuple[dict[int, Region], int, int]) -> Point:
    regions, delay, stride = step
    machine, line = context.machine, context.machine.facts.line_size
    together = Probe().barrier() if len(regions) > 1 else Probe()
    probes = {cpu: _reading(cpu, delay, stride, (params.rounds, line), together) for cpu in regions}
    placements = {Base(f"read{cpu}"): np.full(1, region.address) for cpu, region in regions.items()}

    def run() -> Ticks:
        """Ticks of each thread, shape (threads,)."""
        found = run_on(machine, probes, placements)
        return np.array([found[cpu][0, 0] for cpu in regions], dtype=np.int64)

    rows: dict[str, list[float | None]] = {"gb_per_s": [], "l1_miss_latency": [], "load_miss_latency": []}
    run()  # stitches the code, and warms up what is not memory
    for _ in range(params.repeats):
        counts, ticks = counted(machine, roles, run)
        seconds = float(np.median([each.max() for each in ticks])) / machine.facts.ticks_per_second
        rows["gb_per_s"].append(len(regions) * STREAMS * params.rounds * line / seconds / 1e9)
        measurement = Measurement(counts=counts, seconds=seconds, line_bytes=line)
        rows["l1_miss_latency"].append(best(L1_MISS_LATENCY, measurement).value)
        rows["load_miss_latency"].append(best(LOAD_MISS_LATENCY, measurement).value)
    return rows


def _reading(cpu: int, delay: int, stride: int, size: tuple[int, int], together: Probe) -> Probe:
    """A reader's probe; its lines are flushed before they are read, so every one comes from memory."""
    rounds, line = size
    streams: list[Operand] = [Base(f"read{cpu}") + each * stride for each in range(STREAMS)]
    probe, body = Probe(), Probe()
    for stream in streams:
        probe, body = probe.repeat(rounds, Probe().flush(stream), advance=line), body.load(stream)
    body = body.nop(delay) if delay else body
    probe = probe.fence() + together
    return probe.start(0, dither=False).repeat(rounds, body, advance=line).stop(0)


def _cpus(context: Context) -> list[int]:
    """One CPU of each core, the chosen one first."""
    facts = context.machine.facts
    found, taken = list[int](), set[int]()
    for cpu in (context.own_cpu, *facts.cpus):
        if cpu not in taken:
            found.append(cpu)
            taken |= {cpu, *(sibling for group in facts.siblings if cpu in group for sibling in group)}
    return found[: Params().most_threads]


def _switches(context: Context, cpus: Sequence[int]) -> Iterator[tuple[bool, AbstractContextManager[None]]]:
    """Prefetchers as they are, and off where the machine has switches for them."""
    yield True, nullcontext()
    machine = context.machine
    if isinstance(machine, SwitchesPrefetchers):
        try:
            names = [switch.name for switch in machine.prefetcher_switches()]
        except UnsupportedError as error:
            context.progress(str(error))
            return
        if names:
            yield False, machine.prefetchers_off(names, cpus)


def threshold(points: Sequence[Point], params: Params) -> tuple[float | None, str]:
    """Load-miss latency in cycles above which memory is saturated, or None and why: between what is read of it while
    less load brings less bandwidth, and while more load brings no more (Helm and Taura 2019, sections 6.3 and 7)."""
    loads = []
    for point in points:
        latencies = [value for value in point["load_miss_latency"] if value is not None]
        if point["prefetchers"] and latencies:
            rate, latency = float(np.mean(point["gb_per_s"])), float(np.mean(latencies))
            loads.append(Load(point["threads"], point["delay"], rate, latency))
    if not loads:
        return None, "the load-miss latency can't be counted here"
    idle = min(load.latency for load in loads)
    most = max(loads, key=lambda load: load.bandwidth)
    if not saturated(loads, idle, CurveParams()):
        return None, (
            f"no saturation was seen: {most.threads} threads read {most.bandwidth:.3g} GB/s, where a load miss takes "
            f"{most.latency / idle:.2f} times as long as without load"
        )
    peak = most.bandwidth
    full = [load.latency for load in loads if load.bandwidth * params.little_more >= peak and load.delay == 0]
    free = [load.latency for load in loads if load.bandwidth * params.little_more**4 < peak]
    if not full or not free or max(free) >= min(full):
        return None, "load-miss latencies with and without saturation overlap on this machine"
    return float(np.sqrt(max(free) * min(full))), ""


# -- volumes ----------------------------------------------------------------------------------------------------------


def volumes(context: Context, params: Params) -> list[Point]:
    """What a triad over flushed arrays reads and writes by each role that counts lines of memory, beside what it must
    (Helm and Taura 2019, 5.3)."""
    roles, machine, array = countable(context.machine, VOLUME_ROLES), context.machine, params.triad_bytes
    line, points = machine.facts.line_size, []
    with context.memory(stream_bytes(KERNELS["triad"], array)) as region:
        away = Probe().repeat(region.size // line, Probe().flush(ARRAY), advance=line).fence()
        probe = away.stream(ARRAY, "triad", array, max(machine.facts.access_sizes)).fence() + away
        run = partial(machine.run, probe, {ARRAY: np.full(1, region.address)}, cpu=context.cpu)
        for prefetchers, switched in _switches(context, _cpus(context)[:1]):
            with switched:
                counts, _ = counted(machine, roles, run)
            known = {"expected_read_bytes": 3 * array, "expected_write_bytes": array, "prefetchers": prefetchers}
            points.append(known | {"bytes": _per(counts, roles, 1 / line)})
    return points


def _per(counts: dict[str, Any], roles: Sequence[str], divisor: float) -> dict[str, float | None]:
    """Counts over a divisor; None where there is none."""
    values = {role: number(counts[role]) for role in roles}
    return {role: None if value is None else value / divisor for role, value in values.items()}


# -- working sets -----------------------------------------------------------------------------------------------------


def _sizes(params: Params) -> list[int]:
    """Working sets, each twice as large as the one before."""
    count = (params.largest_bytes // params.smallest_bytes).bit_length()
    return [params.smallest_bytes << each for each in range(count)]


def streams_of(roles: Sequence[str]) -> Callable[[Context, Params], list[Point]]:
    """Events of these roles per line that a load or a store stream uses, by working set."""
    return partial(_streamed, roles)


def _streamed(wanted: Sequence[str], context: Context, params: Params) -> list[Point]:
    machine, roles, points = context.machine, countable(context.machine, wanted), []
    line, width = machine.facts.line_size, max(machine.facts.access_sizes)
    with context.memory(array_spacing(params.largest_bytes)) as region:

        def passes(kernel: str, size: int, count: int) -> Ticks:
            """So many passes over the first `size` bytes."""
            body = Probe().stream(ARRAY, kernel, size // BLOCK_BYTES * BLOCK_BYTES, width)
            probe = Probe().start(0, dither=False).repeat(count, body).fence().stop(0)
            return machine.run(probe, {ARRAY: np.full(1, region.address)}, cpu=context.cpu)

        for kernel, size in itertools.product(("load", "store"), _sizes(params)):
            context.progress(f"{kernel} stream over {size >> 10} KiB")
            count = int(np.clip(params.lines * line // size, 1, 64))
            passes(kernel, size, 1)
            # twice as many passes less as many: neither what the first one brings in nor the loop around is left
            few, many = (
                _per(
                    counted(machine, roles, partial(passes, kernel, size, times * count))[0], roles, count * size / line
                )
                for times in (1, 2)
            )
            known = {role: (few[role], many[role]) for role in roles}
            each = {role: None if a is None or b is None else b - a for role, (a, b) in known.items()}
            points.append({"kernel": kernel, "bytes": size, "per_line": each})
    return points


def stalls(context: Context, params: Params) -> list[Point]:
    """Cycles of each stall role per step of a chase, alone and with 24 multiplications, by working set."""
    roles = countable(context.machine, STALL_ROLES)
    with context.memory(span_bytes(params.largest_bytes, context.machine.facts.line_size)) as region:
        return [point for size in _sizes(params) for point in _chased(context, params, roles, (region, size))]


def _chased(context: Context, params: Params, roles: Sequence[str], place: tuple[Region, int]) -> Iterator[Point]:
    """The three chases over one working set."""
    region, size = place
    context.progress(f"chase over {size >> 10} KiB")
    rng = context.rng(size)
    order = by_windows(lay(region, size, rng), rng)
    context.machine.link(region, order)
    context.machine.run(Probe().chase(LINE, len(order)), {LINE: np.repeat(order[:1], 2)}, cpu=context.cpu)
    turns = max(2, params.lines // 16 // params.steps)
    done = turns * params.steps
    # each run goes on where the last one ended, or its first lines would be nearer the second time
    starts = (order[(begin + np.arange(turns) * params.steps) % len(order)] for begin in itertools.count(0, done))

    def run(work: str) -> Ticks:
        probe = Probe().start(0, dither=False).chase(LINE, params.steps, work=work).stop(0)
        return context.machine.run(probe, {LINE: next(starts)}, cpu=context.cpu)

    for work in WORKS:
        counts, ticks = counted(context.machine, roles, partial(run, work))
        elapsed = float(np.median([each.sum() for each in ticks])) * quick_cycles_per_tick(context) / done
        yield {"work": work, "bytes": size, "elapsed": elapsed, "per_step": _per(counts, roles, done)}

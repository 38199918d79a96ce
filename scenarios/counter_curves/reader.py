"""The throttled reader of Helm and Taura 2019 (4.3.1): threads that load four lines and then do nothing for a while.

Its counts give the curves of bandwidth and of latency over load, and the load-miss latency above which memory is
saturated on this machine. Lines are flushed before they are read, so every one comes from memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy as np

from setebench.counters.counting import countable, counted, number
from setebench.counters.metrics import L1_MISS_LATENCY, LOAD_MISS_LATENCY, Measurement, best
from setebench.errors import UnsupportedError
from setebench.kernels import KERNELS, stream_bytes
from setebench.machine import Region, SwitchesPrefetchers, Ticks
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.bandwidth.saturation import Load, saturated
from setebench.stats.bandwidth.saturation import Params as CurveParams

from .params import Params

STREAMS = 4
"""Lines that are loaded at once, one of each stream, as Helm and Taura 2019 did (4.3.1)."""

STAGGER_LINES = 5
"""Streams at one place of a page each would meet in the same sets of caches."""

ROLES = ("l1d_inflight_sum", "load_l1_miss", "load_fb_hit", "load_l1_miss_any", "mem_read", "offcore_mem_read")
VOLUME_ROLES = ("mem_read", "offcore_mem_read", "home_read", "mem_write", "home_write")

Point = dict[str, Any]


class Reader:
    """All reading threads, each with memory of its own, and their runs."""

    def __init__(self, context: Context, regions: Mapping[int, Region], params: Params) -> None:
        self._context, self._regions, self._params = context, regions, params
        self._line = context.machine.facts.line_size
        self._stride = stride_bytes(context, params)

    def run(self, cpus: Sequence[int], delay: int) -> Ticks:
        """One run of so many threads; ticks of each, shape (threads,)."""
        machine = self._context.machine
        probes = {cpu: self._probe(cpu, delay, joint=len(cpus) > 1) for cpu in cpus}
        placements = {_base(cpu): np.full(1, self._regions[cpu].address) for cpu in cpus}
        if len(cpus) == 1:
            return machine.run(probes[cpus[0]], placements, cpu=cpus[0])[:, 0]
        found = machine.run_together(probes, placements)
        return np.array([found[cpu][0, 0] for cpu in cpus], dtype=np.int64)

    @property
    def bytes_each(self) -> int:
        """What a thread reads in a run."""
        return STREAMS * self._params.rounds * self._line

    def _probe(self, cpu: int, delay: int, *, joint: bool) -> Probe:
        streams: list[Operand] = [_base(cpu) + number * self._stride for number in range(STREAMS)]
        probe = Probe()
        for stream in streams:
            probe = probe.repeat(self._params.rounds, Probe().flush(stream), advance=self._line)
        probe = probe.fence()
        body = Probe()
        for stream in streams:
            body = body.load(stream)
        body = body.nop(delay) if delay else body
        probe = probe.barrier() if joint else probe
        return probe.start(0, dither=False).repeat(self._params.rounds, body, advance=self._line).stop(0)


def _base(cpu: int) -> Base:
    return Base(f"read{cpu}")


def stride_bytes(context: Context, params: Params) -> int:
    """From one of a thread's streams to the next."""
    return (params.rounds + STAGGER_LINES) * context.machine.facts.line_size


def curves(context: Context, params: Params) -> list[Point]:
    """Every point: threads, delay, prefetchers on or off, and its repeats."""
    roles = countable(context.machine, ROLES)
    cpus = _cpus(context)
    points = []
    with ExitStack() as stack:
        size = STREAMS * stride_bytes(context, params)
        reader = Reader(context, {cpu: stack.enter_context(context.memory(size)) for cpu in cpus}, params)
        for prefetchers, switched in _switches(context, cpus):
            with switched:
                for threads, delay in _steps(len(cpus), params):
                    context.progress(
                        f"{threads} reading, {delay} no-operations, prefetchers {'on' if prefetchers else 'off'}"
                    )
                    point = {"threads": threads, "delay": delay, "prefetchers": prefetchers}
                    points.append(point | _measured(context, reader, roles, (cpus[:threads], delay, params.repeats)))
    return points


def _cpus(context: Context) -> list[int]:
    """One CPU of each core, the chosen one first."""
    facts = context.machine.facts
    found, taken = list[int](), set[int]()
    for cpu in (context.own_cpu, *facts.cpus):
        if cpu not in taken:
            found.append(cpu)
            taken |= {cpu, *(sibling for group in facts.siblings if cpu in group for sibling in group)}
    return found[: Params().most_threads]


def _steps(most: int, params: Params) -> Iterator[tuple[int, int]]:
    counts = sorted({1, most, *(count for count in (most // 4, most // 2, most - 1) if count > 1)})
    return ((threads, delay) for threads in counts for delay in params.delays)


def _switches(context: Context, cpus: Sequence[int]) -> Iterator[tuple[bool, AbstractContextManager[None]]]:
    """Prefetchers as they are, and off where the machine has switches for them."""
    yield True, nullcontext()
    machine = context.machine
    if not isinstance(machine, SwitchesPrefetchers):
        return
    try:
        names = [switch.name for switch in machine.prefetcher_switches()]
    except UnsupportedError as error:
        context.progress(str(error))
        return
    if names:
        yield False, machine.prefetchers_off(names, cpus)


def _measured(context: Context, reader: Reader, roles: Sequence[str], step: tuple[Sequence[int], int, int]) -> Point:
    """Bandwidth and latencies of each repeat of a point; latencies None where their events are missing."""
    cpus, delay, repeats = step
    rows: dict[str, list[float | None]] = {"gb_per_s": [], "l1_miss_latency": [], "load_miss_latency": []}
    reader.run(cpus, delay)  # stitches the code, and warms up what is not memory
    for _ in range(repeats):
        counts, ticks = counted(context.machine, roles, lambda: reader.run(cpus, delay))
        seconds = float(np.median([each.max() for each in ticks])) / context.machine.facts.ticks_per_second
        rows["gb_per_s"].append(len(cpus) * reader.bytes_each / seconds / 1e9)
        measurement = Measurement(counts=counts, seconds=seconds, line_bytes=context.machine.facts.line_size)
        rows["l1_miss_latency"].append(best(L1_MISS_LATENCY, measurement).value)
        rows["load_miss_latency"].append(best(LOAD_MISS_LATENCY, measurement).value)
    return rows


# -- volumes ------------------------------------------------------------------------------------------------------


def volumes(context: Context, params: Params) -> list[Point]:
    """What a triad over flushed arrays reads and writes by each role that counts lines of memory, beside what it must
    (Helm and Taura 2019, 5.3)."""
    roles = countable(context.machine, VOLUME_ROLES)
    machine, array = context.machine, params.triad_bytes
    line, base = machine.facts.line_size, Base("arrays")
    points = []
    with context.memory(stream_bytes(KERNELS["triad"], array)) as region:
        away = Probe().repeat(region.size // line, Probe().flush(base), advance=line).fence()
        probe = away.stream(base, "triad", array, max(machine.facts.access_sizes)).fence() + away
        for prefetchers, switched in _switches(context, _cpus(context)[:1]):
            with switched:
                counts, _ = counted(
                    machine, roles, lambda: machine.run(probe, {base: np.full(1, region.address)}, cpu=context.cpu)
                )
            lines = {role: number(counts[role]) for role in roles}
            points.append(
                {
                    "prefetchers": prefetchers,
                    "bytes": {role: None if each is None else each * line for role, each in lines.items()},
                    "expected_read_bytes": 3 * array,
                    "expected_write_bytes": array,
                }
            )
    return points


# -- the threshold ------------------------------------------------------------------------------------------------


def threshold(points: Sequence[Point], params: Params) -> tuple[float | None, str]:
    """Load-miss latency in cycles above which memory is saturated, or None and why: between what is read of it while
    less load brings less bandwidth, and while more load brings no more (Helm and Taura 2019, sections 6.3 and 7)."""
    loads = [load for each in points if each["prefetchers"] and (load := _load(each)) is not None]
    if not loads:
        return None, "the load-miss latency can't be counted here"
    idle = min(load.latency for load in loads)
    if not saturated(loads, idle, CurveParams()):
        most = max(loads, key=lambda load: load.bandwidth)
        return None, (
            f"no saturation was seen: {most.threads} threads read {most.bandwidth:.3g} GB/s, where a load miss takes "
            f"{most.latency / idle:.2f} times as long as without load"
        )
    peak = max(load.bandwidth for load in loads)
    full = [load.latency for load in loads if load.bandwidth * params.little_more >= peak and load.delay == 0]
    free = [load.latency for load in loads if load.bandwidth * params.little_more**4 < peak]
    if not full or not free or max(free) >= min(full):
        return None, "load-miss latencies with and without saturation overlap on this machine"
    return float(np.sqrt(max(free) * min(full))), ""


def _load(point: Point) -> Load | None:
    """The means of a point; None without its latency."""
    rates, latencies = (
        [value for value in point[name] if value is not None] for name in ("gb_per_s", "load_miss_latency")
    )
    if not rates or not latencies:
        return None
    return Load(point["threads"], point["delay"], float(np.mean(rates)), float(np.mean(latencies)))

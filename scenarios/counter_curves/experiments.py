"""Experiments behind the figures: the throttled reader of Helm and Taura 2019 (4.3.1: loads with pauses), a triad of
known volume (5.3), and chases and streams over working sets of growing size (Molka et al. 2017, 4.1 and 4.3).

Every experiment yields points. A point maps the names of its settings to their values, and the name of each counted or
measured quantity to the list of its repeats, without those that could not be counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from setebench.counters.counting import countable, counted
from setebench.counters.metrics import Measurement, best
from setebench.counters.protocol import Count
from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import cycles_per_tick
from setebench.experiments.lines.layout import lay, span_bytes
from setebench.machine import Region, SwitchesPrefetchers, run_on
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, array_spacing, stream_bytes
from setebench.scenario import Context
from setebench.stats.saturation import Load, saturated
from setebench.stats.saturation import Params as CurveParams
from setebench.text import GIGA, KIBI, MEBI, MEGA

READER_ROLES = ("l1d_inflight_sum", "load_l1_miss", "load_fb_hit", "load_l1_miss_any")
MEMORY_ROLES = ("mem_read", "offcore_mem_read", "home_read", "mem_write", "home_write")
CHASE_ROLES = ("no_execute", "stall_l1d_miss", "stall_load_any")
STREAM_ROLES = (
    *("load", "load_l1_miss", "load_fb_hit", "l1d_fill", "l2_rfo", "l2_rfo_miss", "l2_fill"),
    *("l1d_writeback", "l2_writeback", *MEMORY_ROLES),
    *("no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
)
ARRAY = Base("array")
STREAMS = 4
"""Of a reading thread, one line of each loaded at once (Helm and Taura 2019, 4.3.1)."""
LATENCIES = ("l1_miss_latency", "load_miss_latency")

Point = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Params:
    """How the throttled reader runs, and over which working sets chases and streams run."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)  # no-operations after every four lines
    repeats: int = 6  # measurements of every point of the throttled reader, as in Helm and Taura 2019 (section 4)
    rounds: int = 2048  # groups of four lines in a run: 512 KiB a thread, against which thread starts are short
    smallest_bytes: int = 8 * KIBI  # smallest working set: any first cache holds it
    largest_bytes: int = 64 * MEBI  # largest one: twice one core's share of a last cache today
    lines: int = 1 << 20  # lines that a run over a working set passes: those of the largest one once
    little_more: float = 1.03  # bandwidths within this ratio of the largest one count as the peak
    most_threads: int = 16  # more than these add points that differ by little

    @property
    def spacing_lines(self) -> int:
        """Lines from the start of a stream to that of the next: not whole pages, which would share cache sets."""
        return self.rounds + STREAMS + 1

    def quicker(self) -> Params:
        """Return the settings of --fast: fewer delays and repeats, and smaller working sets."""
        return replace(self, delays=self.delays[::3], repeats=3, largest_bytes=16 * MEBI, lines=self.lines // 4)


def _per(counts: dict[str, Count], divisor: float) -> Point:
    """Return by role a list with its count over `divisor`, an empty one where the counter ran only part of the time."""
    return {role: [] if count.whole is None else [count.whole / divisor] for role, count in counts.items()}


def reader(context: Context, params: Params) -> Iterator[Point]:
    """Yield points of the throttled reader: GB/s and latencies in cycles, by number of threads and delay."""
    roles, facts = countable(context.machine, READER_ROLES), context.machine.facts
    cores = {min({cpu, *(each for group in facts.siblings if cpu in group for each in group)}) for cpu in facts.cpus}
    cpus = sorted(cores)[: params.most_threads]
    counts = sorted({1, len(cpus), *(some for some in (len(cpus) // 4, len(cpus) // 2, len(cpus) - 1) if some > 1)})
    with ExitStack() as stack:
        size = STREAMS * params.spacing_lines * context.line_size
        regions = {cpu: stack.enter_context(context.memory(size)) for cpu in cpus}
        for threads, delay in itertools.product(counts, params.delays):
            context.progress(f"{threads} reading, {delay} no-operations")
            used = {cpu: regions[cpu] for cpu in cpus[:threads]}
            yield {"threads": threads, "delay": delay, **_read(context, params, roles, used, delay)}


def _read(context: Context, params: Params, roles: Sequence[str], regions: dict[int, Region], delay: int) -> Point:
    """Return bandwidth and latencies while each CPU of `regions` loads four lines at once, one of each of its four
    streams, and then executes `delay` no-operations. All lines are flushed before, so each comes from memory."""
    machine, line = context.machine, context.line_size
    probes, placements = {}, {}
    for cpu, region in regions.items():
        base, away, body = Base(f"read{cpu}"), Probe(), Probe()
        for stream in (base + each * params.spacing_lines * line for each in range(STREAMS)):
            away, body = away.repeat(params.rounds, Probe().flush(stream), advance=line), body.load(stream)
        probe = away.fence().barrier() if len(regions) > 1 else away.fence()
        body = body.nop(delay) if delay else body
        probes[cpu] = probe.start(0, dither=False).repeat(params.rounds, body, advance=line).stop(0)
        placements[base] = np.full(1, region.address)

    def run() -> float:
        """Run all threads once; return the ticks of the slowest."""
        return float(max(found[0, 0] for found in run_on(machine, probes, placements).values()))

    rows: dict[str, list[float]] = {"gb_per_s": [], **{name: [] for name in LATENCIES}}
    run()  # the first run stitches the code, and warms all but the flushed lines
    for _ in range(params.repeats):
        counts, ticks = counted(machine, roles, run)
        seconds = float(np.median(ticks)) / machine.facts.ticks_per_second
        rows["gb_per_s"].append(len(regions) * STREAMS * params.rounds * line / seconds / GIGA)
        measured = Measurement(counts=counts, seconds=seconds, line_bytes=line)
        for name in LATENCIES:
            value = best(name, lambda _roles, measured=measured: measured).value  # type: ignore[misc]
            rows[name] += [] if value is None else [value]
    return dict(rows)


def threshold(points: Sequence[Point], params: Params) -> tuple[float | None, str]:
    """Return the load-miss latency in cycles above which memory is saturated, or None and why: the geometric mean of
    `points`' highest latency clearly below peak bandwidth and lowest at peak (Helm and Taura 2019, 6.3 and 7)."""
    loads = [
        Load(point["threads"], point["delay"], *(float(np.mean(point[name])) for name in ("gb_per_s", LATENCIES[1])))
        for point in points
        if point[LATENCIES[1]]
    ]
    if not loads:
        return None, "the load-miss latency can't be counted here"
    idle, most = min(load.latency for load in loads), max(loads, key=lambda load: load.bandwidth)
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


def unaided(context: Context, params: Params) -> Iterator[Point]:
    """Yield the points of `reader` with prefetchers off. Raises `UnsupportedError` if they can't be switched off."""
    machine = context.machine
    switches = machine.prefetcher_switches() if isinstance(machine, SwitchesPrefetchers) else ()
    if not isinstance(machine, SwitchesPrefetchers) or not switches:
        raise UnsupportedError(f"prefetchers of {machine.facts.name} can't be switched off")
    with machine.prefetchers_off([switch.name for switch in switches], machine.facts.cpus):
        yield from reader(context, params)


def volumes(context: Context, params: Params) -> Iterator[Point]:
    """Yield how many megabytes a triad (a = b + s * c) over flushed arrays moves: as counted by each role that counts
    lines of memory, and as its code reads (b, c, and a before it is written) and writes (Helm and Taura 2019, 5.3)."""
    machine, line, array = context.machine, context.line_size, params.lines * context.line_size // 16
    roles = countable(machine, MEMORY_ROLES)
    with context.memory(stream_bytes(KERNELS["triad"], array)) as region:
        away = Probe().repeat(region.size // line, Probe().flush(ARRAY), advance=line).fence()
        probe = away.stream(ARRAY, "triad", array, max(machine.facts.access_sizes)).fence() + away
        run = partial(machine.run, probe, {ARRAY: np.full(1, region.address)}, cpu=context.cpu)
        found = _per(counted(machine, roles, run)[0], MEGA / line)
    found |= {"read by the code": [3 * array / MEGA], "written by the code": [array / MEGA]}
    yield from ({"role": role, "mbytes": each} for role, each in found.items())


def chases(context: Context, params: Params) -> Iterator[Point]:
    """Yield the cycles per step of a chase, and those that stall events count, by working set and kind of `work`."""
    machine, roles = context.machine, countable(context.machine, CHASE_ROLES)
    with context.memory(span_bytes(params.largest_bytes, context.line_size)) as region:
        for size, work in itertools.product(_sizes(params), ("", "free", "chained")):
            context.progress(f"chase over {size >> 10} KiB")
            order = lay(region, size, context.rng(size)).order
            machine.link(region, order)
            steps = max(len(order), params.rounds)  # at least one traversal, so that every run finds the caches alike
            probe = Probe().start(0, dither=False).chase(ARRAY, steps, work=work).stop(0)
            run = partial(machine.run, probe, {ARRAY: order[:1]}, cpu=context.cpu)
            run()
            counts, ticks = counted(machine, roles, run)
            elapsed = float(np.median(np.concatenate(ticks))) * cycles_per_tick(context) / steps
            yield {"work": work, "bytes": size, "time of a step": [elapsed], **_per(counts, steps)}


def _sizes(params: Params) -> list[int]:
    """Return the working sets in bytes, each twice the one before."""
    count = (params.largest_bytes // params.smallest_bytes).bit_length()
    return [params.smallest_bytes << each for each in range(count)]


def streams(context: Context, params: Params) -> Iterator[Point]:
    """Yield by working set the events of `STREAM_ROLES` per line of a load or store stream that ran once before."""
    machine, roles = context.machine, countable(context.machine, STREAM_ROLES)
    line, width = context.line_size, max(machine.facts.access_sizes)
    with context.memory(array_spacing(params.largest_bytes)) as region:
        placements = {ARRAY: np.full(1, region.address)}
        for kernel, size in itertools.product(("load", "store"), _sizes(params)):
            context.progress(f"{kernel} stream over {size >> 10} KiB")
            count = int(np.clip(params.lines * line // size, 1, 64))
            body = Probe().stream(ARRAY, kernel, size // BLOCK_BYTES * BLOCK_BYTES, width)
            run = partial(machine.run, Probe().repeat(count, body).fence(), placements, cpu=context.cpu)
            run()
            yield {"kernel": kernel, "bytes": size, **_per(counted(machine, roles, run)[0], count * size / line)}

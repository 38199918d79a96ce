"""Working sets of growing size under the events of each level and of stalls (Molka et al. 2017, 4.1 and 4.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from setebench.counters.counting import countable, counted, number
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.kernels import BLOCK_BYTES, array_spacing
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context

from .params import Params

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


def sizes(params: Params) -> list[int]:
    """Working sets, each twice as large as the one before."""
    count = (params.largest_bytes // params.smallest_bytes).bit_length()
    return [params.smallest_bytes << number for number in range(count)]


def levels(context: Context, params: Params) -> list[Point]:
    """Events of each line role per line that a load or a store stream uses, by working set."""
    return _streamed(context, params, countable(context.machine, LINE_ROLES))


def full_buffers(context: Context, params: Params) -> list[Point]:
    """Cycles of each stall role per line of the same streams."""
    return _streamed(context, params, countable(context.machine, STALL_ROLES))


def _streamed(context: Context, params: Params, roles: Sequence[str]) -> list[Point]:
    machine, points = context.machine, []
    line, width = machine.facts.line_size, max(machine.facts.access_sizes)
    with context.memory(array_spacing(params.largest_bytes)) as region:

        def passes(kernel: str, size: int, count: int) -> Ticks:
            """So many passes over the first `size` bytes."""
            body = Probe().stream(ARRAY, kernel, size // BLOCK_BYTES * BLOCK_BYTES, width)
            probe = Probe().start(0, dither=False).repeat(count, body).fence().stop(0)
            return machine.run(probe, {ARRAY: np.full(1, region.address)}, cpu=context.cpu)

        for kernel, size in itertools.product(("load", "store"), sizes(params)):
            context.progress(f"{kernel} stream over {size >> 10} KiB")
            count = int(np.clip(params.lines * line // size, 1, 64))
            passes(kernel, size, 1)
            # twice as many passes less as many: neither what the first one brings in nor the loop around is left
            few, _ = counted(machine, roles, partial(passes, kernel, size, count))
            many, _ = counted(machine, roles, partial(passes, kernel, size, 2 * count))
            used = count * size / line
            each = {role: _difference(number(many[role]), number(few[role]), used) for role in roles}
            points.append({"kernel": kernel, "bytes": size, "per_line": each})
    return points


def _difference(many: float | None, few: float | None, lines: float) -> float | None:
    return None if many is None or few is None else (many - few) / lines


def stalls(context: Context, params: Params) -> list[Point]:
    """Cycles of each stall role per step of a chase, alone and with 24 multiplications, by working set."""
    roles = countable(context.machine, STALL_ROLES)
    with context.memory(span_bytes(params.largest_bytes, context.machine.facts.line_size)) as region:
        return [point for size in sizes(params) for point in _chased(context, params, roles, (region, size))]


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
        per_step = {role: None if (value := number(counts[role])) is None else value / done for role in roles}
        yield {"work": work, "bytes": size, "elapsed": elapsed, "per_step": per_step}

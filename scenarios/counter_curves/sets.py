"""Working sets of growing size under the events of each level and of stalls (Molka et al. 2017, 4.1 and 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.counters.counting import countable, counted, number
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.chases import region_for
from setebench.experiments.lines.layout import by_windows, lay
from setebench.kernels import BLOCK_BYTES
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


class Array:
    """Memory that streams pass over. Close it."""

    def __init__(self, context: Context, size: int) -> None:
        page = min(context.machine.facts.page_sizes)
        self._context = context
        self.region: Region = context.machine.allocate(size + page, page)

    def close(self) -> None:
        """Give it back."""
        self._context.machine.release(self.region)

    def passes(self, kernel: str, size: int, count: int) -> Callable[[], Ticks]:
        """A run of so many passes over the first `size` bytes."""
        machine = self._context.machine
        width = max(machine.facts.access_sizes)
        body = Probe().stream(ARRAY, kernel, size // BLOCK_BYTES * BLOCK_BYTES, width)
        probe = Probe().start(0, dither=False).repeat(count, body).fence().stop(0)
        return lambda: machine.run(probe, {ARRAY: np.full(1, self.region.address)}, cpu=self._context.cpu)


def levels(context: Context, params: Params) -> list[Point]:
    """Events of each line role per line that a load or a store stream uses, by working set."""
    return _streamed(context, params, countable(context.machine, LINE_ROLES))


def full_buffers(context: Context, params: Params) -> list[Point]:
    """Cycles of each stall role per line of the same streams."""
    return _streamed(context, params, countable(context.machine, STALL_ROLES))


def _streamed(context: Context, params: Params, roles: Sequence[str]) -> list[Point]:
    line = context.machine.facts.line_size
    points = []
    with closing(Array(context, params.largest_bytes)) as array:
        for kernel in ("load", "store"):
            for size in sizes(params):
                context.progress(f"{kernel} stream over {size >> 10} KiB")
                count = int(np.clip(params.lines * line // size, 1, 64))
                array.passes(kernel, size, 1)()
                # twice as many passes less as many: neither what the first one brings in nor the loop around is left
                few, _ = counted(context.machine, roles, array.passes(kernel, size, count))
                many, _ = counted(context.machine, roles, array.passes(kernel, size, 2 * count))
                used = count * size / line
                each = {role: _difference(number(many[role]), number(few[role]), used) for role in roles}
                points.append({"kernel": kernel, "bytes": size, "per_line": each})
    return points


def _difference(many: float | None, few: float | None, lines: float) -> float | None:
    return None if many is None or few is None else (many - few) / lines


def stalls(context: Context, params: Params) -> list[Point]:
    """Cycles of each stall role per step of a chase, alone and with 24 multiplications, by working set."""
    roles = countable(context.machine, STALL_ROLES)
    region = region_for(context, params.largest_bytes)
    try:
        return [point for size in sizes(params) for point in _chased(context, params, roles, (region, size))]
    finally:
        context.machine.release(region)


def _chased(context: Context, params: Params, roles: Sequence[str], place: tuple[Region, int]) -> Iterator[Point]:
    """The three chases over one working set."""
    region, size = place
    context.progress(f"chase over {size >> 10} KiB")
    rng = context.rng(size)
    order = by_windows(lay(region, size, rng), rng)
    context.machine.link(region, order)
    context.machine.run(Probe().chase(LINE, len(order)), {LINE: np.repeat(order[:1], 2)}, cpu=context.cpu)
    around = _Around(context, order, params)
    for work in WORKS:
        counts, ticks = counted(context.machine, roles, partial(around.run, work))
        done = around.turns * params.steps
        elapsed = float(np.median([each.sum() for each in ticks])) * quick_cycles_per_tick(context) / done
        per_step = {role: None if (value := number(counts[role])) is None else value / done for role in roles}
        yield {"work": work, "bytes": size, "elapsed": elapsed, "per_step": per_step}


class _Around:
    """A chase that goes on where it ended, or its first lines would be nearer the second time."""

    def __init__(self, context: Context, order: NDArray[np.int64], params: Params) -> None:
        self._context, self._order, self._steps = context, order, params.steps
        self.turns = max(2, params.lines // 16 // params.steps)
        self._next = 0

    def run(self, work: str) -> Ticks:
        """`turns` times so many steps; ticks of each turn."""
        at = (self._next + np.arange(self.turns) * self._steps) % len(self._order)
        self._next = int(self._next + self.turns * self._steps) % len(self._order)
        probe = Probe().start(0, dither=False).chase(LINE, self._steps, work=work).stop(0)
        return self._context.machine.run(probe, {LINE: self._order[at]}, cpu=self._context.cpu)

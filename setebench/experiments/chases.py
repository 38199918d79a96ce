"""Pointer chases over working sets of growing size: what a dependent load takes, by how much memory is in use.

One line of every four is used, in an order that no prefetcher follows (`measure.layout`), and every chase is warmed up
by whole rounds before it is timed, so that each line was last used as long ago as the working set is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context

Enough = Callable[[NDArray[np.float64], NDArray[np.float64]], bool]
"""Whether a sweep needs no larger sizes, from those that it has and the ticks of a step of each, shape (points,)."""

LINE = Base("line")


@dataclass(frozen=True, kw_only=True)
class SweepParams:
    """How a sweep is taken.

    `steps` are timed at once: beside so many a clock step or a bracket is nothing. `turns` chases are timed, each from
    where the one before ended. `warm_rounds` pass over the whole set before: a random replacement needs a few until
    other lines are gone."""

    steps: int = 4096
    turns: int = 4
    warm_rounds: int = 2


def region_for(context: Context, largest_bytes: int) -> Region:
    """Memory that a working set of `largest_bytes`, counted in lines used, stretches over, in the smallest pages.

    Raises `UnsupportedError` where so much is not to be had."""
    facts = context.machine.facts
    return context.machine.allocate(span_bytes(largest_bytes, facts.line_size), min(facts.page_sizes))


def chase_ticks(context: Context, region: Region, size_bytes: float, params: SweepParams) -> Ticks:
    """Ticks per step of each timed turn over a working set of that size, shape (turns,)."""
    rng = context.rng(int(size_bytes))
    order = by_windows(lay(region, size_bytes, rng), rng)
    context.machine.link(region, order)
    around = Probe().chase(LINE, len(order))
    context.machine.run(around, {LINE: np.repeat(order[:1], params.warm_rounds)}, cpu=context.cpu)
    starts = order[(np.arange(params.turns) * params.steps) % len(order)]
    timed = Probe().start().chase(LINE, params.steps).stop()
    ticks: Ticks = context.machine.run(timed, {LINE: starts}, cpu=context.cpu)[:, 0]
    return ticks


def sweep(
    context: Context, region: Region, sizes: Iterable[float], params: SweepParams, enough: Enough
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes in bytes and mean ticks per step, shape (points,) each, until these are `enough`."""
    found: dict[float, float] = {}
    for size in sizes:
        found[size] = float(np.mean(chase_ticks(context, region, size, params))) / params.steps
        if enough(np.array(list(found)), np.array(list(found.values()))):
            break
    return np.array(list(found)), np.array(list(found.values()))

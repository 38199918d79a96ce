"""Counting: every workload under the events that it says something of, in several amounts, over epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, CountsEvents
from setebench.experiments.calibrate import step_ticks
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.linear import bends, slopes
from setebench.stats.ticks.location import mean_ticks, undisturbed

from .params import Params
from .workloads import Workload

Numbers = NDArray[np.float64]


@dataclass
class Series:
    """Readings of one role under one workload: counts, and elapsed cycles of the same runs, of shape (epochs, amounts);
    NaN where a reading wrapped or was not there, in epochs not gone through, or where nothing was timed."""

    amounts: Numbers
    counts: Numbers
    cycles: Numbers

    def _whole(self, values: Numbers) -> Numbers:
        """Those of epochs without missing readings."""
        found: Numbers = values[~np.isnan(self.counts).any(axis=1)]
        return found

    def slopes(self) -> Numbers:
        """Events per repetition in each whole epoch, shape (epochs,)."""
        return slopes(self.amounts, self._whole(self.counts))

    def bends(self) -> Numbers:
        """See `setebench.stats.linear.bends`; of the same epochs."""
        return bends(self.amounts, self._whole(self.counts))

    def elapsed(self) -> Numbers:
        """Elapsed cycles of a repetition in the same epochs."""
        return slopes(self.amounts, self._whole(self.cycles))


@dataclass
class Observed:
    """All of one role: its series by workload, and what its readings said of themselves."""

    series: dict[str, Series] = field(default_factory=dict)
    missing: str = ""
    shared: int = 0
    wrapped: int = 0
    readings: int = 0

    @property
    def silent(self) -> bool:
        """Whether nothing was ever counted."""
        return all(not np.nansum(series.counts) for series in self.series.values())

    def number(self, count: Count) -> float:
        """A reading as a number, NaN where there is none or where it wrapped; notes what it says of itself."""
        self.readings += 1
        self.shared += count.shared
        self.wrapped += count.wrapped
        if count.value is None:
            self.missing = count.reason
        return np.nan if count.value is None or count.wrapped else float(count.value)


@dataclass
class Observations:
    """All of all roles, by role; and what a step of each timed workload took, in cycles, whatever was counted."""

    roles: dict[str, Observed]
    params: Params
    step_cycles: dict[str, float] = field(default_factory=dict)

    def series(self, role: str, workload: Workload) -> Series:
        """The readings of a role under a workload, made where there are none."""
        params, known = self.params, self.roles[role].series
        if workload.name not in known:
            amounts = np.array(params.amounts, dtype=np.float64) * workload.unit
            shape = (params.most_epochs, len(amounts))
            known[workload.name] = Series(amounts, np.full(shape, np.nan), np.full(shape, np.nan))
        return known[workload.name]


def observe_epoch(
    context: Context, workloads: Sequence[Workload], roles: tuple[str, ...], observations: Observations, epoch: int
) -> None:
    """One more epoch of some of the roles: all of their workloads, in an order of its own, but those that warm up the
    same lines one behind the other. The machine must be a `CountsEvents`."""
    context.progress(f"counting {len(roles)} events, epoch {epoch + 1}")
    step_ticks(context)  # measured once, before anything is counted
    batches: dict[object, list[Workload]] = {}
    for workload in workloads:
        if any(role in workload.roles for role in roles):
            batches.setdefault(id(workload.warm) if workload.warm else workload.name, []).append(workload)
    ordered = list(batches.values())
    for number in context.rng(epoch).permutation(len(ordered)):
        for probe, placements in ordered[number][0].warm:
            context.machine.run(probe, placements, cpu=context.cpu)
        for workload in ordered[number]:
            _count(context, workload, roles, observations, epoch)


def _count(
    context: Context, workload: Workload, wanted: tuple[str, ...], observations: Observations, epoch: int
) -> None:
    """One epoch of one workload under all groups of events."""
    machine, params = context.machine, observations.params
    assert isinstance(machine, CountsEvents)
    # what the first repetitions bring in is there from then on, and what others modified is gone
    _run(context, workload, workload.unit)
    for group in machine.event_groups([role for role in wanted if role in workload.roles]):
        cycles_per_tick = _cycles_per_tick(context, params) if workload.probe.intervals else np.nan
        for place, amount in enumerate(params.amounts):
            missing = set(group)
            for _ in range(params.tries):
                for probe, placements in workload.before:
                    machine.run(probe, placements, cpu=context.cpu)
                with machine.count_events(group) as counting:
                    ticks = _run(context, workload, amount * workload.unit)
                    counts = counting.read()
                cycles = float(ticks.sum()) * cycles_per_tick if ticks.size else np.nan
                if ticks.size:
                    step = cycles / amount / workload.unit / workload.steps
                    observations.step_cycles[workload.name] = step
                for role in sorted(missing):
                    series = observations.series(role, workload)
                    series.cycles[epoch, place] = cycles
                    series.counts[epoch, place] = observations.roles[role].number(counts[role])
                # taken again: a reading that wrapped is none, and one with a gap in its clock counted other things too
                if not ticks.size or undisturbed(ticks, step_ticks(context)).all():
                    missing = {role for role in missing if counts[role].wrapped}
                if not missing:
                    break


def _cycles_per_tick(context: Context, params: Params) -> float:
    """Cycles of a chain of additions per tick that passes meanwhile, what holds the core up for a moment included: it
    is in the workloads' time as well, which can't be counted without it. Not so the gaps, with which a reading is taken
    again."""
    chains = [Probe().start().add(count).stop() for count in params.chain_cycles]
    ticks = [context.machine.run(chain, params.chain_repetitions, cpu=context.cpu, warmup=4)[:, 0] for chain in chains]
    short, long = (mean_ticks(each, step_ticks(context)) for each in ticks)
    return (params.chain_cycles[1] - params.chain_cycles[0]) / (long - short)


def _run(context: Context, workload: Workload, repetitions: int) -> NDArray[np.int64]:
    """Ticks of the workload's first interval, shape (repetitions,) or (0,)."""
    probe = workload.probe
    if workload.at_once is not None:
        probe, repetitions = workload.at_once(repetitions), 1
    placements = workload.placements(repetitions)
    if workload.partners:
        own = context.own_cpu
        ticks = context.machine.run_together({own: probe, **workload.partners}, placements)[own]
    else:
        ticks = context.machine.run(probe, placements, cpu=context.cpu)
    return ticks[:, 0] if ticks.shape[1] else np.empty(0, dtype=np.int64)

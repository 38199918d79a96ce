"""Counting: every workload under the events that it says something of, in several amounts, over epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def slopes(self) -> Numbers:
        """Events per repetition in each epoch without missing readings, shape (epochs,)."""
        return slopes(self.amounts, self.counts[self._whole()])

    def bends(self) -> Numbers:
        """See `setebench.stats.linear.bends`; of the same epochs."""
        return bends(self.amounts, self.counts[self._whole()])

    def elapsed(self) -> Numbers:
        """Elapsed cycles of a repetition in the same epochs."""
        return slopes(self.amounts, self.cycles[self._whole()])

    def _whole(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(self.counts).any(axis=1), dtype=np.bool_)


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


@dataclass
class Observations:
    """All of all roles, by role; and what a step of each timed workload took, in cycles, whatever was counted."""

    roles: dict[str, Observed]
    params: Params
    step_cycles: dict[str, float] = field(default_factory=dict)

    def series(self, role: str, workload: str) -> Series | None:
        """The readings of a role under a workload, None where it was not counted there."""
        return self.roles[role].series.get(workload) if role in self.roles else None


def observe(context: Context, workloads: Sequence[Workload], roles: Iterable[str], params: Params) -> Observations:
    """Count all roles under all workloads that say something of them. The machine must be a `CountsEvents`."""
    wanted = tuple(roles)
    observations = Observations({role: Observed() for role in wanted}, params)
    step_ticks(context)  # measured once, before anything is counted
    for epoch in range(params.epochs):
        observe_epoch(context, workloads, wanted, observations, epoch)
    return observations


def observe_epoch(
    context: Context, workloads: Sequence[Workload], roles: tuple[str, ...], observations: Observations, epoch: int
) -> None:
    """One more epoch of some of the roles: all of their workloads, in an order of its own, but those that warm up the
    same lines one behind the other."""
    context.progress(f"counting {len(roles)} events, epoch {epoch + 1}")
    batches: dict[object, list[Workload]] = {}
    for workload in workloads:
        if any(role in workload.roles for role in roles):
            batches.setdefault(id(workload.warm) if workload.warm else workload.name, []).append(workload)
    ordered = list(batches.values())
    for number in context.rng(epoch).permutation(len(ordered)):
        for probe, placements in ordered[number][0].warm:
            context.machine.run(probe, placements, cpu=context.cpu)
        for workload in ordered[number]:
            _count_all(context, workload, roles, observations, epoch)


def _cycles_per_tick(context: Context, params: Params) -> float:
    """Cycles of a chain of additions per tick that passes meanwhile, what holds the core up for a moment included: it
    is in the workloads' time as well, which can't be counted without it. Not so the gaps, with which a reading is taken
    again."""
    chains = [Probe().start().add(count).stop() for count in params.chain_cycles]
    ticks = [context.machine.run(chain, params.chain_repetitions, cpu=context.cpu, warmup=4)[:, 0] for chain in chains]
    short, long = (mean_ticks(each, step_ticks(context)) for each in ticks)
    return (params.chain_cycles[1] - params.chain_cycles[0]) / (long - short)


def _count_all(
    context: Context, workload: Workload, wanted: tuple[str, ...], observations: Observations, epoch: int
) -> None:
    """One epoch of one workload under all groups of events."""
    machine = context.machine
    assert isinstance(machine, CountsEvents)
    roles = [role for role in wanted if role in workload.roles]
    # what the first repetitions bring in is there from then on, and what others modified is gone
    run(context, workload, workload.unit)
    for group in machine.event_groups(roles):
        cycles_per_tick = _cycles_per_tick(context, observations.params) if workload.probe.intervals else np.nan
        for place, amount in enumerate(observations.params.amounts):
            missing = set(group)
            for _ in range(observations.params.tries):
                reading = _read(context, workload, group, amount * workload.unit)
                cycles = reading.ticks * cycles_per_tick
                if not np.isnan(cycles):
                    observations.step_cycles[workload.name] = cycles / amount / workload.unit / workload.steps
                for role in sorted(missing):
                    series = _series(observations, role, workload)
                    series.cycles[epoch, place] = cycles
                    series.counts[epoch, place] = _value(observations.roles[role], reading.counts[role])
                # taken again: a reading that wrapped is none, and one with a gap in its clock counted other things too
                if not reading.disturbed:
                    missing = {role for role in missing if reading.counts[role].wrapped}
                if not missing:
                    break


@dataclass(frozen=True)
class Reading:
    """Counts of a group of events, the ticks of all timed intervals meanwhile (NaN where there are none), and whether
    one of these shows a gap: an interrupt, or a stolen slice."""

    counts: dict[str, Count]
    ticks: float
    disturbed: bool


def _read(context: Context, workload: Workload, group: tuple[str, ...], repetitions: int) -> Reading:
    machine = context.machine
    assert isinstance(machine, CountsEvents)
    for probe, placements in workload.before:
        machine.run(probe, placements, cpu=context.cpu)
    with machine.count_events(group) as counting:
        ticks = run(context, workload, repetitions)
        counts = counting.read()
    if not ticks.size:
        return Reading(counts, np.nan, False)
    return Reading(counts, float(ticks.sum()), not undisturbed(ticks, step_ticks(context)).all())


def run(context: Context, workload: Workload, repetitions: int) -> NDArray[np.int64]:
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


def _series(observations: Observations, role: str, workload: Workload) -> Series:
    params = observations.params
    known = observations.roles[role].series
    if workload.name not in known:
        amounts = np.array(params.amounts, dtype=np.float64) * workload.unit
        shape = (params.most_epochs, len(amounts))
        known[workload.name] = Series(amounts, np.full(shape, np.nan), np.full(shape, np.nan))
    return known[workload.name]


def _value(observed: Observed, count: Count) -> float:
    """A reading as a number, NaN where there is none or where it wrapped; notes what it says of itself."""
    observed.readings += 1
    if count.value is None:
        observed.missing = count.reason
        return np.nan
    observed.shared += count.shared
    observed.wrapped += count.wrapped
    return np.nan if count.wrapped else float(count.value)

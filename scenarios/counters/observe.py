"""Counting: every workload under the events that it says something of, in several amounts, over epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, CountsEvents
from setebench.counters.roles import ROLES
from setebench.experiments.calibrate import step_ticks
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.linear import bends, slopes
from setebench.stats.ticks.location import mean_ticks, undisturbed

from .params import Params
from .workloads import Levels, Workload

CHAINS, CHAIN_REPETITIONS = (200, 4200), 400
"""Additions, whose difference calibrates cycles per tick, in a thousandth of a second, in which the frequency seldom
changes."""
Numbers = NDArray[np.float64]


@dataclass
class Series:
    """Readings of one role under one workload: counts, and elapsed cycles of the same runs, of shape (epochs, amounts);
    NaN where a reading wrapped or was not there, in epochs not gone through, or where nothing was timed."""

    amounts: Numbers
    counts: Numbers
    cycles: Numbers

    def whole(self, values: Numbers) -> Numbers:
        """Those of epochs without missing readings."""
        found: Numbers = values[~np.isnan(self.counts).any(axis=1)]
        return found

    def bends(self) -> Numbers:
        """See `setebench.stats.linear.bends`; of the same epochs."""
        return bends(self.amounts, self.whole(self.counts))


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
class Evidence:
    """All that is known when an event is judged: the workloads by name, the levels, readings by role, and what a piece
    of each timed workload took, in cycles, whatever was counted."""

    workloads: Mapping[str, Workload]
    levels: Levels
    params: Params
    roles: dict[str, Observed]
    step_cycles: dict[str, float] = field(default_factory=dict)

    def level(self, role: str) -> str:
        """The level whose traffic a role is here: what lies beyond L2 is memory where no third cache was found."""
        level = ROLES[role].level
        return "memory" if level == "l3" and not self.levels.third_ticks else level

    def sure_level(self, role: str) -> str:
        """The same, empty where it rests on a third cache not having been found, which may be there all the same."""
        return self.level(role) if self.levels.numbered or self.level(role) == ROLES[role].level else ""

    def prefetched(self, level: str) -> bool:
        """Whether prefetchers bring lines of an ascending chase into the traffic of a level: a step then takes less
        than half of the way from the level before to what lies behind."""
        steps, levels = self.step_cycles, self.levels
        if not {"far_ascending", "far_chase"} <= set(steps):
            return False
        ticks = steps["far_ascending"] / steps["far_chase"] * levels.memory_ticks  # in the ticks that levels have
        if level == "l2":
            return ticks < (levels.near_ticks + levels.second_ticks) / 2
        third = level == "memory" and levels.third_ticks
        return ticks < ((third or levels.second_ticks) + levels.memory_ticks) / 2

    def events(self, role: str, name: str) -> Numbers:
        """Events per piece of work of a workload, by whole epoch; empty where it was not counted."""
        series = self.roles[role].series.get(name)
        return np.empty(0) if series is None else slopes(series.amounts, series.whole(series.counts))

    def cycles(self, role: str, name: str) -> Numbers:
        """Elapsed cycles per piece of work, in the same epochs."""
        series = self.roles[role].series.get(name)
        return np.empty(0) if series is None else slopes(series.amounts, series.whole(series.cycles))

    def table(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """By role and workload: events per piece of work, what it should be (None where that is not known), the spread
        between epochs, and the cycles that it took where they were timed."""
        return {
            role: {name: self._row(role, name) for name in observed.series} for role, observed in self.roles.items()
        }

    def _row(self, role: str, name: str) -> dict[str, float | None]:
        found, known = self.events(role, name), self.workloads[name].expected.get(role)
        if not len(found):
            return {"events": None, "known": known, "spread": None, "cycles": None}
        cycles = float(self.cycles(role, name).mean())
        return {"events": float(found.mean()), "known": known, "spread": float(found.std()), "cycles": cycles}

    def observe(self, context: Context, roles: tuple[str, ...], epoch: int) -> None:
        """One more epoch of some of the roles: all of their workloads, in an order of its own. The machine must be a
        `CountsEvents`."""
        context.progress(f"counting {len(roles)} events, epoch {epoch + 1}")
        for name in context.rng(epoch).permutation(sorted(self.workloads)).tolist():
            workload = self.workloads[name]
            counted = [role for role in roles if role in workload.roles]
            if counted:
                for probe, placements in workload.warm():
                    context.machine.run(probe, placements, cpu=context.cpu)
                # what the first repetitions bring in is there from then on, and what others modified is gone
                _run(context, workload, 1)
                self._count(context, workload, counted, epoch)

    def _series(self, role: str, workload: Workload) -> Series:
        """The readings of a role under a workload, made where there are none."""
        amounts = np.array(self.params.amounts, dtype=np.float64) * workload.unit
        shape = (self.params.most_epochs, len(amounts))
        new = Series(amounts, np.full(shape, np.nan), np.full(shape, np.nan))
        return self.roles[role].series.setdefault(workload.name, new)

    def _count(self, context: Context, workload: Workload, wanted: list[str], epoch: int) -> None:
        """One epoch of one workload under all groups of events. A reading is taken again where it wrapped, as it is
        none then, or where its clock shows a gap, as it counted other things too."""
        machine = context.machine
        assert isinstance(machine, CountsEvents)
        for group in machine.event_groups(wanted):
            cycles_per_tick = _cycles_per_tick(context) if workload.make(1)[0].intervals else np.nan
            for place, amount in enumerate(self.params.amounts):
                missing = set(group)
                for _ in range(self.params.tries):
                    with machine.count_events(group) as counting:
                        ticks = _run(context, workload, amount)
                        counts = counting.read()
                    cycles = float(ticks.sum()) * cycles_per_tick if ticks.size else np.nan
                    if ticks.size:
                        self.step_cycles[workload.name] = cycles / amount / workload.unit
                    for role in sorted(missing):
                        series = self._series(role, workload)
                        series.cycles[epoch, place] = cycles
                        series.counts[epoch, place] = self.roles[role].number(counts[role])
                    if not ticks.size or undisturbed(ticks, step_ticks(context)).all():
                        missing = {role for role in missing if counts[role].wrapped}
                    if not missing:
                        break


def _cycles_per_tick(context: Context) -> float:
    """Cycles of a chain of additions per tick that passes meanwhile, what holds the core up for a short time included:
    it is in the workloads' time as well, which can't be counted without it. Not so the gaps, with which a reading is
    taken again."""
    chains = [Probe().start().add(count).stop() for count in CHAINS]
    ticks = [context.machine.run(chain, CHAIN_REPETITIONS, cpu=context.cpu, warmup=4)[:, 0] for chain in chains]
    short, long = (mean_ticks(each, step_ticks(context)) for each in ticks)
    return (CHAINS[1] - CHAINS[0]) / (long - short)


def _run(context: Context, workload: Workload, amount: int) -> NDArray[np.int64]:
    """Ticks of the workload's first interval, shape (repetitions,) or (0,)."""
    probe, placements = workload.make(amount)
    if workload.partners:
        own = context.own_cpu
        ticks = context.machine.run_together({own: probe, **workload.partners}, placements)[own]
    else:
        ticks = context.machine.run(probe, placements, cpu=context.cpu)
    return ticks[:, 0] if ticks.shape[1] else np.empty(0, dtype=np.int64)

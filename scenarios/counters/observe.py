"""Counting of events under every workload that says something about them, with several amounts of work, over epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Levels
from setebench.counters.protocol import Count, CountsEvents
from setebench.counters.roles import ROLES
from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.scenario import Context
from setebench.stats.ticks.location import undisturbed

from .params import Params
from .workloads import Workload

Numbers = NDArray[np.float64]


@dataclass
class Observed:
    """All counts of one role (an ideal event): `readings` in the order of runs, `values` by workload, each an array of
    shape (2, epochs, amounts of work): counts in row 0, core cycles of the same runs in row 1 (NaN: no run)."""

    readings: list[Count] = field(default_factory=list)
    values: dict[str, Numbers] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Whether the event never counted anything, under any workload."""
        return not any(count.value for count in self.readings)


@dataclass
class Evidence:
    """All that the verdict on an event is based on. `workloads` has the programs that were counted, by name, `roles`
    what was counted for each role (what an event ought to count, such as "l1d_fill"), `step_cycles` the cycles that one
    step of each timed workload takes, such as one load."""

    workloads: Mapping[str, Workload]
    levels: Levels
    params: Params
    roles: dict[str, Observed]
    step_cycles: dict[str, float] = field(default_factory=dict)

    def level(self, role: str) -> str:
        """Return the level ("l1" to "memory") at which events of this `role` (a key of `ROLES`, such as "l1d_fill")
        count traffic on this machine: without a third cache, the roles of "l3" count memory's."""
        level = ROLES[role].level
        return "memory" if level == "l3" and len(self.levels.caches) < 3 else level

    def prefetched(self, level: str) -> bool:
        """Return whether prefetchers fetch lines of an ascending chase early, so that `level`'s traffic includes them:
        a step takes less than the mean of memory's latency and that of the cache before `level` (for "l2": of L1's and
        L2's)."""
        steps, cycles = self.step_cycles, list(self.levels.cycles.values())
        if not {"far_ascending", "far_chase"} <= set(steps) or len(cycles) < 3:
            return False
        near, second, *further = cycles
        memory = self.levels.cycles[MEMORY]
        step = steps["far_ascending"] / steps["far_chase"] * memory  # on the scale of `cycles`
        if level == "l2":
            return step < (near + second) / 2
        return step < ((further[0] if level == "memory" and len(further) > 1 else second) + memory) / 2

    def events(self, role: str, name: str) -> Numbers:
        """Return how many events of `role` (such as "l1d_fill") one step of the workload `name` causes, one number for
        each round in which all was counted; empty if nothing was."""
        return self._slopes(role, name, 0)

    def cycles(self, role: str, name: str) -> Numbers:
        """Return core cycles per piece of the workload `name`, shape (epochs,), while the role's event was counted."""
        return self._slopes(role, name, 1)

    def _slopes(self, role: str, name: str, which: int) -> Numbers:
        if name not in self.roles[role].values:
            return np.empty(0)
        values = self.roles[role].values[name]
        whole = ~np.isnan(values[0]).any(axis=1)
        amounts = np.array(self.params.amounts, dtype=np.float64) * self.workloads[name].unit
        # the intercept is what every reading counts besides the work
        return np.asarray(np.polyfit(amounts, values[which][whole].T, 1)[0])

    def table(self) -> dict[str, dict[str, dict[str, list[float] | float | None]]]:
        """Return evidence by role (an ideal event) and workload: the `events` per piece of work (such as one load) in
        each epoch (a repetition), and how many a piece is `known` to cause (None if unknown)."""
        return {
            role: {
                name: {"events": self.events(role, name).tolist(), "known": self.workloads[name].expected.get(role)}
                for name in each.values
            }
            for role, each in self.roles.items()
        }

    def observe(self, context: Context, roles: tuple[str, ...], epoch: int) -> None:
        """Add one epoch (a repetition) of these roles: run, in random order, all workloads that concern them."""
        context.progress(f"counting {len(roles)} events, epoch {epoch + 1}")
        machine = context.machine
        assert isinstance(machine, CountsEvents)
        for name in context.rng(epoch).permutation(sorted(self.workloads)).tolist():
            workload = self.workloads[name]
            counted = [role for role in roles if role in workload.roles]
            for probe, placements in workload.warm() if counted else ():
                context.machine.run(probe, placements, cpu=context.cpu)
            if counted:  # the first repetitions load lines that stay, and write back what others modified
                _run(context, workload, 1)
            for group in machine.event_groups(counted) if counted else ():
                per_tick = cycles_per_tick(context) if workload.make(1)[0].intervals else np.nan
                for place, amount in enumerate(self.params.amounts):
                    # repeat a reading whose clock shows a gap: it also counted what ran meanwhile
                    for _ in range(self.params.tries):
                        with machine.count_events(group) as counting:
                            ticks = _run(context, workload, amount)
                            counts = counting.read()
                        if not ticks.size or undisturbed(ticks, step_ticks(context)).all():
                            break
                    cycles = float(ticks.sum()) * per_tick if ticks.size else np.nan
                    if ticks.size:
                        self.step_cycles[name] = cycles / amount / workload.unit
                    for role in group:
                        value, own = counts[role].value, self.roles[role]
                        own.readings.append(counts[role])
                        empty = np.full((2, self.params.epochs, len(self.params.amounts)), np.nan)
                        own.values.setdefault(name, empty)[:, epoch, place] = np.nan if value is None else value, cycles


def _run(context: Context, workload: Workload, amount: int) -> NDArray[np.int64]:
    """Run `amount` units of a workload; return ticks of interval 0, shape (repetitions,), or (0,) without one."""
    probe, placements = workload.make(amount)
    if workload.partners:
        own = context.own_cpu
        ticks = context.machine.run_together({own: probe, **workload.partners}, placements)[own]
    else:
        ticks = context.machine.run(probe, placements, cpu=context.cpu)
    return ticks[:, 0] if ticks.shape[1] else np.empty(0, dtype=np.int64)

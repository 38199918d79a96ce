"""What is measured of misses in flight, and how findings say it. Knows no machine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.infer.siblings import Beside, Together
from setebench.infer.steps import Staircase, Step
from setebench.infer.ticks import Estimate, mean_ticks
from setebench.results import Finding, Outcome


@dataclass(frozen=True)
class Prefetching:
    """Staircases of one hint: the time in which prefetches set out (`phase`), until the last line is there (`total`),
    and of loads of all lines long after (`kept`). `fills` is where a line lands: l1, l2, or further out. `apart` is
    the time of `kept` behind its jump, of as many lines, prefetched in groups, one after the other. `escorted`: with a
    load of the same page right before each."""

    hint: str
    fills: str
    phase: Staircase | None = None
    total: Staircase | None = None
    kept: Staircase | None = None
    apart: float | None = None
    escorted: bool = False


@dataclass(frozen=True)
class Blocked:
    """How much longer a hit in level 2 behind misses takes, by their number; whether its line really came from level 2;
    up to how many misses its delay would show: more take longer than what waits behind the hit; and the walk (bytes)
    that left it there."""

    stairs: Staircase
    in_level_two: bool
    shows_up_to: int
    walk_bytes: float = 0.0


@dataclass(frozen=True)
class Nearer:
    """Misses of lines that lie in a level between level 1 and memory: how many the throughput of parallel chases keeps
    `in_flight`, which share of a load's latency there is spent behind level 1, and where their time jumps; no staircase
    where the clock is too coarse for it."""

    in_flight: Estimate
    behind_share: float
    stairs: Staircase | None = None

    @property
    def step(self) -> Step | None:
        """Where time jumps, if that is certain."""
        return self.stairs.step if self.stairs is not None and certain(self.stairs.step) else None


@dataclass
class Evidence:
    """All that was measured. `chases` is how many misses from memory the throughput of parallel chases needs in flight;
    `nearer` tells that of lines in the levels between, by level."""

    loads: Staircase
    stores: Staircase | None = None
    blocked: Blocked | None = None
    chases: float | None = None
    nearer: dict[str, Nearer] = field(default_factory=dict)
    prefetching: list[Prefetching] = field(default_factory=list)
    one_thread: bool = True
    """Whether cores run one thread each, so there is nothing to share."""
    tenant_share: float = 0.0
    """Share of volleys beside which somebody was seen to run on another thread of the core."""
    beside: Beside | str = "not asked"
    together: Together | str = "not asked"
    """What threads do to each other's hits and level-2 prefetches; why not, where it can't be asked."""


def kept_in_flight(times: NDArray[np.float64], count: int, step: float, rng: np.random.Generator) -> Estimate | None:
    """How many misses `count` parallel chases keep in flight, by Little's law: as many as one wave of them takes less
    than a load after the other. `times` of one load, of two in a row, of one wave and of two, shape (repetitions, 4),
    on a clock that moves in steps of `step`. None where the second wave takes no time: something held up the first.

    Some of the lines may have gone further out, and there are few repetitions behind a long walk: all four means are
    rough, and their ratio rougher still. So the interval comes from repetitions drawn anew."""

    def of(rows: NDArray[np.float64]) -> tuple[float, float]:
        one, two, wave, waves = (mean_ticks(own, step) for own in rows.T)
        load, further = two - one, waves - wave
        if load <= 0:
            return np.inf, 0.0
        # no wave is over before a load is, so no more than all are in flight
        return further / load, count / max(further / load, 1.0)

    ratio, value = of(times)
    if ratio < SPOILT_RATIO:
        return None
    found = [of(times[rng.integers(0, len(times), len(times))])[1] for _ in range(RESAMPLES)]
    low, high = np.quantile(found, (0.025, 0.975), method="inverted_cdf")
    return Estimate(value, min(float(low), value), max(float(high), value))


SPOILT_RATIO = 0.5
"""A wave takes as long as a load at least; one that seems to take half as long was not the same as the one before."""

RESAMPLES = 200


def certain(step: Step | None) -> bool:
    """Whether the jump's place is known to one."""
    return step is not None and step.low == step.high


def proven(stairs: Staircase, most: int | None = None) -> int:
    """How many independent misses surely were in flight at once, though time never jumped: by Little's law at least as
    many as what all took one after the other is longer than what they took together. Numbers up to `most` count; 0
    where there are none."""
    numbers, times = stairs.curve()
    # the smallest, for a first one that was slow would make all that follows look more at once than it was
    base = float(times.min() if numbers[0] == 1 else min(times[0] + stairs.unit, times[1:].min(initial=np.inf)))
    before = numbers if stairs.step is None else numbers[numbers <= stairs.step.low]
    before = before if most is None else before[before <= most]
    together = times[: len(before)] - base + stairs.unit
    return int((0.9 * before * stairs.unit / together).max(initial=0.0))


def surely(loads: Staircase) -> int:
    """How many loads surely were in flight at once. Those before the first jump, if they took less than half a miss
    longer than one: what waits for an entry takes a whole one. Else that jump may be a later one, where an earlier was
    lost in noise, and only what throughput proves counts."""
    if loads.step is None:
        return proven(loads)
    numbers, times = loads.curve()
    together = times[numbers <= loads.step.low]
    if len(together) and together[-1] - times.min() < TOGETHER_SHARE * loads.unit:
        return loads.step.low
    return min(proven(loads), loads.step.low)


TOGETHER_SHARE = 0.5


def measured(parameter: str, value: int, step: Step, offset: int, method: str, evidence: str) -> Finding:
    """A number; its interval is that of the jump, `offset` further."""
    return Finding(
        parameter=parameter,
        value=value,
        unit="entries",
        low=max(step.low + offset, 1),
        high=max(step.high + offset, 1),
        method=method,
        evidence=evidence,
    )


def at_least(parameter: str, value: int, why: str, evidence: str) -> Finding:
    """A bound, and why it's no more than that."""
    if value < 1:
        return unresolved(parameter, why)
    return Finding(
        parameter=parameter,
        value=value,
        unit="entries",
        outcome=Outcome.AT_LEAST,
        reason=why,
        method="no jump up to there",
        evidence=evidence,
    )


def unresolved(parameter: str, why: str, unit: str = "entries") -> Finding:
    """Nothing to tell, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=why)

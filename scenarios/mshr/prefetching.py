"""Software prefetches in flight: where each hint fills, and how many are under way before the next has to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from setebench.experiments.bursts.bursts import Times
from setebench.stats.jump import Curve, calm_level
from setebench.stats.ticks.location import over_replicates

from .curves import Asked, Curves, nearest
from .params import Params

NEAR = ("l1", "l2")

UNSTEADY = "unsteady"
"""Where a hint fills that leaves its lines in a near level only now and then, or in one of two that can't be
distinguished, or in one that was not found."""


@dataclass(frozen=True)
class Prefetching:
    """One hint. `fills` is where a line lands: l1, l2, or further out. By number of prefetches: the time in which they
    set out (`phase`), of loads of all lines long after (`kept`), and until the last line is there (`total`, of up to as
    many as may be in flight). `apart` is the time of `kept` behind its jump, of as many lines, prefetched in groups,
    one after the other. `warmed`: with a load of the same page right before each."""

    hint: str
    fills: str
    phase: Asked | None = None
    kept: Asked | None = None
    total: Mapping[int, float] = field(default_factory=dict)
    apart: float | None = None
    warmed: bool = False

    def dropped_when_full(self, params: Params) -> bool:
        """Whether `kept` jumps because too many were in flight at once. Lines that are missing just as well when they
        came in groups were dropped for another reason, or pushed out again: that many don't fit into the cache."""
        if self.kept is None or not self.kept.jumps:
            return False
        before = self.kept.levels().get(self.kept.last)
        if self.apart is None or before is None:
            return True
        return self.apart - before < params.half * self.kept.curve.height


def ask_prefetches(curves: Curves, levels: tuple[str, ...]) -> list[Prefetching]:
    """Where every hint fills, and thresholds of one hint per level asked for."""
    curves.context.progress("where prefetches land")
    hints = curves.context.machine.facts.prefetch_hints
    fills, warmed = _landed(curves, hints, warmed=False), False
    if fills and not set(NEAR) & set(fills.values()):
        fills, warmed = _landed(curves, hints, warmed=True), True
    # what is taken for a third level may be the second one, and that a mixture with the first
    cycles = curves.cycles
    doubtful = "l3" in cycles and cycles["l3"] < curves.params.apart * cycles["l2"]
    fills = {hint: UNSTEADY if level == "l3" and doubtful else level for hint, level in fills.items()}
    found = {hint: Prefetching(hint, level, warmed=warmed) for hint, level in fills.items()}
    for level in levels:
        # an L1 hint's lines come through level 2 as well, which at least bounds what that keeps in flight
        any(_first_steady(curves, found, each) for each in (("l1",) if level == "l1" else ("l2", "l1")))
    return list(found.values())


def _first_steady(curves: Curves, found: dict[str, Prefetching], level: str) -> bool:
    """Ask for the first hint that fills `level` and goes on doing so; whether there is one."""
    for hint, own in found.items():
        if own.fills == level and own.phase is None:
            found[hint] = _one_hint(curves, own)
        if found[hint].fills == level:
            return True
    return False


def _one_hint(curves: Curves, own: Prefetching) -> Prefetching:
    """Thresholds of a hint. Time until prefetches set out and that of loads long after come from the same bursts."""
    params, hint = curves.params, own.hint
    ask = partial(curves.bursts.prefetches, hint=hint, warmed=own.warmed)
    loaded: list[tuple[int, Times]] = []

    def set_out(count: int) -> Times:
        times = ask(count, delayed=True)
        loaded.append((count, times[:, 1]))
        return times[:, 0]

    phase = curves.search(f"prefetch {hint}", set_out, (0, params.most))
    # only a smaller limit than that would change the answer, and to see a jump takes what lies behind it
    most = min(2 * (phase.ends[1] + phase.curve.params.near), params.most) if phase.jumps else params.most
    kept = Asked(lambda n: ask(n, delayed=True)[:, 1], Curve(1, most, curves.memory, curves.rng))
    for count, times in loaded:
        if 1 <= count <= most:
            kept.curve.add(count, times)
    curves.go_on(f"prefetch {hint}, then load", kept)
    apart = None
    behind = [number for number in kept.levels() if number > kept.ends[1]] if kept.jumps else []
    if behind:  # what loads take behind the jump when fewer prefetches are in flight at once
        grouped = [ask(behind[0], delayed=True, groups=params.groups)[:, 1] for _ in range(params.group_rounds)]
        apart = calm_level(np.stack(grouped))
    curves.context.progress(f"prefetch {hint}, until there")
    limits = [max(asked.last, 1) for asked in (phase, kept) if asked.jumps]
    numbers = np.unique(np.geomspace(1, min(limits, default=most), params.totals).round().astype(int)).tolist()
    rounds = {n: np.stack([ask(n, delayed=False) for _ in range(params.group_rounds)]) for n in numbers}
    total = {n: calm_level(times.sum(axis=-1)) for n, times in rounds.items()}
    # some machines ignore a hint for a stretch of time, and what was timed then says nothing
    still = _landed(curves, (hint,), warmed=own.warmed)[hint] in NEAR
    return Prefetching(hint, own.fills if still else UNSTEADY, phase, kept, total, apart, own.warmed)


# -- where lines land --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Landing:
    """Cycles of a step of a chase over prefetched lines in one round: from the median of its repetitions, which a
    single interrupt doesn't make look like memory, and from their mean, which a coarse clock doesn't round."""

    median: float
    mean: float


def _landed(curves: Curves, hints: Sequence[str], *, warmed: bool) -> dict[str, str]:
    """By hint the level in which a chase finds lines that were prefetched; asked until that is clear. Each round
    compares with lines that were loaded: what the clock rate does then falls on both."""
    params, cycles = curves.params, curves.cycles
    chase = partial(curves.bursts.landing, params.landing_lines, warmed=warmed)
    rounds: dict[str, list[Landing]] = {hint: [] for hint in hints}
    found: dict[str, str] = {}
    for number in range(1, params.most_landings + 1):
        loaded = chase(None, first=True)
        for hint, own in rounds.items():
            times = chase(hint)
            median = float(np.median(times) - np.median(loaded)) / params.landing_lines
            mean = (curves.mean_of(times) - curves.mean_of(loaded)) / params.landing_lines
            own.append(Landing(median + cycles["l1"], mean + cycles["l1"]))
        if number % params.landings == 0:
            found = {hint: landed(own, cycles, params) for hint, own in rounds.items()}
            if UNSTEADY not in found.values():
                break
    return found


def landed(rounds: Sequence[Landing], cycles: Mapping[str, float], params: Params) -> str:
    """The level that holds the lines, `memory` where they stay out more often than not, or `UNSTEADY`. `cycles` are the
    latencies of the levels, `l1` to `memory`. Lines that are nearer to a third level `apart` times as slow than to the
    second lie in one that was not found."""
    alike = params.agreeing * len(rounds)
    levels = [nearest(each.median, cycles) for each in rounds]
    near = [each.mean for each, level in zip(rounds, levels, strict=True) if level in NEAR]
    if len(near) >= alike:
        # all rounds together: near levels differ by less than a clock step, so one round may not decide
        choices, mean = {level: cycles[level] for level in NEAR if level in cycles}, over_replicates(near)
        low, high = nearest(mean.low, choices), nearest(mean.high, choices)
        between = low != high or (low == "l2" and mean.low > params.apart**0.5 * cycles["l2"])
        return UNSTEADY if between else low
    level, times = Counter(levels).most_common(1)[0]
    if level not in NEAR and times >= alike:
        return level
    return "memory" if len(rounds) - len(near) >= alike else UNSTEADY

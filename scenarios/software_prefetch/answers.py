"""What parts of loads from each level say of the prefetches before them. Knows no machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from setebench.machine import Ticks
from setebench.results import Finding, Value
from setebench.stats import decide
from setebench.stats.ticks.location import dominant
from setebench.stats.ticks.mixture import Shares

from .params import Params

QUIETER = "run again at a quieter time"


@dataclass(frozen=True)
class Answer:
    """A value, or None and why there is none. `remark` says what else a reader should know; `unknown_after` is the
    level behind which one was met that has no reference."""

    value: Value = None
    reason: str = ""
    remark: str = ""
    unknown_after: str = ""

    def finding(self, parameter: str, unit: str, method: str, evidence: str = "") -> Finding:
        """As a finding, measured or unresolved."""
        if self.value is None:
            return decide.unresolved(parameter, unit, self.reason, method)
        said = f"{method}; {self.remark}" if self.remark else method
        return decide.chosen(parameter, self.value, unit, said, evidence)


def elsewhere(shares: Shares, row: int) -> str:
    """How much of what ought to be in memory was not."""
    return f"{1 - shares.of('memory')[row]:.0%} of the lines were elsewhere without any prefetch; {QUIETER}"


def _unclear(shares: Shares, row: int) -> Answer:
    parts = ", ".join(f"{name} {value:.0%}" for name, value in zip(shares.levels, shares.value[row], strict=True))
    return Answer(reason=f"prefetched lines answer from {parts}; {QUIETER}")


def landed(shares: Shares, prefetched: int, baseline: int, params: Params) -> Answer:
    """Level that lines from memory lie in after a prefetch, `none` if they stayed there; `prefetched` and `baseline`
    number the sets of `shares`."""
    best = int(np.argmax(shares.value[prefetched]))
    if shares.low[prefetched, best] < params.clear:
        return _unclear(shares, prefetched)
    if shares.levels[best] == "memory":
        return Answer("none")
    if shares.high[baseline, best] > params.small:
        brought = f"{shares.value[baseline, best]:.0%} of the lines are in {shares.levels[best]}"
        return Answer(reason=f"{brought} without any prefetch; {QUIETER}")
    return Answer(shares.levels[best])


def done(shares: Shares, params: Params) -> Answer:
    """Whether prefetches (set 0) brought lines from memory to any cache: most of those that were in memory without them
    (set 1)."""
    memory = shares.levels.index("memory")
    low, high = shares.low[:, memory], shares.high[:, memory]
    if low[0] > params.clear:
        return Answer(False)
    if low[1] < params.enough:
        return Answer(reason=elsewhere(shares, 1))
    if high[0] < params.small * low[1]:
        return Answer(True)
    if low[0] > params.clear * high[1]:
        return Answer(False)
    return _unclear(shares, 0)


def trains_hardware(patterns: Mapping[str, Shares], params: Params) -> Answer:
    """Whether any pattern of prefetches had further lines fetched; sets 0 and 1 are with and without the pattern."""
    quiet = []
    for name, shares in patterns.items():
        memory = shares.levels.index("memory")
        low, high, value = (part[:, memory] for part in (shares.low, shares.high, shares.value))
        if low[1] - high[0] > params.trained:
            return Answer(True, remark=f"{name} brought {value[1] - value[0]:.0%} of lines that nobody had asked for")
        quiet.append(high[1] - low[0] < params.untrained and low[1] > params.quiet)
    if all(quiet):
        return Answer(False, remark="no pattern brought further lines")
    return Answer(reason=f"further lines came hardly more often than without prefetches; {QUIETER}")


def standard_error(ticks: Ticks) -> float:
    """Of the mean of samples (shape (n,)), without the slowest hundredth, which stalls hit."""
    kept = ticks[ticks <= np.quantile(ticks, 0.99)]
    return float(kept.std() / max(len(kept), 1) ** 0.5)


# -- levels that have no reference -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Between:
    """By how many cycles loads differ from what their shares of levels explain, the standard error, and what a load of
    the level that they are taken for takes."""

    apart: float
    error: float
    cycles: float


def between(references: Mapping[str, Ticks], ticks: Ticks, shares: Shares, row: int, step_ticks: float) -> Between:
    """Of loads (shape (n,)), in ticks beyond those of the first level. A level that the sweep did not find has no
    reference, and unmixing gives its loads to a neighbour."""
    kept = ticks[dominant(ticks, step_ticks)]
    best = int(np.argmax(shares.value[row]))
    inside = [
        (number, name)
        for number, name in enumerate(shares.levels)
        if kept.min() <= np.median(references[name]) <= kept.max() or number == best
    ]
    weights = np.array([shares.value[row, number] for number, _ in inside])
    weights = weights / weights.sum()
    means = np.array([references[name].mean() for _, name in inside])
    errors = np.array([standard_error(references[name]) for _, name in inside])
    own = float(references[shares.levels[best]].mean() - references[shares.levels[0]].mean())
    return Between(float(kept.mean() - weights @ means), float(np.hypot(standard_error(kept), weights @ errors)), own)


def unless_between(found: Answer, seen: Between, first_cycles: float, params: Params) -> Answer:
    """`found`, unless its loads (in cycles) differ too much from any mixture of the levels known; `first_cycles` is
    what a load from the first level takes."""
    own = first_cycles + max(seen.cycles, 0.0)
    limit = max(params.penalty, own * ((params.between if seen.apart > 0 else 1 / params.between) - 1), key=abs)
    if found.value is None or abs(seen.apart) < abs(limit) or abs(seen.apart) < params.errors * seen.error:
        return found
    if found.value == "l1" and seen.apart < 0:  # nothing is nearer: the core has become faster since the reference
        return found
    level = "memory" if found.value == "none" else str(found.value)
    longer = f"{abs(seen.apart):.1f} cycles {'more' if seen.apart > 0 else 'less'}"
    why = f"its lines take {longer} than those of {level}: they lie in a level that the sweep did not show"
    nearer = {"l2": "l1", "l3": "l2", "memory": "l2"}.get(level, level)
    return Answer(reason=why, unknown_after=level if seen.apart > 0 else nearer)


def without_silent(found: dict[str, Answer], turns: int) -> dict[str, Answer]:
    """The answers with `none` reported only where no hint does anything. On a core that honours other hints, one that
    did nothing may do more at other times: a Zen core in a guest ignored t1 and t2 for seconds, then honoured them."""
    if all(each.value == "none" for each in found.values()):
        return found
    why = f"it did nothing in any of {turns} turns, but some CPUs ignore a hint for seconds on end; {QUIETER}"
    return {hint: Answer(reason=why) if each.value == "none" else each for hint, each in found.items()}


def numbered(found: dict[str, Answer], levels: tuple[str, ...]) -> dict[str, Answer]:
    """The answers without those that name a cache behind one that has no reference: its number is one too low."""
    unknown = [levels.index(each.unknown_after) for each in found.values() if each.unknown_after in levels]
    if not unknown:
        return found
    doubtful = [name for name in levels[min(unknown) + 1 :] if name != "memory"]
    why = "another hint's lines lie in a level before it that the sweep did not show, so it can't be numbered"
    return {hint: Answer(reason=why) if each.value in doubtful else each for hint, each in found.items()}

"""From loads after software prefetches to what the prefetches did. Knows no machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.mixture import Shares
from setebench.infer.ticks import dominant
from setebench.results import Finding, Outcome, Value

CLEAR_SHARE, SMALL_SHARE = 0.7, 0.3
"""What holds for more than the first share of lines is the rule, for less than the second an exception (a line pushed
out, a prefetch that found no entry free); between them nothing is told. Judged by the ends of 95 % intervals."""

DISTURBED_SHARE = 0.8
"""With less of the baseline in memory something else brings the lines, and no prefetch can be told from it."""


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
            return Finding(
                parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=self.reason, method=method
            )
        said = f"{method}; {self.remark}" if self.remark else method
        return Finding(parameter=parameter, value=self.value, unit=unit, method=said, evidence=evidence)


IGNORED_SHARE = 0.8
"""A hint that leaves more of a turn's lines where they were did nothing in that turn. Turns go one way or the other:
what drops single prefetches leaves a mixture, and no turn is left out for that."""


def ignored(turns: Shares) -> NDArray[np.bool_]:
    """In which turns (sets of `turns`) a hint did nothing at all."""
    result: NDArray[np.bool_] = turns.of("memory") > IGNORED_SHARE
    return result


def landed(shares: Shares, prefetched: int, baseline: int) -> Answer:
    """Level that lines from memory lie in after a prefetch, `none` if they stayed there; `prefetched` and `baseline`
    number the sets of `shares`."""
    best = int(np.argmax(shares.value[prefetched]))
    if shares.low[prefetched, best] < CLEAR_SHARE:
        return Answer(reason=f"prefetched lines answer from {_mixture(shares, prefetched)}; {QUIETER}")
    if shares.levels[best] == "memory":
        return Answer("none")
    if shares.high[baseline, best] > SMALL_SHARE:
        brought = f"{shares.value[baseline, best]:.0%} of the lines are in {shares.levels[best]}"
        return Answer(reason=f"{brought} without any prefetch; {QUIETER}")
    return Answer(shares.levels[best])


def done(shares: Shares, prefetched: int, baseline: int) -> Answer:
    """Whether prefetches brought lines from memory to any cache: most of those that were in memory without them."""
    memory = shares.levels.index("memory")
    low, high = shares.low[:, memory], shares.high[:, memory]
    if low[prefetched] > CLEAR_SHARE:
        return Answer(False)
    if low[baseline] < LEAST_IN_MEMORY:
        return Answer(reason=f"{elsewhere(shares, baseline, memory)} without any prefetch; {QUIETER}")
    if high[prefetched] < SMALL_SHARE * low[baseline]:
        return Answer(True)
    if low[prefetched] > CLEAR_SHARE * high[baseline]:
        return Answer(False)
    return Answer(reason=f"prefetched lines answer from {_mixture(shares, prefetched)}; {QUIETER}")


LEAST_IN_MEMORY = 0.4
"""With less of the baseline in memory too little is left that a prefetch could bring."""

BETWEEN_CYCLES, BETWEEN_ERRORS = 2.0, 4.0
"""Lines that take longer or shorter than their level does, by more than this and so many standard errors, come from
somewhere that has no reference. The nearest two levels of any core are further apart than twice as much."""


def between(
    references: Mapping[str, NDArray[np.int64]], ticks: NDArray[np.int64], shares: Shares, row: int, step_ticks: float
) -> tuple[float, float]:
    """By how many ticks loads (shape (n,)) differ from what their shares of levels explain, and the standard error.

    A level that the sweep did not find has no reference, and unmixing gives its loads to a neighbour."""
    kept = ticks[dominant(ticks, step_ticks)]
    inside = [
        (number, name)
        for number, name in enumerate(shares.levels)
        if kept.min() <= np.median(references[name]) <= kept.max() or number == int(np.argmax(shares.value[row]))
    ]
    weights = np.array([shares.value[row, number] for number, _ in inside])
    means = np.array([references[name].mean() for _, name in inside])
    errors = np.array([standard_error(references[name]) for _, name in inside])
    weights = weights / weights.sum()
    return float(kept.mean() - weights @ means), float(np.hypot(standard_error(kept), weights @ errors))


DRIFT_SHARE = 0.02
"""Loads are compared with references that may be seconds old. Core clocks drift by so much meanwhile, which falls on
all that is timed, the empty interval included; levels further out are further apart than that."""


def unless_between(
    found: Answer, apart_ticks: float, error_ticks: float, cycles_per_tick: float, timed_cycles: float = 0.0
) -> Answer:
    """`found`, unless its loads, timed in `timed_cycles`, differ too much from any mixture of the levels known."""
    apart = apart_ticks * cycles_per_tick
    room = max(BETWEEN_CYCLES, DRIFT_SHARE * timed_cycles)
    if found.value is None or abs(apart) < room or abs(apart_ticks) < BETWEEN_ERRORS * error_ticks:
        return found
    if found.value == "l1" and apart < 0:  # nothing is nearer: the core has become faster since the reference
        return found
    level = "memory" if found.value == "none" else str(found.value)
    longer = f"{abs(apart):.1f} cycles {'more' if apart > 0 else 'less'}"
    why = f"its lines take {longer} than those of {level}: they lie in a level that the sweep did not show"
    return Answer(reason=why, unknown_after=_nearer(level, apart))


def _nearer(level: str, apart: float) -> str:
    """The last known level before lines that take `apart` cycles longer than those of `level`."""
    if apart > 0:
        return level
    return {"l2": "l1", "l3": "l2", "memory": "l2"}.get(level, level)


def without_silent(found: dict[str, Answer], turns: int) -> dict[str, Answer]:
    """The answers with `none` told only where no hint does anything. On a core that heeds other hints, one that did
    nothing may do more at other times: a Zen core in a guest ignored t1 and t2 for seconds, then heeded them."""
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


QUIETER = "run again at a quieter time"


def elsewhere(shares: Shares, row: int, source: int) -> str:
    return f"{1 - shares.value[row, source]:.0%} of the lines were elsewhere"


def _mixture(shares: Shares, row: int) -> str:
    return ", ".join(f"{name} {value:.0%}" for name, value in zip(shares.levels, shares.value[row], strict=True))


TRAINED_SHARE, UNTRAINED_SHARE = 0.1, 0.05
"""Lines that nobody asked for came into a cache more often than the first share, by the lower end, or less often than
the second, by the upper one, than without prefetches."""


def trains_hardware(patterns: dict[str, Shares]) -> Answer:
    """Whether any pattern of prefetches had further lines fetched; sets 0 and 1 are with and without the pattern."""
    quiet = []
    for name, shares in patterns.items():
        memory = shares.levels.index("memory")
        extra_low = shares.low[1, memory] - shares.high[0, memory]
        extra_high = shares.high[1, memory] - shares.low[0, memory]
        if extra_low > TRAINED_SHARE:
            more = shares.value[1, memory] - shares.value[0, memory]
            return Answer(True, remark=f"{name} brought {more:.0%} of lines that nobody had asked for")
        quiet.append(extra_high < UNTRAINED_SHARE and shares.low[1, memory] > DISTURBED_SHARE)
    if all(quiet):
        return Answer(False, remark="no pattern brought further lines")
    return Answer(reason=f"further lines came hardly more often than without prefetches; {QUIETER}")


def standard_error(ticks: NDArray[np.int64]) -> float:
    """Of the mean of samples (shape (n,)), without the slowest hundredth, which stalls hit."""
    kept = ticks[ticks <= np.quantile(ticks, 0.99)]
    return float(kept.std() / max(len(kept), 1) ** 0.5)

"""From loads after software prefetches to what the prefetches did. Knows no machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.mixture import Shares
from setebench.infer.ticks import Estimate, dominant, mean_ticks
from setebench.results import Finding, Outcome, Value

CLEAR_SHARE, SMALL_SHARE = 0.7, 0.3
"""What holds for more than the first share of lines is the rule, for less than the second an exception (a line pushed
out, a prefetch that found no entry free); between them nothing is told. Judged by the ends of 95 % intervals."""

DISTURBED_SHARE = 0.8
"""With less of the baseline in memory something else brings the lines, and no prefetch can be told from it."""


@dataclass(frozen=True)
class Answer:
    """A value, or None and why there is none. `remark` says what else a reader should know; `unknown_after` is the level
    behind which one was met that has no reference."""

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
        return Answer(reason=f"{_brought(shares, baseline, memory)} without any prefetch; {QUIETER}")
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
    errors = np.array([_error(references[name]) for _, name in inside])
    weights = weights / weights.sum()
    return float(kept.mean() - weights @ means), float(np.hypot(_error(kept), weights @ errors))


def unless_between(found: Answer, apart_ticks: float, error_ticks: float, cycles_per_tick: float) -> Answer:
    """`found`, unless its loads differ too much from any mixture of the levels that are known."""
    apart = apart_ticks * cycles_per_tick
    if found.value is None or abs(apart) < BETWEEN_CYCLES or abs(apart_ticks) < BETWEEN_ERRORS * error_ticks:
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


def numbered(found: dict[str, Answer], levels: tuple[str, ...]) -> dict[str, Answer]:
    """The answers without those that name a cache behind one that has no reference: its number is one too low."""
    unknown = [levels.index(each.unknown_after) for each in found.values() if each.unknown_after in levels]
    if not unknown:
        return found
    doubtful = [name for name in levels[min(unknown) + 1 :] if name != "memory"]
    why = "another hint's lines lie in a level before it that the sweep did not show, so it can't be numbered"
    return {hint: Answer(reason=why) if each.value in doubtful else each for hint, each in found.items()}


QUIETER = "run again at a quieter time"


def _brought(shares: Shares, row: int, source: int) -> str:
    return f"{1 - shares.value[row, source]:.0%} of the lines were elsewhere"


def _mixture(shares: Shares, row: int) -> str:
    return ", ".join(f"{name} {value:.0%}" for name, value in zip(shares.levels, shares.value[row], strict=True))


# -- translation ---------------------------------------------------------------------------------------------------

LEAST_PENALTY_CYCLES, LEAST_ERRORS = 2.0, 4.0
"""A TLB miss costs several cycles on every core; less, or less than so many standard errors, shows none."""


@dataclass(frozen=True)
class Penalty:
    """What a missing translation costs behind a walk, in cycles, with its standard error."""

    cycles: float
    error: float

    def above(self, other: Penalty) -> bool:
        """Whether it is clearly higher than another one."""
        apart, error = self.cycles - other.cycles, float(np.hypot(self.error, other.error))
        return apart > LEAST_PENALTY_CYCLES and apart > LEAST_ERRORS * error


NO_PENALTY = Penalty(0.0, 0.0)


def penalty(
    cold: NDArray[np.int64], warm: NDArray[np.int64], step_ticks: float, cycles_per_tick: float
) -> Penalty:
    """From ticks of loads without and with their TLB entry, shapes (n,)."""
    apart = mean_ticks(cold, step_ticks) - mean_ticks(warm, step_ticks)
    error = float(np.hypot(_error(cold), _error(warm)))
    return Penalty(apart * cycles_per_tick, error * cycles_per_tick)


def _error(ticks: NDArray[np.int64]) -> float:
    kept = ticks[ticks <= np.quantile(ticks, 0.99)]
    return float(kept.std()) / max(len(kept), 1) ** 0.5


def on_tlb_misses(walks: list[tuple[int, Penalty, Answer]], across_page: bool | None) -> tuple[Answer, Answer]:
    """Whether prefetches are done on a miss of the first TLB, and on one of both. `walks` are pages walked over, what
    a missing translation costs behind them, and whether prefetches were done behind them; short walks first."""
    if across_page is False:
        dropped = Answer(False, remark="as all prefetches outside the page of the latest load")
        return dropped, dropped
    (pages, first_cost, first), *further = walks
    if not first_cost.above(NO_PENALTY):
        none = Answer(reason=f"loads behind a walk over {pages} pages show no TLB miss")
        return none, none
    if first.value is False and across_page is None:
        unknown = Answer(reason="not done, but whether for the TLB or for the page change is unresolved")
        return unknown, unknown
    if first.value is False:
        return first, Answer(False, remark="as with a miss of the first TLB alone")
    for pages, cost, answer in further:
        if cost.above(first_cost):
            return first, Answer(answer.value, answer.reason, f"missing both costs {cost.cycles:.0f} cycles")
    return first, Answer(reason=f"loads behind a walk over {pages} pages show no miss of a second TLB")


# -- page faults ---------------------------------------------------------------------------------------------------

SAVED_SHARE, KEPT_SHARE = 0.5, 0.75
"""First touches that take less than the first share of an unprepared one found the page there; more than the second,
they did not."""

FAULT_MISSES = 1.5
"""A first touch takes longer than so many loads from memory, or it was no page fault."""


def on_page_fault(touched: float, untouched: float, line_was_cached: Answer, memory_ticks: float) -> Answer:
    """From median ticks of first touches of pages with and without a prefetch before, and whether the line was then in
    a cache (unresolved where lines of fresh pages always are)."""
    if untouched < FAULT_MISSES * memory_ticks:
        return Answer(reason="the first touch of a page shows no page fault")
    share = touched / untouched
    if share > KEPT_SHARE:
        return Answer(False, remark=f"the first touch still takes {share:.0%} of a page fault")
    if share > SAVED_SHARE:
        return Answer(reason=f"the first touch takes {share:.0%} of a page fault after a prefetch; {QUIETER}")
    if line_was_cached.value is False:
        return Answer(False, remark="the page was mapped, but the line not fetched")
    return Answer(True, remark=f"the first touch takes {share:.0%} of a page fault")


# -- full queues ---------------------------------------------------------------------------------------------------

LOST_SHARE, HELD_LATENCIES = 0.2, 0.5
"""Late lines of a burst that did not come (share), and by how many memory latencies a burst took longer than one of
lines that are there."""


def when_full(shares: Shares, held_up_ticks: float, memory_ticks: float) -> Answer:
    """`stalls` or `drops`, from the shares of late lines after a burst (set 0) and without one (set 1).

    Lost lines show drops even where the burst took longer too: what is not lost still has to get through, and some
    clock brackets wait for it."""
    memory = shares.levels.index("memory")
    if shares.low[1, memory] < DISTURBED_SHARE:
        return Answer(reason=f"{_brought(shares, 1, memory)} without any prefetch; {QUIETER}")
    held_up = f"the burst took {held_up_ticks / memory_ticks:.1f} memory latencies longer than one of present lines"
    if shares.low[0, memory] > LOST_SHARE:
        return Answer("drops", remark=f"{shares.value[0, memory]:.0%} of late lines did not come; {held_up}")
    if shares.high[0, memory] > LOST_SHARE:
        return Answer(reason=f"{shares.value[0, memory]:.0%} of late lines did not come, too few to tell; {QUIETER}")
    if held_up_ticks > HELD_LATENCIES * memory_ticks:
        return Answer("stalls", remark=held_up)
    return Answer(reason="all prefetches of the burst were done and none had to wait: the queue was never full")


# -- blocking ------------------------------------------------------------------------------------------------------

WAITS_SHARE, ADDED_SHARE, HIDDEN_SHARE = 0.3, 0.7, 0.3


def blocking(hit: float, miss: float, with_work: float, work: float, memory: float) -> Answer:
    """`blocking` or `nonblocking`, from mean ticks: of an access that hits, one that misses, one that misses with
    `work` ticks of additions behind it; `memory` is what a load from memory takes longer than a hit."""
    if miss - hit < WAITS_SHARE * memory:
        if with_work - hit > work + WAITS_SHARE * memory:
            return Answer(reason="work behind the miss takes longer than both together")
        return Answer("nonblocking", remark="nothing waits for it to be done")
    added = (with_work - miss) / work
    if added > ADDED_SHARE:
        return Answer("blocking", remark=f"{added:.0%} of the work came on top of the miss")
    if added < HIDDEN_SHARE:
        return Answer("nonblocking", remark=f"{1 - added:.0%} of the work was hidden")
    return Answer(reason=f"{added:.0%} of the work behind the miss came on top of it; {QUIETER}")


# -- stores to shared lines ----------------------------------------------------------------------------------------

STORE_RELATIVE, STORE_CYCLES = 0.05, 1.0
"""A store latency whose interval reaches further to either side is not told."""

RUN_TO_RUN, LEAST_CYCLES = 0.01, 0.5
"""Intervals reach at least so far to either side: the ruler drifts that much within a round, and where fence and store
overlap, half a cycle is lost or won."""


def store_latency(parameter: str, estimate: Estimate, method: str) -> Finding:
    """The latency of a store in cycles, if it is known well enough."""
    value = estimate.value
    half = max((estimate.high - estimate.low) / 2, RUN_TO_RUN * abs(value), LEAST_CYCLES)
    if half > max(STORE_CYCLES, STORE_RELATIVE * abs(value)) or value < 0:
        reason = f"between {value - half:.1f} and {value + half:.1f} cycles; {QUIETER}"
        return Finding(parameter=parameter, unit="cycles", outcome=Outcome.UNRESOLVED, reason=reason, method=method)
    return Finding(
        parameter=parameter,
        value=value,
        unit="cycles",
        low=value - half,
        high=value + half,
        method=method,
        evidence="store_after",
    )


# -- training ------------------------------------------------------------------------------------------------------

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

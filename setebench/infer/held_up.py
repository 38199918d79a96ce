"""When software prefetches are dropped or wait, and what misses hold up: from ticks to answers. Knows no machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.mixture import Shares
from setebench.infer.software_prefetch import DISTURBED_SHARE, QUIETER, Answer, elsewhere, standard_error
from setebench.infer.ticks import mean_ticks, over_replicates, over_rounds
from setebench.results import Finding, Outcome

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


def penalty(cold: NDArray[np.int64], warm: NDArray[np.int64], step_ticks: float, cycles_per_tick: float) -> Penalty:
    """From ticks of loads without and with their TLB entry, shapes (n,)."""
    apart = mean_ticks(cold, step_ticks) - mean_ticks(warm, step_ticks)
    error = float(np.hypot(standard_error(cold), standard_error(warm)))
    return Penalty(apart * cycles_per_tick, error * cycles_per_tick)


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
    for _, cost, answer in further:
        if cost.above(first_cost):
            return first, Answer(answer.value, answer.reason, f"missing both costs {cost.cycles:.0f} cycles")
    return first, Answer(reason=f"loads behind a walk over {walks[-1][0]} pages show no miss of a second TLB")


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
        return Answer(reason=f"{elsewhere(shares, 1, memory)} without any prefetch; {QUIETER}")
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

STORE_RELATIVE, STORE_CYCLES = 0.1, 1.0
"""A store latency whose interval reaches further to either side is not told."""

RUN_TO_RUN, LEAST_CYCLES = 0.04, 0.5
"""Intervals reach at least so far to either side: what lies between two cores answered 3 % faster or slower some
seconds later (standard deviation of 20 times on an idle machine, of which three may well agree by chance), and where
fence and store overlap, half a cycle is lost or won."""


def close_enough(cycles: Sequence[float]) -> bool:
    """Whether rounds of one time tell a store latency well enough."""
    told = over_replicates(cycles)
    return told.high - told.value <= max(STORE_CYCLES, STORE_RELATIVE * abs(told.value))


def store_latency(parameter: str, times: Sequence[Sequence[float]], method: str) -> Finding:
    """The latency of a store, if it is known well enough, from cycles per round at several times. The interval also
    spans what the times tell: what lies between two cores may change in a run, and then no single number is right."""
    every, means = (
        over_rounds([cycles for own in times for cycles in own]),
        [over_replicates(own).value for own in times],
    )
    value, low, high = every.value, min(every.low, *means), max(every.high, *means)
    half = max(value - low, high - value, RUN_TO_RUN * abs(value), LEAST_CYCLES)
    if half > max(STORE_CYCLES, STORE_RELATIVE * abs(value)) or value < 0:
        told = ", ".join(f"{mean:.0f}" for mean in means)
        reason = f"between {value - half:.1f} and {value + half:.1f} cycles ({told} at {len(times)} times); {QUIETER}"
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

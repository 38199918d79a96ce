"""From what was measured of other cores' lines to findings: values, intervals, and reasons where there is no value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.estimate import Interval

METHOD = "one dithered load behind a barrier"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Rounds of reads, traversals that make a reader lose a line, and what is a measurement of one thing.

    Up to `cores_in_pairs` cores every ordered pair is measured; beyond, reads by one core (as in the paper's Figure 3).
    Reads that differ by `same_cycles` at most come from equally far.

    A round has `repetitions` of a probe, and there are `rounds` at least, `most_rounds` at most, until half the
    interval is `narrow` of the value or `narrow_cycles`, and drift leaves no more than `precise` of it open; where
    the reader traverses many lines in each, after `lost_rounds` until it is just narrow enough to be reported.
    Threads are started `starts` times for the spread of their starts. Chases beside the core's other thread are
    `turns` long, behind `warm_turns`; in a round cycles per tick are known to `pace`.

    A reader traverses `usual` times what its second cache holds, `by_chance` times where that may replace at random,
    which keeps one line in 150 behind so many, and a third cache holds `third_ratio` times as much as is traversed.

    Where a traversal seems to push lines out of every cache, up to `shorter_walks` shorter ones are tried, each
    `shorter` times shorter than the one before, until two in a row show the same within `same`. On a clock too coarse
    to distinguish levels load by load (they are less than `apart_steps` of its steps apart: each is read as one of two
    steps, or one more where it differs a little) `alike_walks` in a row: what is mixed from two levels grows with the
    traversal, under random replacement no faster than its length, so behind the shortest of these, by a third less than
    the longest, less than a tenth of a read can be memory's doing.

    A largest group with less than `least_group` of the samples, or half an interval of more than `steady` of the value,
    is no measurement of one thing. Other cores' answers take `own` times as long as the second cache's at least, as a
    question to others goes through it; by less they can't be distinguished from memory's. Half the interval of such an
    answer is `precise` of it, or `precise_cycles`, at most, as rounds show it, and what is reported is `quiet_cycles`
    at least, or what drift leaves open: it crosses an interconnect that has a clock and users of its own. It depends on
    the line's past from `past_cycles` on, or half of `steady`. Values of two times that differ by `two_times` of the
    larger and by `two_times_cycles`, whatever their unit, belong to two states of the machine: no interval between them
    would mean anything."""

    cores_in_pairs: int = 8
    same_cycles: float = 1.0
    rounds: int = 6
    lost_rounds: int = 12
    most_rounds: int = 48
    repetitions: int = 4
    narrow: float = 0.02
    narrow_cycles: float = 0.5
    starts: int = 40
    warm_turns: int = 3
    turns: int = 8
    pace: float = 0.005
    usual: float = 2.5
    by_chance: float = 5.0
    third_ratio: float = 2.0
    shorter: float = 1.25
    shorter_walks: int = 5
    apart_steps: float = 4.0
    same: float = 0.03
    alike_walks: int = 3
    least_group: float = 0.6
    steady: float = 0.1
    own: float = 1.25
    precise: float = 0.05
    precise_cycles: float = 1.0
    quiet_cycles: float = 0.3
    past_cycles: float = 2.0
    two_times: float = 0.2
    two_times_cycles: float = 2.0


PARAMS = Params()


class Read(NamedTuple):
    """Cycles of a read as rounds show them, the share of reads in their largest group, how far the mean of a longer
    time may lie from this (`drift`), as other cores' lines come by what others use too, and their `ends`."""

    cycles: Interval
    share: float
    ends: tuple[float, float]
    drift: float = 0.0


def no_sharing_finding(parameter: str) -> Finding:
    """A shared line that the reader can't be made to lose."""
    reason = "needs a third core that is further away, or the second cache's size and memory to outgrow it with"
    return decide.unresolved(parameter, "cycles", reason, METHOD)


def from_memory(value: float, cycles: dict[str, float]) -> bool:
    """Whether a read seems to come from memory, where a third cache should have answered; `cycles` by level."""
    return "l3" in cycles and cycles["memory"] / PARAMS.own < value < PARAMS.own * cycles["memory"]


def walked_finding(parameter: str, estimate: Interval, cycles: dict[str, float]) -> Finding | None:
    """A read of a shared line that the reader lost by a walk, if it lost too little or too much; None if neither.

    `cycles` by level. A walk that was too short leaves the line in the reader's second cache. One that was too long, or
    whose caches the owner shares (two virtual CPUs on one core), pushes it out of the third as well."""
    if estimate.value <= PARAMS.own * cycles["l2"]:
        reason = "the reader's own second cache still held the line after a walk; its capacity is larger than it seemed"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    if from_memory(estimate.value, cycles):
        reason = "no cache held the line any more after the reader's walk, it seems: memory answers as late"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    return None


def transfer_finding(parameter: str, read: Read, pasts: float) -> Finding:
    """Cycles of a read of another core's line, if they don't depend on the line's past: by `pasts` cycles, that is."""
    cycles = read.cycles
    if read.share < PARAMS.least_group:
        return decide.unresolved(parameter, "cycles", "the line comes from several places", METHOD)
    drifting = read.drift > max(PARAMS.steady * cycles.value, PARAMS.precise_cycles)
    if drifting or not cycles.narrow(PARAMS.precise, PARAMS.precise_cycles):
        low, high = read.ends
        reason = (
            f"rounds took from {low:.0f} to {high:.0f} cycles: others use the way, or a hypervisor moved the CPUs; "
            "run again at a quieter time"
        )
        found = decide.unresolved(parameter, "cycles", reason, METHOD)
        return msgspec.structs.replace(found, low=low, high=high)
    if abs(pasts) > max(PARAMS.past_cycles, PARAMS.steady / 2 * cycles.value):
        reason = f"depends by {abs(pasts):.0f} cycles on how the line came to be shared"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    half = max(PARAMS.quiet_cycles, read.drift)
    estimate = Interval(cycles.value, cycles.value - half, cycles.value + half)
    return decide.measured(parameter, estimate, "cycles", METHOD, "core_to_core")


def merged(first: Iterable[Finding], second: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings, each with what a second time says of it, if it was measured again: neighbours, frequency and
    the places where a hypervisor runs its virtual CPUs change from minute to minute."""
    again = {finding.parameter: finding for finding in second}
    for finding in first:
        yield agreed(finding, again[finding.parameter]) if finding.parameter in again else finding


def agreed(first: Finding, second: Finding) -> Finding:
    """One finding of two with intervals: their mean and the interval that holds both, unresolved where they contradict;
    or the one that has no value."""
    for each in (first, second):
        if each.outcome is not Outcome.MEASURED:
            return each
    (one, two), ends = (first.value, second.value), (first.low, first.high, second.low, second.high)
    assert isinstance(one, float)
    assert isinstance(two, float)
    known = [each for each in ends if each is not None]
    both = msgspec.structs.replace(first, low=min(known), high=max(known))
    if abs(one - two) <= max(PARAMS.two_times_cycles, PARAMS.two_times * max(abs(one), abs(two))):
        return msgspec.structs.replace(both, value=round((one + two) / 2, 3))
    reason = f"{one:.4g} and, seconds later, {two:.4g}; run again at a quieter time"
    return msgspec.structs.replace(both, value=None, outcome=Outcome.UNRESOLVED, reason=reason)

"""Findings measured at two times some seconds apart, of which one is made.

Neighbours, frequency and the places where a hypervisor runs its virtual CPUs change from minute to minute. An interval
from one moment says nothing of that; two epochs say something, and where they contradict each other nothing is
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from setebench.results import Finding, Outcome


@dataclass(frozen=True, kw_only=True)
class Params:
    """Values of two times that differ by `relative` of the larger and by `cycles`, whatever their unit, belong to two
    states of the machine; no interval between them would mean anything."""

    relative: float = 0.2
    cycles: float = 2.0


PARAMS = Params()


def merged(first: Iterable[Finding], second: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings, each with what the second time says of it, if it was measured again."""
    again = {finding.parameter: finding for finding in second}
    for finding in first:
        other = again.get(finding.parameter)
        yield finding if other is None else agreed(finding, other)


def agreed(first: Finding, second: Finding) -> Finding:
    """One finding of two: their common value, or the interval that holds both; unresolved where they contradict."""
    if first.outcome is not Outcome.MEASURED:
        return first
    if second.outcome is not Outcome.MEASURED:
        return second
    one, two = first.value, second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return first if one == two else _contradiction(first, second)
    if not isinstance(one, int | float) or not isinstance(two, int | float):
        return first if one == two else _contradiction(first, second)
    if abs(one - two) > max(PARAMS.cycles, PARAMS.relative * max(abs(one), abs(two))):
        return _contradiction(first, second)
    return msgspec.structs.replace(
        first, value=round((one + two) / 2, 3), low=min(first.low, second.low), high=max(first.high, second.high)
    )


def _contradiction(first: Finding, second: Finding) -> Finding:
    one, two = first.value, second.value
    low, high = first.low, first.high
    if isinstance(one, int | float) and isinstance(two, int | float) and not isinstance(one, bool):
        bounds = [one, two, *(each for f in (first, second) for each in (f.low, f.high) if each is not None)]
        low, high = min(bounds), max(bounds)
    reason = f"{_text(one)} and, seconds later, {_text(two)}; run again at a quieter time"
    return msgspec.structs.replace(first, value=None, low=low, high=high, outcome=Outcome.UNRESOLVED, reason=reason)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

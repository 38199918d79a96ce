"""What is still open is asked again while there is patience, what costs least first.

A co-runner comes and goes within seconds to minutes: what one asking left open, another one at another time may answer.
Nothing says beforehand which question that helps, so each is asked until askings stop helping. An answer once given
stays: of two answers the more welcome one would be a choice, not a measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from setebench.campaign.documents import Again, merged
from setebench.campaign.state import State
from setebench.machine import CountsBusyTime, Machine
from setebench.results import Outcome


@dataclass(frozen=True, kw_only=True)
class Params:
    """When to ask again, and when to stop."""

    seconds: float = 60.0
    """Of the machine's own clock, for all askings but the first: a quarter of what a whole run takes on a CPU of
    today, so that it ends within five minutes. With --fast there is none: it is for those who can't wait."""

    fruitless: int = 2
    """A question that so many askings in a row didn't help is left alone. One may fall into the same episode of a
    co-runner as the first; the second comes behind all other open questions."""


PARAMS = Params()


def default_patience(fast: bool) -> float:
    """Seconds of patience where nobody says how many."""
    return 0.0 if fast else PARAMS.seconds


def clock_of(machine: Machine) -> Callable[[], float]:
    """Seconds by the machine's own clock where it has one; else those that the user waits, as on a simulated machine,
    of which a second costs minutes."""

    def seconds() -> float:
        busy = machine.busy_time() if isinstance(machine, CountsBusyTime) else None
        return time.monotonic() if busy is None else busy.passed

    return seconds


def patience_left(state: State) -> float:
    """Seconds."""
    return state.plan.patience - sum(each.seconds for each in state.again if each.session == state.session)


def next_question(state: State) -> str | None:
    """The scenario to ask next: of those with something open that there is patience for, the one that was asked again
    least often, and of these the cheapest. None where there is none."""
    open_parameters = {each.parameter for each in merged(state.findings.values()) if each.outcome is Outcome.UNRESOLVED}
    costs: dict[str, tuple[int, float]] = {}
    left = patience_left(state)
    for name, step in state.steps.items():
        again = [each for each in state.again if each.scenario == name and each.session == state.session]
        own = {each.parameter for each in state.findings.get(name, []) if each.outcome is Outcome.UNRESOLVED}
        cost = step.elapsed_seconds / step.asked
        affordable = cost <= left and left > 0
        if step.state == "done" and own & open_parameters and affordable and not _hopeless(again):
            costs[name] = (len(again), cost)
    return min(costs, key=lambda name: costs[name], default=None)


def _hopeless(again: list[Again]) -> bool:
    latest = again[-PARAMS.fruitless :]
    failed = any(each.reason for each in again)
    return failed or (len(latest) == PARAMS.fruitless and not any(each.answered for each in latest))

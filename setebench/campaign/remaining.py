"""How long a run of all scenarios still takes, in what it says while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

from setebench.campaign.state import State

FAST_PACE = 0.4
"""What --fast leaves of a scenario's time, until others have shown it."""

FIRST_GUESS_SECONDS = 20.0
"""How much declared time the first guess of the pace counts like: one short scenario says little of the others."""


def announcer(state: State, name: str, head: str, say: Callable[[str], None]) -> Callable[[str], None]:
    """`say` with `head` before what is said and the time that is left behind it."""
    begin = time.monotonic()

    def announce(message: str) -> None:
        say(f"{head}: {message} ({remaining_text(seconds_left(state, name, time.monotonic() - begin))})")

    return announce


def seconds_left(state: State, current: str, spent: float) -> float:
    """About how long the run still takes: what the scenarios declare, at the pace of those that are done.

    One that failed has no pace: it may have ended at once."""
    done = [step for step in state.steps.values() if step.state == "done" and step.scenario != current]
    measured = sum(step.elapsed_seconds for step in done)
    expected = sum(state.seconds[step.scenario] for step in done)
    guess = FAST_PACE if state.plan.fast else 1.0
    pace = (measured + guess * FIRST_GUESS_SECONDS) / (expected + FIRST_GUESS_SECONDS)
    waiting = (name for name, step in state.steps.items() if step.state == "pending" and name != current)
    later = sum(state.seconds[name] for name in waiting)
    return pace * later + max(pace * state.seconds[current] - spent, 0.0)


def remaining_text(seconds: float) -> str:
    """`about 40 s left`, `about 3 min left`."""
    if seconds < 1:
        return "nearly done"
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"

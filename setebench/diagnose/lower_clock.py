"""A lower core clock, tried: the same program at full and at lowered clock, by turns, with the energy that it took.

Molka et al. 2017 (section 5) lowered the clock where cycles wait for bandwidth: 4.6 % less power, 0.2 % more time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext

from setebench.diagnose.params import Params
from setebench.errors import UnsupportedError
from setebench.native.clock_limits import CLOCK_PERCENT, Controls
from setebench.results import Finding, Outcome

TIME, ENERGY = "diagnose.lower_clock.time", "diagnose.lower_clock.energy"


def used(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> float:
    """J between two readings of the same packages; each counter begins anew at its end."""
    total = 0.0
    for name, (start, end) in before.items():
        difference = after[name][0] - start
        total += difference if difference >= 0 else difference + end
    return total


def tried(run: Callable[[], object], controls: Controls, pairs: int = Params().clock_pairs) -> list[Finding]:
    """Time and energy at lowered clock over those at full clock, from pairs of runs, every second pair the other way
    round. Unavailable, without a run, where clock or energy is out of reach."""
    try:
        controls.clocks(), controls.joules()
        with controls.lowered():
            pass  # whether it may be set is only known by setting it
        ratios = [_pair(run, controls, lowered_first=bool(number % 2)) for number in range(pairs)]
    except UnsupportedError as error:
        return [
            Finding(parameter=name, unit="ratio", outcome=Outcome.UNAVAILABLE, reason=str(error))
            for name in (TIME, ENERGY)
        ]
    return [_ratio(name, [pair[place] for pair in ratios]) for place, name in enumerate((TIME, ENERGY))]


def _pair(run: Callable[[], object], controls: Controls, lowered_first: bool) -> tuple[float, float]:
    """Logarithms of the ratios of time and of energy; NaN for energy whose counters stood still."""
    measured: dict[bool, tuple[float, float]] = {}
    for lowered in (lowered_first, not lowered_first):
        with controls.lowered() if lowered else nullcontext():
            measured[lowered] = _measured(run, controls)
    (slow, less), (full, more) = measured[True], measured[False]
    return math.log(slow / full), math.log(less / more) if less > 0 and more > 0 else math.nan


def _measured(run: Callable[[], object], controls: Controls) -> tuple[float, float]:
    """Seconds and J of one run."""
    before, begin = controls.joules(), time.monotonic()
    run()
    return time.monotonic() - begin, used(before, controls.joules())


def _ratio(name: str, logarithms: list[float]) -> Finding:
    if any(map(math.isnan, logarithms)):
        reason = "the energy counters stood still during a run: run the program for longer, or they don't count here"
        return Finding(parameter=name, unit="ratio", outcome=Outcome.UNAVAILABLE, reason=reason)
    from setebench.stats.estimate import over_epochs  # scipy, which not every run needs

    found = over_epochs(logarithms)
    low, value, high = (math.exp(part) for part in (found.low, found.value, found.high))
    method = (
        f"{len(logarithms)} pairs of runs at {CLOCK_PERCENT:g} % of the clock and at all of it; Molka et al. 2017, 5"
    )
    return Finding(parameter=name, value=value, unit="ratio", low=low, high=high, method=method)

"""What to try, in words that name the figures they rest on.

Each piece of advice follows from one figure that is beyond its limit; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """From where on advice is given."""

    worth_percent: float = 15.0  # of cycles, a part worth work: without it a program is at most 1.18 times as fast
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load


LIMITS = Params()
RULES = {
    "memory_bandwidth": (
        LIMITS.worth_percent,
        "{:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: use each line fully, block the "
        "loops for a nearer cache, and where memory is saturated run fewer threads or a lower core clock",
    ),
    "memory_latency": (
        LIMITS.worth_percent,
        "{:.0f} % of the cycles wait for single loads{where}: follow several chains at once, store what is used in a "
        "row side by side, or prefetch what is needed later (advise-prefetch)",
    ),
    "imbalance": (
        LIMITS.uneven,
        "the busiest thread is on a CPU {:.3g} times as long as the mean: where threads sleep while they wait for each "
        "other, divide by work, not by count, or let threads take small pieces as they come",
    ),
    "probe_latency": (
        LIMITS.slower_memory,
        "beside the program memory takes {:.2g} times as long as without it: its bandwidth is nearly used up; use "
        "lines fully, block for a nearer cache, or run fewer threads",
    ),
}
"""By finding, the limit of its value and what to try."""


def advise(values: Mapping[str, float], places: Mapping[str, str]) -> list[dict[str, object]]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, the probe's
    latency over that without the program; `places`: by part of the cycles, in words, where most of it is spent."""
    return [
        {"text": text.format(values[name], where=places.get(name, "")), "rests_on": [f"diagnose.{name}"]}
        for name, (limit, text) in RULES.items()
        if values.get(name, 0.0) >= limit
    ]

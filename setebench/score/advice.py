"""What is right of prefetch advice on simulated machines: how little it stays behind, and that it never costs.

A machine file doesn't say which prefetches pay for a loop. The sweep over distances that the scenario runs on the
machine does, chosen and timed on different rounds; the bounds here say how far behind it advice may stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.loops import LOOP_NAMES
from setebench.results import Finding

SCENARIO = "advise-prefetch"
MOST_REGRET = 5.0
"""Per cent behind the sweep's best up to which advice is right."""

LEAST_SPEEDUP = 0.97
"""Over no prefetch: advice that is slower than this is wrong wherever prefetching is."""

RANGES = {"regret": (0.0, -100.0, MOST_REGRET, "%"), "speedup": (1.0, LEAST_SPEEDUP, 1e9, "ratio")}
"""What is right, by kind: value, least, most, unit."""


def advice_truths() -> Iterator[Finding]:
    """For every loop the ranges in which regret and speed-up are right."""
    for name in LOOP_NAMES:
        for kind, (value, low, high, unit) in RANGES.items():
            yield Finding(parameter=f"advice.{name}.{kind}", value=value, low=low, high=high, unit=unit)

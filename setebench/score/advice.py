"""What is right of prefetch advice on simulated machines: how little it stays behind, and that it never costs.

A machine file doesn't say which prefetches pay for a loop. The sweep over distances that the scenario runs on the
machine does, chosen and timed on different rounds; the bounds here say how far behind it advice may stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from setebench.loops import LOOP_NAMES
from setebench.results import Finding

SCENARIO = "advise-prefetch"
MOST_REGRET = 5.0
"""Per cent behind the sweep's best up to which advice is right."""

LEAST_SPEEDUP = 0.97
"""Over no prefetch: advice that is slower than this is wrong wherever prefetching is."""

METHOD = "by the sweep on the same machine"
WITHOUT_LIMIT = 1e9


def advice_truths() -> Iterator[Finding]:
    """For every loop the ranges in which regret and speed-up are right."""
    for name in LOOP_NAMES:
        for kind, value, low, high, unit in (
            ("regret", 0.0, -100.0, MOST_REGRET, "%"),
            ("speedup", 1.0, LEAST_SPEEDUP, WITHOUT_LIMIT, "ratio"),
        ):
            parameter = f"advice.{name}.{kind}"
            yield Finding(parameter=parameter, value=value, low=low, high=high, unit=unit, method=METHOD)


def regrets(findings: Iterable[Finding]) -> dict[str, Any] | None:
    """The distribution of regrets in per cent, of all loops together and of each, as advised and (`table`) by the
    table alone, and in how many cases advice is slower than no prefetch by more than 3 %; None without any."""
    own: dict[str, list[float]] = {}
    speedups: list[float] = []
    for finding in findings:
        head, _, kind = finding.parameter.removeprefix("advice.").partition(".")
        if not finding.parameter.startswith("advice.") or not isinstance(finding.value, int | float):
            continue
        if kind in ("regret", "regret.table"):
            key = "table" if kind.endswith("table") else "all"
            own.setdefault(key, []).append(float(finding.value))
            if key == "all":
                own.setdefault(head, []).append(float(finding.value))
        elif kind == "speedup":
            speedups.append(float(finding.value))
    if not own:
        return None
    slower = sum(value < LEAST_SPEEDUP for value in speedups)
    return {name: _distribution(values) for name, values in own.items()} | {"slower_than_none": slower}


def _distribution(values: list[float]) -> dict[str, float]:
    median, high = np.percentile(values, [50, 95])
    right = sum(value <= MOST_REGRET for value in values) / len(values)
    return {
        "cases": len(values),
        "median": round(float(median), 2),
        "percentile_95": round(float(high), 2),
        "worst": round(max(values), 2),
        "right": round(right, 4),
    }

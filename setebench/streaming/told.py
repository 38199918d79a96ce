"""What a sweep over data sets tells of each level, and when it tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from setebench.results import Finding, Outcome
from setebench.streaming.levels import Levels
from setebench.streaming.sweep import Case, Point

ALMOST = 0.99
"""Whole blocks make a data set a little smaller than was asked for."""

APART, AGREEING = 1.15, 0.93
"""Data sets so far apart in size that agree so well lie in the same level. One of which one line in ten came from a
level five times slower would be slower by a third."""

CLEAR = 2.0
"""Data sets so much larger than the smallest of a level are taken first: the level before serves the less of them."""

RUN_TO_RUN = 0.03
"""Room in the intervals of peaks, to either side: the core's frequency and what neighbours leave of shared caches and
of memory drift more slowly than a run, so its rounds don't show it."""

LEAST_OVERLAP = 0.9
"""Threads that ran at once for less of the time share nothing for the rest of it."""


def told_of(case: Case, points: list[Point], levels: Levels, without: str) -> Iterator[Finding]:
    """The peak of every level, as findings; `without` says why there is none ("" where there may be)."""
    kernel = case.kernel
    for level in ("memory",) if case.remote else levels.names:
        if (kernel.bypass and level != "memory") or (kernel.fetches and level == "l1"):
            continue  # such stores go to memory wherever the data was; such prefetches find nothing to do
        own, reason = _points_of(level, case, points, levels)
        if without or not own:
            yield Finding(parameter=case.parameter(level), outcome=Outcome.UNRESOLVED, reason=without or reason)
            continue
        yield from _peak(case, level, max(own, key=lambda point: point.best))


def _points_of(level: str, case: Case, points: list[Point], levels: Levels) -> tuple[list[Point], str]:
    """Data sets that lie in a level, and why there are none."""
    low, high = levels.sizes(level, case.threads, case.per_core)
    own = [point for point in points if ALMOST * low <= point.size_bytes <= high]
    if level == "memory" and not levels.outgrown:
        return [], "no data set was found that surely outgrows the last level, in the memory and time there were"
    if level == "memory":
        # the largest alone: what a cache still holds of smaller ones makes them faster
        return own[
            -1:
        ], "no time or memory for data sets that surely outgrow the last level; use --seconds or --largest"
    if not own:
        reason = f"no data set of {case.threads} threads that there was time for has outgrown the level before and fits"
        return [], f"{reason} this one, which they may share"
    for least in (CLEAR * low, low):
        clear = [point for point in own if point.size_bytes >= ALMOST * least]
        if clear and any(_agree(max(clear, key=lambda point: point.best), other) for other in clear):
            return clear, ""
    return [], "data sets that should all fit this level differ in bandwidth, so that some may not fit"


def _agree(best: Point, other: Point) -> bool:
    """Whether another data set is as fast: one that hardly fits loses much of a stream to the level behind, and one
    that the level before still serves gains."""
    ratio = max(best.size_bytes, other.size_bytes) / min(best.size_bytes, other.size_bytes)
    return ratio >= APART and other.best >= AGREEING * best.best


def _peak(case: Case, level: str, point: Point) -> Iterator[Finding]:
    name = case.parameter(level)
    if point.overlap < LEAST_OVERLAP and case.threads > 1:
        reason = f"all threads ran at once for {point.overlap:.0%} of the time only: something else used a CPU"
        yield Finding(parameter=name, outcome=Outcome.UNRESOLVED, reason=reason)
        return
    several = len(point.rounds) > 1
    rounds = f"{len(point.rounds)} rounds" if several else "one round"
    how = f"best of {rounds} over {_size(point.size_bytes)} a thread{_form(case, point)}{_at_once(case, point)}"
    rates = {name: 1.0}
    if level != "l1" and case.kernel.written_bytes:
        rates[f"{name}.traffic"] = case.kernel.traffic_bytes / case.kernel.program_bytes
    for parameter, factor in rates.items():
        yield Finding(
            parameter=parameter,
            value=round(point.best * factor, 4),
            unit="GB/s",
            low=float(np.median(point.rounds)) * factor * (1 - RUN_TO_RUN) if several else None,
            high=point.best * factor * (1 + RUN_TO_RUN) if several else None,
            method=how,
            evidence="bandwidth",
        )


def _form(case: Case, point: Point) -> str:
    """Which form of the loop it was, where there are several."""
    return f", {'rolled' if point.rolled else 'unrolled'}" if len(case.kernel.forms) > 1 else ""


def _at_once(case: Case, point: Point) -> str:
    if case.threads == 1:
        return ""
    return f", started within {point.start_microseconds:.2g} us, all at once {point.overlap:.0%} of the time"


def _size(size: int) -> str:
    """Bytes for people: arrays of whole blocks seldom come to whole KiB."""
    unit, name = next((unit, name) for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")) if size >= unit)
    return f"{size / unit:.3g} {name}"


def evidence_of(case: Case, points: list[Point]) -> dict[str, Any]:
    """A sweep as evidence: what it was, and every round of every data set."""
    kernel = case.kernel
    return {
        "kernel": kernel.name,
        "width": case.width,
        "cpus": list(case.cpus),
        "remote": case.remote,
        "bytes_per_block": {
            "read": kernel.read_bytes,
            "written": kernel.written_bytes,
            "write_allocated": kernel.allocated_bytes,
        },
        "flops_per_block": kernel.block_flops,
        "size_bytes": [point.size_bytes for point in points],
        "rounds_gb_per_s": [point.rounds for point in points],
        "rolled": [point.rolled for point in points],
        "overlap": [round(point.overlap, 4) for point in points],
        "start_microseconds": [round(point.start_microseconds, 4) for point in points],
    }

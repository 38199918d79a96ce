"""What a sweep over data sets says of each level, and when it says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from setebench.calibration import MEMORY
from setebench.experiments.streams.points import PARAMS as ROUNDS
from setebench.experiments.streams.points import Point
from setebench.experiments.streams.team import array_bytes_for
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.bandwidth.peaks import peak, rate, why_no_rate

from .levels import DataSets
from .params import PARAMS
from .sweep import Case

EVIDENCE = "bandwidth"


def findings_of(case: Case, points: list[Point], sets: DataSets, without: str) -> Iterator[Finding]:
    """The peak of every level, as findings; `without` says why there is none ("" where there may be)."""
    kernel = case.kernel
    for level in (MEMORY,) if case.remote else sets.names:
        if (kernel.bypass and level != MEMORY) or (kernel.fetches and level == "l1"):
            continue  # such stores go to memory wherever the data was; such prefetches find nothing to do
        own, reason = _points_of(level, case, points, sets)
        if without or not own:
            yield decide.unresolved(case.parameter(level), "", without or reason)
        else:
            yield from _peak(case, level, own)


def _points_of(level: str, case: Case, points: list[Point], sets: DataSets) -> tuple[list[Point], str]:
    """The data sets that lie in a level, and why there are none that show its rate."""
    if level == MEMORY:
        own = [point for point in points if 0 < sets.memory <= point.size_bytes][-1:]
        if sets.memory:
            return own, "no time or memory for data sets that surely outgrow the last level; use --seconds or --largest"
        return own, "no data set was found that surely outgrows the last level, in the memory and time there were"
    sizes = {array_bytes_for(case.kernel, size) * case.kernel.arrays for size in sets.caches[level]}
    own = [point for point in points if point.size_bytes in sizes]
    if not sizes:
        return [], f"no data set of {case.threads} threads has outgrown the level before and fits this one"
    if not own:
        return [], "no time for data sets that lie in this level; use --seconds"
    if any(_agree(_best(own), other) for other in own):
        return own, ""
    if len(own) == 1:
        return [], "only one data set lies in this level, or there was time for one, and none shows that it fits"
    return [], "data sets that should all fit this level differ in bandwidth, so that some may not fit"


def _best(points: Sequence[Point]) -> Point:
    return max(points, key=lambda point: (point.together is not None, point.best))


def _agree(best: Point, other: Point) -> bool:
    """Whether another data set is as fast: one that hardly fits loses much of a stream to the level behind, and one
    that the level before still serves gains."""
    ratio = max(best.size_bytes, other.size_bytes) / min(best.size_bytes, other.size_bytes)
    return ratio >= PARAMS.apart and _as_fast(best, other)


def _as_fast(best: Point, other: Point) -> bool:
    return other.best >= PARAMS.agreeing * best.best


def _rounds(points: Sequence[Point]) -> list[float]:
    """The best of every round, of all data sets that are as fast as the best: each had its own moment, and what else
    ran in one need not have run in the others."""
    best = _best(points)
    alike = [point.rounds for point in points if _as_fast(best, point)]
    return [max(rates) for rates in zip_longest(*alike, fillvalue=0.0)]


def _peak(case: Case, level: str, points: Sequence[Point]) -> Iterator[Finding]:
    """The best of some data sets of a level. What neighbours take of memory drifts slower than a run; the rate of a
    cache, shared or not, is mostly that of the core's own port to it: 100 GB/s from the L3 of a guest in runs a day
    apart."""
    name, point, shared = case.parameter(level), _best(points), level == MEMORY
    reached = _rounds(points)
    estimate = peak(point.best, reached, shared)
    apart = case.threads > 1 and point.overlap < ROUNDS.overlap
    reason = why_no_rate(reached, point.best, point.overlap if apart else 1.0, shared)
    if not (reason or estimate or shared):  # a pass over memory is long: what else runs is a small part of it
        reason = "there was time for one round, which says nothing of what else ran meanwhile; use --seconds"
    if reason:
        yield decide.unresolved(name, "GB/s", reason)
        return
    rounds = f"{len(reached)} rounds" if estimate else "one round"
    how = f"best of {rounds} over {_size(point.size_bytes)} a thread{_form(case, point)}{_at_once(case, point)}"
    rates = {name: 1.0}
    if level != "l1" and case.kernel.written_bytes:
        rates[f"{name}.traffic"] = case.kernel.traffic_bytes / case.kernel.program_bytes
    lone = any(other.alone for other in points if _as_fast(point, other))
    for parameter, factor in rates.items():
        best, around = factor * point.best, estimate.scaled(factor) if estimate else None
        yield rate(parameter, best, around, (how, EVIDENCE), alone=lone)


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

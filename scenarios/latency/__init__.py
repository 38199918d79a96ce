"""Load-to-use latency of each cache level and of memory, in core cycles, and in nanoseconds where cores share a level.

Two methods share the rounds: chains of dependent loads through working sets of growing size, and single loads (short
elapsed-time events, SETE: Fang et al. 2014, 3.1 and 5.1.1). Every sample lies between two runs of reference work.
Memory is measured by chases over flushed lines, one line per page, so that no prefetcher can predict the next line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from setebench.calibration import MEMORY, Levels
from setebench.experiments.calibrate import overheads, step_ticks
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.paired import RoundsParams, rounds
from setebench.results import Finding, Outcome
from setebench.scenario import PAGE_SIZE, Context, Scenario
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

from .vectors import Surplus, vector_findings, vectors_once

OVERHEAD_SAMPLES = 200
"""Empty intervals per bracket and round: their mean is good to a tick on a clock with steps of 36 ticks."""

PRECISE, PRECISE_SHARED, PRECISE_CYCLES = 0.05, 0.1, 0.5
"""Largest half width of the interval of a cache's latency that is `measured`, else it is a bound: relative (private,
shared caches) or in cycles, if more. Shared caches vary more; but a third either way could span two levels."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the clock (step, bracket overheads, cycles per tick), then the latencies of every level."""
    context.progress("clock")
    step = step_ticks(context)
    levels = find_levels(context)
    region = working_memory(context)
    brackets: list[dict[str, float]] = []
    vectors: list[Surplus] = []
    try:
        for number in rounds(context, RoundsParams(apart_seconds=0.0)):
            context.progress(f"brackets and vector loads, round {number + 1}")
            brackets.append(overheads(context, OVERHEAD_SAMPLES))
            vectors.append(vectors_once(context, region))
    finally:
        context.machine.release(region)
    how = f"{context.evidence.get('rounds', {}).get('rounds', 0)} rounds"  # the evidence has their time span
    yield decide.chosen("clock.step", round(step, 3), "ticks", "largest period that all elapsed times share")
    for bracket in context.machine.facts.brackets:
        overhead = quantile_of_rounds([each[bracket] for each in brackets], MIDDLE)
        yield decide.measured(f"clock.overhead.{bracket}", overhead, "ticks", f"empty interval, {how}")
    if pace := levels.pace:
        method = "references of the sweep, range of its working sets"
        yield decide.measured("clock.cycles_per_tick", pace, "cycles/tick", method)
        context.evidence["cycles"] = {"cycles_per_ns": pace.value * context.machine.facts.ticks_per_second / 1e9}
    yield from _findings(levels, vectors, how)


def _findings(levels: Levels, vectors: list[Surplus], how: str) -> Iterator[Finding]:
    """Yield for each level the latencies of single loads, of chains, the reported one, in ns, and of vector loads."""
    for name in (*levels.caches, MEMORY):
        chased, in_ns = levels.latency[name], levels.ns[name]
        chains = "chases over flushed lines" if name == MEMORY else "chains of dependent loads"
        yield _measured(f"latency.{name}.sete", levels.sete[name], "cycles", f"dithered single loads, {how}")
        yield _measured(f"latency.{name}.chase", chased, "cycles", f"{chains}, {how}")
        agreed, shared = _measured(f"latency.{name}", chased, "cycles", f"{chains}, {how}"), levels.shared(name)
        if name != MEMORY and agreed.outcome is Outcome.MEASURED:
            precise = PRECISE_SHARED if shared else PRECISE
            agreed = decide.as_precise(agreed, max(precise * chased.value, PRECISE_CYCLES))
        yield agreed
        if shared:
            yield _measured(f"latency.{name}.ns", in_ns, "ns", f"the same samples, by the counter's rate, {how}")
        yield from vector_findings(name, agreed, vectors)


def _measured(parameter: str, value: Interval, unit: str, method: str) -> Finding:
    """Return a latency and its interval, unresolved where too few samples were undisturbed or rounds disagree."""
    if not np.isfinite(value.value):
        return decide.unresolved(parameter, unit, "too few undisturbed samples; run again on a quieter machine", method)
    if value.low <= 0:
        why = f"rounds differ too much, about {value.value:.4g} {unit}: lines were now in one level, now in another"
        return decide.unresolved(parameter, unit, why, method)
    return decide.measured(parameter, value, unit, method, "sweep")


def plot(document: dict[str, Any]) -> Any:
    """Return a matplotlib figure of cycles per load over the working set's size, with the capacity of each level."""
    from setebench.report.plots.plot import sweep_figure  # matplotlib is only loaded for a plot

    return sweep_figure(document)


SCENARIO = Scenario(
    name="latency",
    summary="cycles per load from each level of the memory hierarchy, two ways side by side",
    answer=answer,
    parameters=("clock.", "latency.l", "latency.memory"),
    options=(PAGE_SIZE,),
    plot=plot,
    order=10,
    needs=("clock", "levels"),
)

"""Memory latency under load, in nanoseconds: a pointer chase while other threads read memory at a set rate.

This is the method of Helm and Taura 2019, 4.3.1; `chase` measures one load point.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from setebench.errors import UsageError
from setebench.experiments.paired import RoundsParams
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import choose_cpus
from setebench.experiments.streams.nodes import matrix
from setebench.report.plots.plot import loaded_latency_figure
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.rounds import MIDDLE, quantile_of_rounds, rate_of_rounds
from setebench.stats.saturation import Load, knee_bandwidth, saturated
from setebench.stats.saturation import Params as CurveParams

from .chase import PARAMS, LoadedChase, Reading, Step

CURVE = CurveParams()

EVIDENCE = "loaded_latency"
UNITS = {"at_peak": "ns", "reached_bandwidth": "GB/s", "peak_bandwidth": "GB/s", "knee_bandwidth": "GB/s"}
IDLE = Step(0, 0)


@dataclass
class Curve:
    """Latency and rate of all rounds, by load point (`Step`) in the order in which they are measured."""

    points: dict[Step, list[Reading]] = field(default_factory=dict)

    @property
    def idle(self) -> Interval:
        """Latency without load in nanoseconds, with its interval."""
        return _latency(self.points[IDLE])

    def loads(self) -> dict[Load, list[Reading]]:
        """Return the load points that enough rounds measured, with median bandwidth and latency, and their readings."""
        found = {}
        for step, rounds in self.points.items():
            lasted = [each for each in rounds if np.isfinite(each.ns)]
            if step != IDLE and len(lasted) >= PARAMS.least_rounds:
                rate, ns = np.median(lasted, axis=0)[::-1].tolist()
                found[Load(step.threads, step.delay, rate, ns)] = lasted
        return found


def answer(context: Context) -> Iterator[Finding]:
    """Yield the latency without load, the highest bandwidth that was reached and the latency there; then the bandwidth
    at which latency begins to rise (the knee), and the peak bandwidth where memory was seen to be saturated."""
    loaders = _loaders(context, context.machine.facts.cpus)
    curve = _in_rounds(context, loaders, _steps(context, len(loaders)))
    names = ("threads", "no_operations", "gb_per_s", "latency_ns")
    points = [dict(zip(names, load, strict=True)) for load in curve.loads()]
    context.evidence[EVIDENCE] = {"idle_ns": curve.idle.value, "points": points}
    yield from _findings(curve, len(loaders))
    yield from matrix(context, _of_nodes, f"{EVIDENCE}.idle", "ns")
    for gone in ("prefetchers_off", "mix_3_1", "mix_2_2"):
        yield decide.unavailable(f"{EVIDENCE}.{gone}.at_peak", "ns", "not measured since 0.2")


def _of_nodes(context: Context, cpus: tuple[int, ...], parts: int) -> Iterator[Finding]:
    """Yield the latency without load and at full load by these CPUs, in one cell of the matrix of memory nodes."""
    loaders = _loaders(context, cpus)
    curve = _in_rounds(context, loaders, [Step(len(loaders), 0)] if loaders else [], parts)
    yield from islice(_findings(curve, len(loaders)), 3)


def _in_rounds(context: Context, loaders: tuple[int, ...], steps: list[Step], parts: int = 1) -> Curve:
    """Measure the latency without load and at the load points `steps`, each once per round, in order of importance, in
    one of `parts` equal shares of the budget. Points for which the first round leaves no time are left out."""
    curve, budget = Curve(), Budget(context.machine.facts, PARAMS.seconds, parts)
    with closing(LoadedChase(context, loaders)) as chase:
        for number in budget.rounds(context, PARAMS.fewest_rounds, RoundsParams()):
            for step in list(curve.points) or [IDLE, *steps]:
                spent = budget.left < PARAMS.seconds * (1 - 1 / PARAMS.fewest_rounds)
                if not number and spent and len(curve.points) > PARAMS.fewest_points:
                    break
                what = f"{step.threads} loading, {step.delay} no-operations between"
                context.progress(f"round {number + 1}: {what}")
                curve.points.setdefault(step, []).append(chase.measure(step, budget))
    return curve


def _loaders(context: Context, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of these CPUs generate load: those of other cores than the chase's. Threads of the chase's core come
    last, and only if the user wants so many, as they slow the chase down without using memory."""
    facts = context.machine.facts
    ordered = [cpu for cpu in choose_cpus(facts, context.own_cpu, len(facts.cpus)) if cpu in cpus]
    own = next((group for group in facts.siblings if ordered[0] in group), ())
    other_cores = [cpu for cpu in ordered[1:] if cpu not in own]
    threads = context.options.get("threads")
    if threads is None:
        return tuple(other_cores[: PARAMS.threads])
    if not 0 <= threads < len(facts.cpus):
        raise UsageError(
            f"{threads} loading threads beside the chase don't fit: {facts.name} has {len(facts.cpus)} CPUs"
        )
    return tuple([*other_cores, *(cpu for cpu in ordered[1:] if cpu in own)][:threads])


def _steps(context: Context, most: int) -> list[Step]:
    """Return the load points: every delay with all threads, and full load with fewer threads, among others with one
    thread less: memory is saturated if the last thread adds no bandwidth."""
    if not most:
        return []
    fewer = sorted(count for count in {1, most // 4, most // 2, most - 1} if 0 < count < most)
    first = PARAMS.fast_delays
    delays = first if context.fast else (*first, *(each for each in PARAMS.delays if each not in first))
    return [Step(threads, 0) for threads in fewer] + [Step(most, delay) for delay in delays]


# -- findings ------------------------------------------------------------------------------------


def _latency(rounds: list[Reading]) -> Interval:
    """Return the median latency of rounds (ns) and its interval, as other programs' use of memory drifts both ways."""
    latencies = np.array([each.ns for each in rounds])
    room = PARAMS.run_to_run * float(np.nanmedian(latencies))
    return quantile_of_rounds(latencies, MIDDLE, (room, room))


def _findings(curve: Curve, loaders: int) -> Iterator[Finding]:
    """Yield the latency without load, latency and bandwidth at the highest load, and the peak and the knee."""
    loads, idle, prefix = curve.loads(), curve.idle.value, EVIDENCE
    how = f"{len(curve.points[IDLE])} rounds of chases over flushed lines"
    unloaded = decide.measured(f"{prefix}.idle", curve.idle, "ns", how, EVIDENCE)
    yield decide.as_precise(unloaded, PARAMS.precise * idle)
    if not loads:
        alone = "one CPU alone can't load memory and chase pointers"
        why, reason = (
            (decide.unresolved, "no load lasted as long as a chase") if loaders else (decide.unavailable, alone)
        )
        yield from (why(f"{prefix}.{name}", unit, reason) for name, unit in UNITS.items())
        return
    rates = {load: rate_of_rounds(np.array([each.gigabytes for each in rounds])) for load, rounds in loads.items()}
    most = max(rates, key=lambda load: rates[load].value)
    how = f"{most.threads} loading, {most.delay} no-operations between four lines"
    # several loads may be the highest one, within their intervals: the interval covers the latencies of all these
    near = [_latency(loads[load]) for load in loads if rates[load].value >= rates[most].low]
    at_peak = Interval(_latency(loads[most]).value, min(each.low for each in near), max(each.high for each in near))
    yield decide.measured(f"{prefix}.at_peak", at_peak, "ns", how, EVIDENCE)
    yield decide.measured(f"{prefix}.reached_bandwidth", rates[most], "GB/s", how, EVIDENCE)
    name = f"{prefix}.peak_bandwidth"
    if saturated(list(loads), idle, CURVE):
        seen = "one thread more brings no more, and latency has passed the knee"
        yield decide.measured(name, rates[most], "GB/s", seen, EVIDENCE)
    else:
        reason = (
            f"no saturation was seen: {most.threads} loading reached {most.bandwidth:.3g} GB/s, where latency is "
            f"{most.latency / idle:.2f} times the idle one; more CPUs might bring more"
        )
        yield decide.unresolved(name, "GB/s", reason)
    yield _knee(f"{prefix}.knee_bandwidth", list(loads), idle)


def _knee(name: str, loads: list[Load], idle: float) -> Finding:
    knee, method = knee_bandwidth(loads, idle, CURVE), f"where latency passes {CURVE.knee} times the idle one"
    if knee is not None:
        return decide.chosen(name, knee, "GB/s", method, EVIDENCE)
    most, why = max(load.bandwidth for load in loads), "latency stayed below at every load"
    return decide.backed(decide.at_least(name, most, "GB/s", why, method), EVIDENCE)


SCENARIO = Scenario(
    name="loaded-latency",
    summary="how memory latency grows with load, by a pointer chase beside threads that read and write",
    answer=answer,
    parameters=("loaded_latency.",),
    options=(
        Option(name="threads", help="Most loading threads. Default: all CPUs but those of the chase's core.", type=int),
        PAGE_SIZE,
    ),
    plot=loaded_latency_figure,
    order=80,
    needs=("clock",),
)

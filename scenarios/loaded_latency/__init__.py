"""How memory latency grows with load: one pointer chase beside threads that read memory at a settable rate.

Helm and Taura 2019, 4.3.1, with reads alone and with mixes of reads and writes; `chase` measures one load
point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UsageError
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import choose_cpus
from setebench.machine import SwitchesPrefetchers
from setebench.report.plots.loaded_latency import loaded_latency_figure
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.bandwidth.saturation import Load, knee_bandwidth, saturated
from setebench.stats.bandwidth.saturation import Params as CurveParams
from setebench.stats.drift import over_time
from setebench.stats.estimate import Interval

from .chase import NOTHING, LoadedChase, Reading
from .params import PARAMS
from .switched import Traversal, had_effect

CURVE = CurveParams()

MIXES = {"4:0": 0, "3:1": 1, "2:2": 2}
"""Of four lines how many are read and how many written, and the number of those written. A written line is read first,
as a store fetches it, and moves twice."""


class Step(NamedTuple):
    """A load point: loading threads, no-operations between four lines, how many of these are written."""

    threads: int
    delay: int
    writes: int


Curve = dict[Step, Reading]

OFF = "loaded_latency.prefetchers_off"
EVIDENCE = "loaded_latency"
UNITS = {
    "idle": "ns",
    "at_peak": "ns",
    "reached_bandwidth": "GB/s",
    "peak_bandwidth": "GB/s",
    "knee_bandwidth": "GB/s",
}
NO_EFFECT = (
    "prefetchers were switched off and read as off, but a traversal of neighbouring lines was not slower: a hypervisor "
    "may take such writes without doing them"
)


@dataclass(frozen=True)
class Unprefetched:
    """The curve of reads while all prefetchers were off, or why there is none. `believed`: it had an effect."""

    reason: str = ""
    believed: bool = False
    idle: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    curve: Curve = field(default_factory=dict)


def answer(context: Context) -> Iterator[Finding]:
    """Yield idle latency, and for every mix the load reached, the latency there, and knee and peak where seen."""
    loaders = _loaders(context)
    asked = context.options.get("mix")
    mixes = {mix: MIXES[mix] for mix in asked or MIXES}
    steps = [step for writes in mixes.values() for step in _steps(context, len(loaders), writes)]
    chase = LoadedChase(context, loaders)
    try:
        idle, curve = _in_rounds(context, chase, loaders, steps)
        off = _without_prefetchers(context, chase, loaders)
    finally:
        chase.close()
    curves = {mix: {step: one for step, one in curve.items() if step.writes == writes} for mix, writes in mixes.items()}
    if not asked:  # what there was no time for is left out, but for reads alone
        curves = {mix: own for mix, own in curves.items() if own or not mixes[mix]}
    loads = {mix: _loads(curve) for mix, curve in curves.items()}
    context.evidence["loaded_latency"] = _evidence(idle, loads, curves, off)
    estimate = _over_run(idle)
    how = f"{len(idle)} rounds of chains of flushed lines, long ones less short ones"
    yield _idle("loaded_latency", estimate, how)
    for mix, curve in curves.items():
        yield from _findings(_prefix(mix), estimate.value, loads[mix], curve, len(loaders))
    if off is not None:
        yield from _findings_off(off, len(loaders))


def _in_rounds(
    context: Context, chase: LoadedChase, loaders: tuple[int, ...], steps: list[Step], how: str = ""
) -> tuple[NDArray[np.float64], Curve]:
    """Latency without load before and after every round, in ns, and the load points, those of most worth first: each
    once in every round, so that what else uses memory for a while is in some figures of all points and not in all
    figures of some. The first round says what there is time for: points beyond its part of the budget are left out."""
    idle: list[NDArray[np.float64]] = []
    curve: Curve = {}
    budget = chase.budget = Budget(context.machine.facts, PARAMS.seconds)
    for number in budget.rounds(PARAMS.fewest_rounds, PARAMS.rounds):
        context.progress(f"round {number + 1}: memory latency without load{how}")
        chase.lay_out()
        idle.append(chase.measure((), 0).latency_ns)
        for step in list(curve) or steps:
            spent = budget.left < PARAMS.seconds * (1 - 1 / PARAMS.fewest_rounds)
            if not number and spent and len(curve) >= PARAMS.fewest_points and not context.options.get("mix"):
                break
            what = f"{step.threads} loading, {step.writes} of 4 lines written, {step.delay} no-operations between{how}"
            context.progress(f"round {number + 1}: {what}")
            found = chase.measure(loaders[: step.threads], step.delay, step.writes)
            curve[step] = curve.get(step, NOTHING).then(found)
    idle.append(chase.measure((), 0).latency_ns)
    return np.concatenate(idle), curve


def _without_prefetchers(context: Context, chase: LoadedChase, loaders: tuple[int, ...]) -> Unprefetched | None:
    """The curve of reads with all prefetchers of all CPUs concerned off; None where the machine has no switches."""
    machine = context.machine
    try:
        names = (
            [each.name for each in machine.prefetcher_switches()] if isinstance(machine, SwitchesPrefetchers) else []
        )
        if not isinstance(machine, SwitchesPrefetchers) or not names:
            return None
        cpus = (chase.cpu, *loaders)
        with closing(Traversal(context, chase.cpu)) as traversal:
            before = traversal.ticks()
            context.progress(f"prefetchers of CPUs {', '.join(map(str, cpus))} are switched off for a while")
            with machine.prefetchers_off(names, cpus):
                off = traversal.ticks()
                idle, curve = _in_rounds(context, chase, loaders, _steps(context, len(loaders), 0), ", prefetchers off")
            context.progress("prefetchers are as they were")
            return Unprefetched("", had_effect(before, off, traversal.ticks()), idle, curve)
    except SetebenchError as error:  # also where they could not be switched on again: the first curve stays
        return Unprefetched(str(error))


def _findings_off(off: Unprefetched, loaders: int) -> Iterator[Finding]:
    if off.reason:
        yield decide.unavailable(f"{OFF}.at_peak", "ns", off.reason)
        return
    if not off.believed:
        for name in UNITS:
            yield decide.unresolved(f"{OFF}.{name}", UNITS[name], NO_EFFECT)
        return
    estimate = _over_run(off.idle)
    yield _idle(OFF, estimate, f"{len(off.idle)} rounds, prefetchers off")
    yield from _findings(OFF, estimate.value, _loads(off.curve), off.curve, loaders)


def _prefix(mix: str) -> str:
    return "loaded_latency" if not MIXES[mix] else f"loaded_latency.mix_{mix.replace(':', '_')}"


def _loads(curve: Curve) -> list[Load]:
    """The load points that lasted."""
    return [
        Load(step.threads, step.delay, float(np.median(one.gigabytes)), float(np.median(one.latency_ns)))
        for step, one in curve.items()
        if len(one.latency_ns) >= PARAMS.least_rounds
    ]


def _reading(curve: Curve, load: Load) -> Reading:
    """What was read at a load point."""
    return next(one for step, one in curve.items() if (step.threads, step.delay) == (load.threads, load.delay))


def _loaders(context: Context) -> tuple[int, ...]:
    """CPUs that may make load: those of other cores first. Those that share the chase's core come last, as they slow it
    down without any memory."""
    facts = context.machine.facts
    ordered = choose_cpus(facts, context.cpu, len(facts.cpus))
    own = next((group for group in facts.siblings if ordered[0] in group), ())
    apart = [cpu for cpu in ordered[1:] if cpu not in own]
    asked = context.options.get("threads")
    if asked is None:
        return tuple(apart[: PARAMS.fast_threads if context.fast else PARAMS.threads])
    if not 0 <= asked < len(facts.cpus):
        raise UsageError(f"{asked} loading threads beside the chase don't fit: {facts.name} has {len(facts.cpus)} CPUs")
    return tuple([*apart, *(cpu for cpu in ordered[1:] if cpu in own)][:asked])


def _steps(context: Context, most: int, writes: int) -> list[Step]:
    """Every delay for all threads (fewer of them for mixes), and full load for fewer threads. One thread less is always
    there: that the last one brings nothing is what shows saturation."""
    if not most:
        return []
    fewer = sorted(count for count in {1, most // 4, most // 2, most - 1} if 0 < count < most)
    first = PARAMS.fast_delays
    delays = first if context.fast or writes else (*first, *(each for each in PARAMS.delays if each not in first))
    return [Step(threads, 0, writes) for threads in fewer] + [Step(most, delay, writes) for delay in delays]


# -- findings ------------------------------------------------------------------------------------


def _findings(prefix: str, idle: float, loads: list[Load], curve: Curve, loaders: int) -> Iterator[Finding]:
    if not loads:
        reason = (
            "one CPU alone can't load memory and chase pointers" if not loaders else "no load lasted as long as a chase"
        )
        why = decide.unresolved if loaders else decide.unavailable
        yield from (why(f"{prefix}.{name}", unit, reason) for name, unit in UNITS.items() if name != "idle")
        return
    most = max(loads, key=lambda load: load.bandwidth)
    at_most = _reading(curve, most)
    how = f"{most.threads} loading, {most.delay} no-operations between four lines"
    yield _measured(f"{prefix}.at_peak", _latency_at_peak(at_most, map(partial(_reading, curve), loads)), "ns", how)
    yield _measured(f"{prefix}.reached_bandwidth", _over_run(at_most.gigabytes), "GB/s", how)
    yield _peak(prefix, loads, at_most, most, idle)
    yield _knee(prefix, loads, most, idle)


def _over_run(rounds: NDArray[np.float64]) -> Interval:
    """Of what rounds of a run gave, with room for what other users of the memory do between runs."""
    found = over_time(rounds, shared=True).doubted(PARAMS.run_to_run / 2)
    return Interval(found.value, found.low, found.high)


def _latency_at_peak(at_most: Reading, readings: Iterable[Reading]) -> Interval:
    """Latency beside the highest load. Where others may be as high, chance decides which is, and another run may pick
    one of those: the interval holds theirs, too."""
    found, least = _over_run(at_most.latency_ns), _over_run(at_most.gigabytes).low
    as_high = [one for one in readings if _over_run(one.gigabytes).high >= least]
    own = [_over_run(one.latency_ns) for one in as_high]
    return Interval(found.value, min(each.low for each in own), max(each.high for each in own))


def _peak(prefix: str, loads: list[Load], at_most: Reading, most: Load, idle: float) -> Finding:
    if not saturated(loads, idle, CURVE):
        reason = (
            f"no saturation was seen: {most.threads} loading reached {most.bandwidth:.3g} GB/s, where latency is "
            f"{most.latency / idle:.2f} times the idle one; more CPUs might bring more"
        )
        return decide.unresolved(f"{prefix}.peak_bandwidth", "GB/s", reason)
    how = "one thread more brings no more, and latency has passed the knee"
    return _measured(f"{prefix}.peak_bandwidth", _over_run(at_most.gigabytes), "GB/s", how)


def _knee(prefix: str, loads: list[Load], most: Load, idle: float) -> Finding:
    name, knee = f"{prefix}.knee_bandwidth", knee_bandwidth(loads, idle, CURVE)
    method = f"where latency passes {CURVE.knee} times the idle one"
    if knee is not None:
        return decide.chosen(name, knee, "GB/s", method, EVIDENCE)
    why = "latency stayed below at every load"
    return decide.backed(decide.at_least(name, most.bandwidth, "GB/s", why, method), EVIDENCE)


def _idle(prefix: str, estimate: Interval, how: str) -> Finding:
    found = _measured(f"{prefix}.idle", estimate, "ns", how)
    return decide.as_precise(found, PARAMS.precise * estimate.value)


def _measured(parameter: str, estimate: Interval, unit: str, how: str) -> Finding:
    return decide.measured(parameter, estimate, unit, how, EVIDENCE)


def _evidence(
    idle: NDArray[np.float64], loads: dict[str, list[Load]], curves: dict[str, Curve], off: Unprefetched | None
) -> dict[str, Any]:
    points = [_point(mix, load, curves[mix]) for mix, own in loads.items() for load in own]
    if off is not None and off.believed:
        points += [_point("4:0", load, off.curve) | {"prefetchers": False} for load in _loads(off.curve)]
    short = [
        f"{mix}: {step.threads} loading, {step.delay}"
        for mix, curve in curves.items()
        for step, one in curve.items()
        if len(one.latency_ns) < PARAMS.least_rounds
    ]
    return {"idle_ns": float(idle.mean()), "idle_rounds_ns": idle.tolist(), "points": points, "too_short": short}


def _point(mix: str, load: Load, curve: Curve) -> dict[str, Any]:
    reading = _reading(curve, load)
    return {
        "rounds_ns": reading.latency_ns.tolist(),
        "rounds_gb_per_s": reading.gigabytes.tolist(),
        "mix": mix,
        "threads": load.threads,
        "no_operations": load.delay,
        "gb_per_s": load.bandwidth,
        "latency_ns": load.latency,
    }


SCENARIO = Scenario(
    name="loaded-latency",
    summary="how memory latency grows with load, by a pointer chase beside threads that read and write",
    answer=answer,
    parameters=("loaded_latency.",),
    options=(
        Option(name="threads", help="Most loading threads. Default: all CPUs but those of the chase's core.", type=int),
        Option(
            name="mix",
            help="Of four lines, how many are read and written; may be repeated. Default: what the budget allows.",
            choices=tuple(MIXES),
            multiple=True,
        ),
    ),
    plot=loaded_latency_figure,
    order=80,
    seconds=12.0,
)

"""How memory latency grows with load: one pointer chase beside threads that read memory at a settable rate.

Helm and Taura 2019, 4.3.1, with reads alone and with mixes of reads and writes; `chase` measures one load
point.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setebench.errors import SetebenchError, UsageError
from setebench.experiments.lines.placing import flushed
from setebench.experiments.paired import RoundsParams
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import choose_cpus
from setebench.machine import SwitchesPrefetchers
from setebench.probe import Base
from setebench.report.plots.loaded_latency import loaded_latency_figure
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.bandwidth.rates import rate_of_rounds
from setebench.stats.bandwidth.saturation import Load, knee_bandwidth, saturated
from setebench.stats.bandwidth.saturation import Params as CurveParams
from setebench.stats.estimate import Interval
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

from .chase import LoadedChase, Reading, Step
from .params import PARAMS

CURVE = CurveParams()

MIXES = {"4:0": 0, "3:1": 1, "2:2": 2}
"""Of four lines how many are read and how many written, and the number of those written. A written line is read first,
as a store fetches it, and moves twice."""

EVIDENCE, OFF, LINES = "loaded_latency", "loaded_latency.prefetchers_off", Base("lines")
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
IDLE = Step(0, 0, 0)


@dataclass
class Curve:
    """Rounds of every load point, in the order of their worth."""

    points: dict[Step, list[Reading]] = field(default_factory=dict)

    @property
    def idle(self) -> Interval:
        """Latency without load, ns."""
        return _latency(self.points[IDLE])

    def loads(self, writes: int) -> dict[Load, list[Reading]]:
        """The load points with so many lines written that lasted, each with those rounds."""
        found = {}
        for step, rounds in self.points.items():
            lasted = [each for each in rounds if np.isfinite(each.ns)]
            if step != IDLE and step.writes == writes and len(lasted) >= PARAMS.least_rounds:
                rate, ns = np.median(lasted, axis=0)[::-1].tolist()
                found[Load(step.threads, step.delay, rate, ns)] = lasted
        return found


def answer(context: Context) -> Iterator[Finding]:
    """Yield idle latency, and for every mix the load reached, the latency there, and knee and peak where seen."""
    loaders, asked = _loaders(context), context.options.get("mix")
    mixes = {mix: MIXES[mix] for mix in asked or MIXES}
    steps = [step for writes in mixes.values() for step in _steps(context, len(loaders), writes)]
    with closing(LoadedChase(context, loaders)) as chase:
        curve = _in_rounds(context, chase, steps)
        off = _without_prefetchers(context, chase, loaders)
    evidence = [_point(mix, *load) for mix, writes in mixes.items() for load in curve.loads(writes).items()]
    if isinstance(off, Curve):
        evidence += [_point("4:0", *load) | {"prefetchers": False} for load in off.loads(0).items()]
    idle_rounds = [each.ns for each in curve.points[IDLE]]
    context.evidence[EVIDENCE] = {"idle_ns": curve.idle.value, "idle_rounds_ns": idle_rounds, "points": evidence}
    yield _idle(EVIDENCE, curve)
    for mix, writes in mixes.items():
        # what there was no time for is left out, but for reads alone
        if asked or not writes or any(step.writes == writes for step in curve.points):
            prefix = EVIDENCE if not writes else f"{EVIDENCE}.mix_{mix.replace(':', '_')}"
            yield from _findings(prefix, curve, writes, len(loaders))
    if isinstance(off, Curve):
        yield _idle(OFF, off)
        yield from _findings(OFF, off, 0, len(loaders))
    elif off == NO_EFFECT:
        yield from (decide.unresolved(f"{OFF}.{name}", unit, NO_EFFECT) for name, unit in UNITS.items())
    elif off:
        yield decide.unavailable(f"{OFF}.at_peak", "ns", off)


def _in_rounds(context: Context, chase: LoadedChase, steps: list[Step], how: str = "") -> Curve:
    """Latency without load and the load points, those of most worth first, each once in every round. The first round
    says what there is time for: points beyond its part of the budget are left out."""
    curve, budget = Curve(), Budget(context.machine.facts, PARAMS.seconds)
    for number in budget.rounds(context, PARAMS.fewest_rounds, RoundsParams()):
        for step in list(curve.points) or [IDLE, *steps]:
            spent = budget.left < PARAMS.seconds * (1 - 1 / PARAMS.fewest_rounds)
            if not number and spent and len(curve.points) > PARAMS.fewest_points and not context.options.get("mix"):
                break
            what = f"{step.threads} loading, {step.writes} of 4 lines written, {step.delay} no-operations between{how}"
            context.progress(f"round {number + 1}: {what}")
            curve.points.setdefault(step, []).append(chase.measure(step, budget))
    return curve


def _without_prefetchers(context: Context, chase: LoadedChase, loaders: tuple[int, ...]) -> Curve | str | None:
    """The curve of reads with all prefetchers of all CPUs concerned off, or why there is none; None where the machine
    has no switches."""
    machine = context.machine
    try:
        if not isinstance(machine, SwitchesPrefetchers) or not (switches := machine.prefetcher_switches()):
            return None
        cpus, before = (context.own_cpu, *loaders), _traversal_ticks(context)
        context.progress(f"prefetchers of CPUs {', '.join(map(str, cpus))} are switched off for a while")
        with machine.prefetchers_off([each.name for each in switches], cpus):
            without = _traversal_ticks(context)
            curve = _in_rounds(context, chase, _steps(context, len(loaders), 0), ", prefetchers off")
        context.progress("prefetchers are as they were")
        return curve if without > PARAMS.slower * max(before, _traversal_ticks(context)) else NO_EFFECT
    except SetebenchError as error:  # also where they could not be switched on again: the first curve stays
        return str(error)


def _traversal_ticks(context: Context) -> float:
    """Median ticks of a chase along neighbouring lines that were flushed: without prefetchers it takes as long as
    memory, with them a fraction of that."""
    line, count = context.machine.facts.line_size, PARAMS.traversed
    with context.memory(count * line) as region:
        context.machine.link(region, region.address + np.arange(count, dtype=np.int64) * line)
        probe = flushed(LINES, count * line, line).fence().start().chase(LINES, count).stop()
        places = {LINES: np.full(PARAMS.traversals + 1, region.address)}
        return float(np.median(context.machine.run(probe, places, cpu=context.cpu, warmup=1)))


def _loaders(context: Context) -> tuple[int, ...]:
    """CPUs that may make load: those of other cores first. Those that share the chase's core come last, as they slow it
    down without any memory."""
    facts = context.machine.facts
    ordered = choose_cpus(facts, context.own_cpu, len(facts.cpus))
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


def _latency(rounds: list[Reading]) -> Interval:
    """The middle of rounds: load of others makes latency longer, and what neighbours leave of memory drifts both
    ways."""
    known = np.array([each.ns for each in rounds])
    room = PARAMS.placing * float(np.nanmedian(known))
    return quantile_of_rounds(known, MIDDLE, (room, room))


def _idle(prefix: str, curve: Curve) -> Finding:
    how = f"{len(curve.points[IDLE])} rounds of chases over flushed lines"
    found = decide.measured(f"{prefix}.idle", curve.idle, "ns", how, EVIDENCE)
    return decide.as_precise(found, PARAMS.precise * curve.idle.value)


def _findings(prefix: str, curve: Curve, writes: int, loaders: int) -> Iterator[Finding]:
    loads, idle = curve.loads(writes), curve.idle.value
    if not loads:
        alone = "one CPU alone can't load memory and chase pointers"
        why, reason = (
            (decide.unresolved, "no load lasted as long as a chase") if loaders else (decide.unavailable, alone)
        )
        yield from (why(f"{prefix}.{name}", unit, reason) for name, unit in UNITS.items() if name != "idle")
        return
    rates = {load: rate_of_rounds(np.array([each.gigabytes for each in rounds])) for load, rounds in loads.items()}
    most = max(rates, key=lambda load: rates[load].value)
    how = f"{most.threads} loading, {most.delay} no-operations between four lines"
    # chance decides which of the loads that may be as high is the highest: the interval holds latency beside each
    beside = [_latency(loads[load]) for load in loads if rates[load].value >= rates[most].low]
    at_peak = Interval(_latency(loads[most]).value, min(each.low for each in beside), max(each.high for each in beside))
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


def _point(mix: str, load: Load, rounds: list[Reading]) -> dict[str, Any]:
    return {
        "rounds_ns": [each.ns for each in rounds],
        "rounds_gb_per_s": [each.gigabytes for each in rounds],
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
    needs=("clock",),
)

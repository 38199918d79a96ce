"""Lines of other cores, both threads of a core, and how far thread starts lie apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from setebench.calibration import MEMORY
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.paired import rounds
from setebench.machine import Ticks, run_on
from setebench.probe import REFERENCE_CYCLES, Base, Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import Paired, located
from setebench.stats.rounds import LATENCY, quantile_of_rounds

from .transfers import PARAMS, Question, Read, read_all

STARTS = 40
"""How often threads are started for the spread of their starts."""

SMT_STEPS, SMT_LINES, SMT_SAMPLES = 2048, 16, 16
"""Loads that both threads of a core chase at once, lines of each, and chases in a round."""


def other_cores(context: Context) -> Iterator[Finding]:
    """Yield what a read of another core's line costs, by pair and state."""
    found = read_all(context, bool(context.options.get("all_pairs")))
    evidence = context.evidence["core_to_core"] = {state: [] for state in ("modified", "exclusive", "shared")}
    for question, reads in found.items():
        finding = transfer_finding(question, reads, context.calibration.level_cycles)
        if isinstance(finding.value, float):
            evidence[question.state].append([question.reader, question.owner, round(finding.value, 2)])
        yield finding
    context.evidence["core_to_core_rounds"] = {
        f"{question.reader}-{question.owner}.{question.state}": [[*each] for each in reads if np.isfinite(each.cycles)]
        for question, reads in found.items()
    }


def transfer_finding(question: Question, reads: Sequence[Read], cycles: dict[str, float]) -> Finding:
    """Cycles of a read in the rounds, if it was the other core that answered; `cycles` by level."""
    parameter = f"latency.core_to_core.{question.reader}-{question.owner}.{question.state}"
    known = [each for each in reads if np.isfinite(each.cycles)]
    together = float(np.mean([each.one_core for each in reads]))
    if not known:
        reason = "needs a third core that is further away, or the second cache's size and memory to outgrow it with"
        if together:
            reason = "in too few samples the two CPUs were on two cores" + (
                "; the reader's own second cache may still have held the line" if question.state == "shared" else ""
            )
        return decide.unresolved(parameter, "cycles", reason)
    value, ns = (quantile_of_rounds(each, LATENCY) for each in list(zip(*known, strict=True))[:2])
    lost = question.state == "shared" and question.third is None
    if lost and not value.narrow(PARAMS.steady, PARAMS.steady_cycles):
        seen = sorted(each.cycles for each in known)
        reason = (
            f"rounds took from {seen[0]:.0f} to {seen[-1]:.0f} cycles: the copy that the reader lost was now in one "
        )
        return decide.unresolved(parameter, "cycles", reason + "level, now in another")
    if lost and "l3" in cycles and cycles[MEMORY] / PARAMS.own < value.value < PARAMS.own * cycles[MEMORY]:
        reason = "no cache held the line any more after the reader had lost its copy, it seems: memory answers as late"
        return decide.unresolved(parameter, "cycles", reason)
    how = f"chases over lines of another core, {len(known)} rounds, {ns.value:.4g} ns [{ns.low:.4g}, {ns.high:.4g}]"
    how += f"; both CPUs shared one core in {together:.0%} of the time" if together else ""
    return decide.measured(parameter, value._replace(low=max(value.low, 0.0)), "cycles", how, "core_to_core")


def sibling_threads(context: Context) -> Iterator[Finding]:
    """Yield cycles per load from the first cache while another thread of the core does the same."""
    cpus = next((each for each in context.machine.facts.siblings if len(each) > 1), None)
    if cpus is None:
        return
    with context.memory(2 * SMT_LINES * 4096) as region:
        probes, places = {}, {}
        for number, cpu in enumerate(sorted(cpus)[:2]):
            lines = region.address + number * region.size // 2 + np.arange(SMT_LINES) * region.line_size
            ring, base = context.fresh_rng(7).permutation(lines), Base(f"ring{number}")
            context.machine.link(region, ring)
            places[base] = np.repeat(ring[:1], SMT_SAMPLES + 3)
            probes[cpu] = Probe().chase(base, SMT_LINES).fence().barrier().paired(Probe().chase(base, SMT_STEPS))
        found = []
        for _ in rounds(context):
            ticks = run_on(context.machine, probes, places, warmup=3)
            found.append(float(np.mean([_smt_cycles(context, each) for each in ticks.values()])))
    how = "chases in two threads of a core at once"
    yield decide.measured("latency.smt.l1", quantile_of_rounds(found, LATENCY), "cycles", how)


def _smt_cycles(context: Context, ticks: Ticks) -> float:
    step = step_ticks(context)
    paired = Paired(ticks=ticks, step_ticks=step, reference_cycles=REFERENCE_CYCLES, accesses=SMT_STEPS)
    return located(paired) / SMT_STEPS


def thread_starts(context: Context) -> Finding:
    """Microseconds between the first and the last thread of a joint start.

    Each thread times how long it waits at the first barrier: who waits longest came first. Differences of such waits
    need no clock that is the same on all CPUs."""
    parameter, method, cpus = "thread_start.spread", "waits at the first barrier", context.machine.facts.cpus
    if len(cpus) < 2:
        return decide.unavailable(parameter, "microseconds", "one CPU", method)
    context.progress("thread starts")
    probe, per_microsecond = Probe().start(dither=False).barrier().stop(), context.machine.facts.ticks_per_second / 1e6
    found = []
    for _ in range(STARTS):
        waits = [int(each[0, 0]) for each in context.machine.run_together(dict.fromkeys(cpus, probe), 1).values()]
        found.append((max(waits) - min(waits)) / per_microsecond)
    context.evidence["thread_start_microseconds"] = [round(each, 4) for each in sorted(found)]
    low, middle, high = np.quantile(found, (0.025, 0.5, 0.975)).tolist()
    step = 2 * step_ticks(context) / per_microsecond  # two waits are subtracted, each on a clock that moves in steps
    spread = Interval(middle, max(low - step, 0.0), high + step)
    return decide.measured(parameter, spread, "microseconds", method, "thread_start_microseconds")

"""Lines of other cores, both threads of a core, and how far thread starts lie apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.chases import Lines
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval

from .findings import PARAMS, no_sharing_finding, transfer_finding, walked_finding
from .transfers import STATES, Question, Transfers, cpu_pairs, further_cpu, smt_latency, start_spread


def other_cores(context: Context, region: Region, walk: Lines) -> Iterator[Finding]:
    pairs = cpu_pairs(context, context.options.get("pairs") == "all")
    transfers = Transfers(context, region, walk)
    evidence = context.evidence["core_to_core"] = {state: [] for state in STATES}
    exclusive: dict[tuple[int, int], float] = {}
    questions = [Question(reader, owner, state) for reader, owner in pairs for state in ("modified", "exclusive")]
    context.progress("lines that other CPUs hold")
    for question, read in zip(questions, transfers.together(questions), strict=True):
        reader, owner, state, _ = question
        evidence[state].append([reader, owner, round(read.cycles.value, 2)])
        exclusive[reader, owner] = read.cycles.value
        yield transfer_finding(f"latency.core_to_core.{reader}-{owner}.{state}", read, 0.0)
    if pairs:
        pasts = _difference_of_pasts(transfers, exclusive, context.calibration.level_cycles.get("l2", 0.0))
    for reader, owner in pairs:
        context.progress(f"lines that CPU {owner} shares, read by CPU {reader}")
        parameter, third = f"latency.core_to_core.{reader}-{owner}.shared", further_cpu(exclusive, reader, owner)
        if not transfers.can_share(third):
            yield no_sharing_finding(parameter)
            continue
        read = transfers.cycles(Question(reader, owner, "shared", third))
        evidence["shared"].append([reader, owner, round(read.cycles.value, 2)])
        walked = walked_finding(parameter, read.cycles, context.calibration.level_cycles) if third is None else None
        yield walked or transfer_finding(parameter, read, pasts)


def _difference_of_pasts(transfers: Transfers, exclusive: dict[tuple[int, int], float], second: float) -> float:
    """Cycles by which a read of a shared line differs with the line's past, held by a third core or lost by the reader;
    0 where there are no cores for both, or the reader lost nothing: its second cache, at `second` cycles, answered."""
    reader, owner = min(exclusive, key=lambda pair: exclusive[pair])
    third = further_cpu(exclusive, reader, owner)
    if third is None or not transfers.can_share(None):
        return 0.0
    held, lost = (transfers.cycles(Question(reader, owner, "shared", each)).cycles for each in (third, None))
    return 0.0 if lost.value <= PARAMS.own * second else lost.value - held.value


def sibling_threads(context: Context, region: Region) -> Iterator[Finding]:
    own = next((each for each in context.machine.facts.siblings if len(each) > 1), None)
    if own is None:
        return
    found = smt_latency(context, region, own)
    yield decide.measured("latency.smt.l1", found, "cycles", "chases in two threads of a core at once")


def thread_starts(context: Context) -> Finding:
    parameter, method = "thread_start.spread", "waits at the first barrier"
    if len(context.machine.facts.cpus) < 2:
        return decide.unavailable(parameter, "microseconds", "one CPU", method)
    context.progress("thread starts")
    spread = np.sort(start_spread(context))
    context.evidence["thread_start_microseconds"] = [round(float(each), 4) for each in spread]
    low, high = np.quantile(spread, (0.025, 0.975))
    # two waits are subtracted, each read on a clock that moves in steps
    step = 2 * step_ticks(context) / context.machine.facts.ticks_per_second * 1e6
    middle = Interval(float(np.median(spread)), max(float(low) - step, 0.0), float(high) + step)
    return decide.measured(parameter, middle, "microseconds", method, "thread_start_microseconds")

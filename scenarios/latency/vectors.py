"""How long a vector load takes until its value can be used: as an 8-byte load, and longer within two bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from setebench.experiments.chases import LINE
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import located
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

METHOD = "8-byte latency, plus what vector loads take longer in L1: fenced ones at least, a chase at most"


class VectorParams(msgspec.Struct, frozen=True, kw_only=True):
    """How vector loads are compared with 8-byte loads."""

    lines: int = 8  # of a ring that any first cache holds
    fenced: int = 48  # loads of a question, a fence behind each
    steps: int = 512  # loads of a chase
    samples: int = 24  # paired samples of each size in a round
    alike: float = 0.3  # cycles within which both bounds are one value


class VectorRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round: cycles that a fenced load and a step of a chase take longer than 8-byte ones, by size in bytes."""

    fenced: Mapping[int, float]
    chase: Mapping[int, float]


def vectors_once(context: Context, region: Region) -> VectorRound:
    """One round in L1."""
    params, line = VectorParams(), region.line_size
    lines = region.address + TLB_PAGE_BYTES + np.arange(params.lines) * line
    context.machine.link(region, lines)
    fenced, chase = {}, {}
    for size in (each for each in context.machine.facts.access_sizes if each > 8):
        loads = [_fenced(width, line, params) for width in (8, size)]
        chases = [Probe().chase(LINE, params.steps, width) for width in (8, size)]
        # the wide loads once before the first reference: they may change the core's clock
        probe = loads[1].paired(*loads, *chases)
        found = run_paired(context, probe, {LINE: np.full(params.samples, lines[0])}, accesses=params.steps, warmup=0)
        costs = [located(found, number) for number in range(found.questions)]
        fenced[size] = (costs[1] - costs[0]) / params.fenced
        chase[size] = (costs[3] - costs[2]) / params.steps
    return VectorRound(fenced=fenced, chase=chase)


def _fenced(size: int, line: int, params: VectorParams) -> Probe:
    probe = Probe()
    for number in range(params.fenced):
        probe = probe.load(LINE + number % params.lines * line, size).fence("l")
    return probe


def vector_findings(name: str, agreed: Finding, rounds: Sequence[VectorRound]) -> Iterator[Finding]:
    """Vector load to use in a vector register, of a level whose 8-byte latency is given.

    A core may call a load done when the value has arrived, cycles before an instruction of the vector unit can use it.
    A vector chase has all of that in each step, and a transfer back to an integer register: a cycle at least. So a
    fence's surplus bounds it from below and the chase's, less that cycle, from above. The way from the load unit into
    a vector register can't be timed apart from the way back: where the bounds are apart, the lower one is a bound."""
    for size in sorted(rounds[0].fenced):
        parameter = f"latency.{name}.vector{size}"
        if agreed.outcome is not Outcome.MEASURED or not isinstance(agreed.value, float):
            why = "the 8-byte latency that it is compared with is no value"
            yield decide.unresolved(parameter, "cycles", why, METHOD)
            continue
        least = quantile_of_rounds([each.fenced[size] for each in rounds], MIDDLE)
        most = quantile_of_rounds([each.chase[size] - 1.0 for each in rounds], MIDDLE)
        low, high = least.low, max(most.high, least.high)
        value = Interval(agreed.value + (low + high) / 2, (agreed.low or 0.0) + low, (agreed.high or 0.0) + high)
        finding = decide.measured(parameter, value, "cycles", METHOD)
        if high - low > VectorParams().alike:
            why = f"as 8-byte loads, and {low:.3g} to {high:.3g} cycles"
            finding = msgspec.structs.replace(finding, value=value.low, outcome=Outcome.AT_LEAST, reason=why)
        yield finding

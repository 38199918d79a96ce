"""How long a vector load takes until its value can be used, from what it takes longer than an 8-byte load in L1."""

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

METHOD = "8-byte latency, plus what fenced vector loads take longer than fenced 8-byte loads in L1"


class VectorParams(msgspec.Struct, frozen=True, kw_only=True):
    """How vector loads are compared with 8-byte loads."""

    lines: int = 8  # of a ring that any first cache holds
    fenced: int = 48  # loads of a question, a fence behind each
    steps: int = 512  # loads of a chase
    transfers: int = 100  # round trips between register files of a question
    samples: int = 24  # paired samples of each size in a round
    precise: tuple[float, float] = (0.3, 0.03)  # half width, in cycles or relative, up to which one is no bound


class VectorRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round, cycles: what a fenced load and a step of a chase take longer, by size in bytes, and a round trip from
    an integer register to a vector register and back."""

    fenced: Mapping[int, float]
    chase: Mapping[int, float]
    round_trip: float


def vectors_once(context: Context, region: Region) -> VectorRound:
    """One round in L1."""
    params, line = VectorParams(), region.line_size
    lines = region.address + TLB_PAGE_BYTES + np.arange(params.lines) * line
    context.machine.link(region, lines)
    fenced, chase, trips = {}, {}, []
    for size in (each for each in context.machine.facts.access_sizes if each > 8):
        loads = {width: _fenced(width, line, params) for width in (8, size)}
        # the wide loads once before the first reference: they may change the core's clock
        probe = loads[size].paired(
            loads[8],
            loads[size],
            Probe().chase(LINE, params.steps),
            Probe().chase(LINE, params.steps, size),
            Probe().transfer(params.transfers),
        )
        found = run_paired(context, probe, {LINE: np.full(params.samples, lines[0])}, accesses=params.steps, warmup=0)
        costs = [located(found, number) for number in range(found.questions)]
        fenced[size] = (costs[1] - costs[0]) / params.fenced
        chase[size] = (costs[3] - costs[2]) / params.steps
        trips.append(costs[4] / params.transfers)
    return VectorRound(fenced=fenced, chase=chase, round_trip=float(np.median(trips)) if trips else 0.0)


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
    a vector register can't be timed apart from the way back: where that leaves more than a cycle, the lower end is a
    bound."""
    for size in sorted(rounds[0].fenced):
        parameter = f"latency.{name}.vector{size}"
        if agreed.outcome is not Outcome.MEASURED or not isinstance(agreed.value, float):
            why = "the 8-byte latency that it is compared with is no value"
            yield decide.unresolved(parameter, "cycles", why, METHOD)
            continue
        least = quantile_of_rounds([each.fenced[size] for each in rounds], MIDDLE)
        chase = quantile_of_rounds([each.chase[size] for each in rounds], MIDDLE)
        later = max(chase.value - 1.0 - least.value, 0.0)
        low, high = (agreed.low or 0.0) + least.low, (agreed.high or 0.0) + least.high + later
        value = Interval(agreed.value + least.value + later / 2, low, high)
        cycles, part = VectorParams().precise
        yield decide.as_precise(decide.measured(parameter, value, "cycles", METHOD), max(cycles, part * value.value))

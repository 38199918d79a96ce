"""Whether the second cache takes lines out of the first when it evicts them."""

from __future__ import annotations

import numpy as np

from setebench.calibrate import step_ticks
from setebench.eviction import Congruent
from setebench.hierarchy.rings import cycles_per_tick
from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context

TARGET = Base("target")
PASSES, MOST_TIMED, BATCHES, SAMPLES = 2, 40, 10, 40
"""Rounds over the set's lines, loads timed at most, and repetitions."""

EVICTED_CYCLES, KEPT_CYCLES, DEVIATIONS = 0.1, 0.06, 4.0
"""Cycles per load that tell. A line that the second cache evicts once per round comes from further out once in as many
loads as there are ways, and costs twenty cycles or more then."""

UNKEPT_CYCLES = 0.3


def inclusive(context: Context, region: Region, found: Congruent) -> tuple[bool | None, str]:
    """Load one of the set's lines after each of the others, so that the first cache never gives it up by itself while
    it grows old in the second; and the same with a line of another set. What the one costs more is inclusion.

    Returns the answer, or None and why."""
    target, others = int(found.lines[0]), found.lines[1:]
    foreign = int(found.flushers[0])
    repetitions = np.full(SAMPLES, target)
    own = [float("nan")] * 0
    plain: list[float] = []
    idle: list[float] = []
    probes = [_probe([int(each) - target for each in others]), _probe([int(each) - foreign for each in others]), _alone()]
    per_tick, step = cycles_per_tick(context), step_ticks(context)
    for batch in range(BATCHES):
        placements = [{TARGET: repetitions}, {TARGET: np.full(SAMPLES, foreign)}, {TARGET: repetitions}]
        ticks = run_interleaved(context.machine, probes, placements, context.rng(81 + batch), cpu=context.cpu)
        for told, each in zip((own, plain, idle), ticks, strict=True):
            told.append(mean_ticks(each.ravel(), step) * per_tick)
    return told_inclusive(np.array(own), np.array(plain), np.array(idle))


def told_inclusive(own: np.typing.NDArray[np.float64], plain: np.typing.NDArray[np.float64], idle: np.typing.NDArray[np.float64]) -> tuple[bool | None, str]:
    """The answer from mean cycles per batch, shape (batches,): of the set's line, of a foreign one, and of a line that
    nothing disturbs."""
    more = own - plain
    mean, error = float(more.mean()), float(more.std(ddof=1)) / len(more) ** 0.5
    if float((plain - idle).mean()) > UNKEPT_CYCLES:
        return None, "the first cache gives up lines that are used all the time (random replacement?)"
    if mean > max(EVICTED_CYCLES, DEVIATIONS * error):
        return True, ""
    if mean + 2 * error < KEPT_CYCLES:
        return False, ""
    return None, f"the line costs {mean:.2f} cycles more than one of another set, which is neither nothing nor clear"


def _probe(offsets: list[int]) -> Probe:
    """The target brought in anew; then after each of the others the target, timed."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence()
    timed = 0
    for offset in (offsets * PASSES)[: MOST_TIMED]:
        probe = probe.load(TARGET + offset).fence().start(timed).load(TARGET).stop(timed)
        timed += 1
    return probe


def _alone() -> Probe:
    probe = Probe().load(TARGET).fence()
    for number in range(8):
        probe = probe.start(number).load(TARGET).stop(number)
    return probe

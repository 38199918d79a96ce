"""How many cycles a load takes from each level of the memory hierarchy.

Two ways in the same rounds, which should agree. The SETE way (Fang et al. 2014, 3.1 and 5.1.1): one load is timed,
dithered, with the line placed in the level by its reuse distance and its TLB entry warmed by another line of the page.
The classical way: chains of dependent loads over such lines, of several lengths, so that no overhead is left in their
slope. Lines that another level served are no reason to give up: a level's latency is a component of the mixture
(`stats.served`). A sweep of chases over growing working sets shows first where the levels end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from setebench.calibration import MEMORY, Levels
from setebench.experiments.alone import watch
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.lines.placing import Place
from setebench.results import Finding
from setebench.scenario import Context, Scenario
from setebench.stats import decide
from setebench.stats.drift import over_time
from setebench.stats.ticks.location import histogram

from .infer import counted, findings, settled
from .params import Params
from .rounds import Round, measure_round, steps_of


def answer(context: Context) -> Iterator[Finding]:
    """Yield the clock's findings, then those of every level."""
    params = Params().quicker() if context.fast else Params()
    context.progress("clock")
    step_ticks(context)
    watch(context)
    region = working_memory(context)
    try:
        context.progress("size sweep")
        levels = find_levels(context, region)
        rounds: list[Round] = []
        places: dict[str, Place] = {}
        fewest, most = params.rounds
        steps = 0
        while len(rounds) < fewest or (
            len(rounds) < most and steps < params.steps and not settled(rounds, levels, params)
        ):
            context.progress(f"latency, round {len(rounds) + 1} of at most {most}")
            for name, walk in levels.walks.items():
                if name != MEMORY:
                    places[name] = Place(context, region, name, walk)
            rounds.append(measure_round(context, region, places.values(), len(rounds), params))
            steps += steps_of(places.values(), params)
    finally:
        context.machine.release(region)
    chosen = counted(rounds, params)
    yield from _clock_findings(context, chosen, len(rounds))
    yield from _level_findings(context, chosen, levels, params)


def _clock_findings(context: Context, rounds: Sequence[Round], all_rounds: int) -> Iterator[Finding]:
    """Step and overheads of the clock, and core cycles per tick."""
    how = f"{len(rounds)} of {all_rounds} rounds"
    step = round(step_ticks(context), 3)
    yield decide.chosen("clock.step", step, "ticks", "largest period that all elapsed times share")
    for bracket in context.machine.facts.brackets:
        overhead = over_time([each.overheads[bracket] for each in rounds], shared=True)
        yield decide.measured(f"clock.overhead.{bracket}", overhead, "ticks", f"empty interval, {how}")
    per_tick = over_time([each.tick_rate.cycles_per_tick for each in rounds], shared=True)
    yield decide.measured("clock.cycles_per_tick", per_tick, "cycles/tick", f"chained additions, {how}")
    context.evidence["cycles"] = {"cycles_per_ns": per_tick.value * context.machine.facts.ticks_per_second / 1e9}


def _level_findings(context: Context, rounds: Sequence[Round], levels: Levels, params: Params) -> Iterator[Finding]:
    context.evidence["single_load_ticks"] = {
        name: histogram(np.concatenate([each.singles.loads for each in rounds[-1].levels[name]]))
        for name in levels.walks
    }
    yield from findings(rounds, levels, step_ticks(context), params)


def plot(document: dict[str, Any]) -> Any:
    """The working-set sweep with the levels' ends."""
    from setebench.report.plots.plot import sweep_figure  # matplotlib is only loaded for a plot

    return sweep_figure(document)


SCENARIO = Scenario(
    name="latency",
    summary="cycles per load from each level of the memory hierarchy, two ways side by side",
    answer=answer,
    parameters=("clock.", "latency.l", "latency.memory"),
    plot=plot,
    order=10,
    seconds=6.0,
)

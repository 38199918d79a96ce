"""How many misses are in flight at once at each level: entries of miss queues (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: time n independent accesses to distinct lines, and see at which n time jumps,
because the next access has to wait for an entry. Loads, stores and software prefetches are asked apart, for they may
draw on different pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from setebench.infer.in_flight import Evidence
from setebench.infer.mshr import findings
from setebench.infer.steps import Staircase
from setebench.measure.calibrate import step_ticks
from setebench.measure.placed import Placed
from setebench.measure.serving import levels_of
from setebench.measure.siblings import Siblings
from setebench.measure.sweep import working_memory
from setebench.mshr.climber import Climber
from setebench.mshr.demand import Demand
from setebench.mshr.prefetching import Hints
from setebench.mshr.threads import ask_siblings
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the levels asked for."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        inside = levels_of(context, region)
        climber = Climber(context, Siblings(context, region, context.rng(3)), context.calibration.level_cycles)
        demand = Demand(climber)
        evidence = Evidence(loads=demand.loads())
        if "l2" in levels:
            evidence.stores = demand.stores()
        evidence.chases = demand.chases(evidence.loads)
        for number, name in enumerate(sorted(set(inside) - {"l1", "memory"})):
            placed = Placed(context, region, context.rng(5 + number), inside[name])
            if (found := demand.nearer(placed, name, evidence.loads)) is not None:
                evidence.nearer[name] = found
        if "l1" in levels and "l2" in inside:
            evidence.blocked = demand.blocked(inside["l2"].bytes, evidence.loads)
        evidence.prefetching = Hints(climber).ask(levels)
        climber.at_other_times()
        ask_siblings(climber, evidence, levels)
        evidence.tenant_share = climber.volleys.alone.tenant_share
    finally:
        context.machine.release(region)
    _keep(context, evidence)
    yield from findings(evidence, levels)


def _keep(context: Context, evidence: Evidence) -> None:
    """Staircases as plain lists, for the result file and the plot."""
    named = {
        "loads": evidence.loads,
        "stores": evidence.stores,
        "blocked": evidence.blocked.stairs if evidence.blocked else None,
    }
    for own in evidence.prefetching:
        named |= {f"prefetch.{own.hint}.{way}": getattr(own, way) for way in ("phase", "total", "kept")}
    named |= {f"loads.{level}": own.stairs for level, own in evidence.nearer.items()}
    context.evidence["staircases"] = {name: _plain(stairs) for name, stairs in named.items() if stairs is not None}
    context.evidence["in_flight"] = {"memory": evidence.chases} | {
        level: own.in_flight.value for level, own in evidence.nearer.items()
    }
    context.evidence["siblings"] = [
        asdict(own) if not isinstance(own, str) else own for own in (evidence.beside, evidence.together)
    ]
    context.evidence["tenant_share"] = round(evidence.tenant_share, 3)
    context.evidence["prefetch_fills"] = {own.hint: own.fills for own in evidence.prefetching}


def _plain(stairs: Staircase) -> dict[str, Any]:
    numbers, cycles = stairs.curve()
    step = stairs.step
    return {
        "numbers": numbers.tolist(),
        "cycles": [round(float(each), 1) for each in cycles],
        "step": None if step is None else [step.last, step.low, step.high],
        "repeats": stairs.repeats,
    }


def plot(document: dict[str, Any]) -> Any:
    """The staircases with their jumps."""
    from setebench.report.staircases import staircase_figure  # matplotlib is only loaded for a plot

    return staircase_figure(document)


SCENARIO = Scenario(
    name="mshr",
    summary="how many misses each level keeps in flight, for loads and for software prefetches",
    answer=answer,
    parameters=("mshr.",),
    plot=plot,
    options=(Option(name="level", help="Which level's miss queue.", default="all", choices=("L1", "L2", "all")),),
    order=30,
    seconds=15.0,
)

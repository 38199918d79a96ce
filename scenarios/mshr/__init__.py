"""How many misses are in flight at once at each level: entries of miss queues (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: time n independent accesses to distinct lines, and see at which n time jumps,
because the next access has to wait for an entry. Loads, stores and software prefetches are asked apart, for they may
draw on different pools (`demand`, `prefetching`), and then all threads of a core at once (`threads`). Where time jumps
is one search for all of them (`curves`), asked in several epochs; what follows from which jump is in `findings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from setebench.experiments.bursts.of_threads import ThreadBursts
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.levels import find_walks, working_memory
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from .curves import Curves
from .demand import ask_demand
from .findings import Evidence, findings
from .plot import draw
from .prefetching import ask_prefetches
from .threads import Siblings, ask_threads


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the levels asked for."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        walks = find_walks(context, region)
        bursts = ThreadBursts(context, region, context.rng(3))
        curves = Curves(context, bursts, context.calibration.level_cycles)
        demand = ask_demand(curves, levels, walks, region)
        prefetching = ask_prefetches(curves, levels)
        curves.in_later_epochs()
        evidence = Evidence(demand, prefetching, bursts.alone.co_runner_fraction)
        siblings = ask_threads(curves, evidence, levels)
    finally:
        context.machine.release(region)
    context.evidence |= _plain(evidence, siblings)
    yield from findings(evidence, levels, curves.params)
    yield from siblings.findings(levels, curves.params)


def _plain(evidence: Evidence, siblings: Siblings) -> dict[str, Any]:
    """Curves and the rest as plain lists, for the result file and the plot."""
    demand = evidence.demand
    blocked = demand.behind.asked if demand.behind else None
    named = {"loads": demand.loads, "stores": demand.stores, "blocked": blocked}
    for own in evidence.prefetching:
        named |= {f"prefetch.{own.hint}.{way}": getattr(own, way) for way in ("phase", "total", "kept")}
    return {
        "curves": {name: asked.plain() for name, asked in named.items() if asked is not None},
        "in_flight": {level: kept.value for level, kept in demand.kept.items()},
        "siblings": [own if isinstance(own, str) else asdict(own) for own in (siblings.beside, siblings.together)],
        "disturbed": round(evidence.disturbed, 3),
        "prefetch_fills": {own.hint: own.fills for own in evidence.prefetching},
    }


SCENARIO = Scenario(
    name="mshr",
    summary="how many misses each level keeps in flight, for loads and for software prefetches",
    answer=answer,
    parameters=("mshr.",),
    plot=draw,
    options=(Option(name="level", help="Which level's miss queue.", default="all", choices=("L1", "L2", "all")),),
    order=30,
    seconds=12.0,
)

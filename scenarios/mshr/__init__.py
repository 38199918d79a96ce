"""How many misses are in flight at once at each level: entries of miss queues (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: time n independent accesses to distinct lines, and see at which n time jumps,
because the next access has to wait for an entry. Loads, stores and software prefetches are asked apart, for they may
draw on different pools (`demand`, `prefetching`), and then all threads of a core at once (`threads`). Where time jumps
is one search for all of them (`curves`), asked in several epochs; what follows from which jump is in `findings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from typing import Any

from setebench.errors import UnsupportedError
from setebench.experiments.alone import watch
from setebench.experiments.bursts.of_threads import ThreadBursts
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.levels import find_walks, working_memory
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from .curves import Curves, plain
from .demand import ask_demand
from .findings import Evidence, findings
from .plot import draw
from .prefetching import ask_prefetches
from .threads import Siblings, ask_threads

BURST_BYTES = 1 << 28
"""Memory that bursts are laid in: a thousand times the largest one, and evictors of any second level."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the levels asked for."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    context.progress("clock")
    watch(context)
    step_ticks(context)
    with ExitStack() as stack:
        region = stack.enter_context(_released(context, working_memory(context)))
        context.progress("working-set sweep")
        walks = find_walks(context, region)
        # in large pages, where there are any: else more misses than a first TLB has entries wait for translations
        lines = region
        with suppress(UnsupportedError):  # a system that has large pages may have none left
            lines = context.machine.allocate(min(region.size, BURST_BYTES), max(context.machine.facts.page_sizes))
            stack.enter_context(_released(context, lines))
        bursts = ThreadBursts(context, lines, context.rng(3))
        curves = Curves(context, bursts, context.calibration.level_cycles)
        demand = ask_demand(curves, levels, walks)
        prefetching = ask_prefetches(curves, levels)
        curves.in_later_epochs()
        evidence = Evidence(demand, prefetching, bursts.alone.co_runner_fraction)
        siblings = ask_threads(curves, evidence, levels)
    context.evidence |= _plain(evidence, siblings)
    yield from findings(evidence, levels, curves.params)
    yield from siblings.findings(levels, curves.params)


@contextmanager
def _released(context: Context, region: Region) -> Iterator[Region]:
    """The region, until nobody needs it any more."""
    try:
        yield region
    finally:
        context.machine.release(region)


def _plain(evidence: Evidence, siblings: Siblings) -> dict[str, Any]:
    """Curves and the rest as plain lists, for the result file and the plot."""
    demand = evidence.demand
    blocked = demand.behind.asked if demand.behind else None
    named = {"loads": demand.loads, "stores": demand.stores, "blocked": blocked}
    for own in evidence.prefetching:
        named |= {f"prefetch.{own.hint}.{way}": getattr(own, way) for way in ("phase", "kept")}
    totals = {f"prefetch.{own.hint}.total": plain(own.total) for own in evidence.prefetching if own.total}
    return {
        "curves": {name: asked.plain() for name, asked in named.items() if asked is not None} | totals,
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
    needs=("clock", "issue_pace", "levels"),
)

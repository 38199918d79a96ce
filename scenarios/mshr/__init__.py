"""Number of misses that each cache level keeps in flight: entries of its miss queue (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: bursts of n independent accesses to distinct lines are timed. Time jumps at the n
of which the last access has to wait for an entry. Times are in units: a unit is what a miss takes longer than a hit.
Loads and software prefetches are measured one by one, as they may use different queues (`ask`), then all threads of a
core together (`threads`). Control measurements of the same bursts show which queue a jump belongs to (`findings`).
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.experiments.alone import watch
from setebench.experiments.bursts.bursts import BurstParams, Bursts, burst_memory
from setebench.experiments.bursts.controls import Controls
from setebench.experiments.calibrate import step_ticks
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario

from .ask import Questions
from .findings import findings
from .params import Params
from .plot import draw
from .threads import ask_threads


def answer(context: Context) -> Iterator[Finding]:
    """Yield the miss queue entries of the levels that the user chose, and whether threads of a core share them."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    params = Params()
    context.progress("clock")
    watch(context)
    step_ticks(context)
    with burst_memory(context, BurstParams()) as region:
        bursts = Bursts(context, region, context.rng(3))
        questions = Questions(context, bursts, Controls(context, bursts), params)
        evidence = questions.all(levels)
        context.evidence |= evidence.plain()
        yield from findings(evidence, levels, params)
        yield from ask_threads(questions, evidence, levels)


SCENARIO = Scenario(
    name="mshr",
    summary="how many misses each level keeps in flight, for loads and for software prefetches",
    answer=answer,
    parameters=("mshr.",),
    plot=draw,
    options=(
        PAGE_SIZE,
        Option(name="level", help="Which level's miss queue.", default="all", choices=("L1", "L2", "all")),
    ),
    order=30,
    needs=("clock", "issue_pace"),
)

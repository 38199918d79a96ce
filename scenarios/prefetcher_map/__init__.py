"""Which hardware data prefetchers there are, and by what rules.

After Fang et al. 2014, 5.3 and section 6: a few accesses to a fresh page (`setebench.experiments.visits`), then one
timed line per repetition, compared with the same visit without its accesses. What distinguishes prefetchers is what
keeps the others quiet meanwhile.

Read on in `families`, the table: one row per family, with what its memory goes by and the comparison by which it is
found. `kinds` has the questions of each; `attributes` (what trains it, level, threads, cores), `tables` (thresholds,
entries, replacement, address bits) and `models` (rules that explain a run) are the same for all, and `lab` asks and
decides. `described` holds families against further evidence; `survey` repeats everything, and `report` keeps what
agrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import References, measure_references
from setebench.experiments.visits import PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from .lab import Lab
from .params import Params
from .pattern import HELP, ask, charts, parse
from .survey import repeated_survey


def answer(context: Context) -> Iterator[Finding]:
    """Yield what is found of every prefetcher, or of the one pattern that is asked for."""
    pattern = context.options.get("pattern")
    if pattern:  # before anything is measured: a word that is no access must not cost a minute
        parse(pattern, PAGE_BYTES // context.machine.facts.line_size, context.machine.facts.line_size)
    context.progress("working-set sweep")
    region = working_memory(context)

    def references() -> References:
        return measure_references(context, region, Params().reference_samples)

    try:
        if pattern:
            yield from ask(Lab(context, region, references()), pattern)
            return
        lab, findings = repeated_survey(context, region, references)
        yield from findings
        context.progress("charts")
        context.evidence["prefetchers"] = charts(lab)
    finally:
        context.machine.release(region)


def plot(document: dict[str, Any]) -> Any:
    """Heat maps of a sequential and a strided run, and how far the first is led."""
    from setebench.report.plots.prefetcher_map_plot import map_figure  # matplotlib is only loaded for a plot

    return map_figure(document)


SCENARIO = Scenario(
    name="prefetcher-map",
    summary="hardware data prefetchers: which there are, what starts them, how far they run",
    answer=answer,
    parameters=("prefetcher.", "pattern."),
    options=(Option(name="pattern", help=HELP),),
    plot=plot,
    order=50,
    seconds=40.0,
    needs=("clock", "levels"),
)

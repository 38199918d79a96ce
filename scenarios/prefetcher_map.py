"""Which hardware data prefetchers there are, and by what rules.

After Fang et al. 2014, 5.3 and section 6: a few accesses to a fresh page, then one timed line per repetition. What
tells prefetchers apart is what keeps the others quiet meanwhile: see `setebench.prefetcher_map`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.measure.serving import measure_references
from setebench.measure.sweep import working_memory
from setebench.prefetcher_map.atlas import repeated_survey
from setebench.prefetcher_map.chart import charts
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.pattern import HELP, ask, parse
from setebench.prefetcher_map.visit import PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

REFERENCE_SAMPLES = 1200


def answer(context: Context) -> Iterator[Finding]:
    """Yield what is found of every prefetcher, or of the one pattern that is asked for."""
    pattern = context.options.get("pattern")
    if pattern:  # before anything is measured: a word that is no access must not cost a minute
        parse(pattern, PAGE_BYTES // context.machine.facts.line_size, context.machine.facts.line_size)
    context.progress("working-set sweep")
    region = working_memory(context)
    try:
        if pattern:
            yield from ask(Laboratory(context, region, measure_references(context, region, REFERENCE_SAMPLES)), pattern)
            return
        lab, findings = repeated_survey(
            context,
            region,
            lambda: measure_references(context, region, REFERENCE_SAMPLES),
            switches=not context.options.get("no_msr"),
        )
        yield from findings
        context.progress("charts")
        context.evidence["prefetchers"] = charts(lab)
    finally:
        context.machine.release(region)


def plot(document: dict[str, Any]) -> Any:
    """Heat maps of a sequential and a strided run, and how far the first is led."""
    from setebench.report.prefetcher_map_plot import map_figure  # matplotlib is only loaded for a plot

    return map_figure(document)


SCENARIO = Scenario(
    name="prefetcher-map",
    summary="hardware data prefetchers: which there are, what wakes them, how far they run",
    answer=answer,
    parameters=("prefetcher.", "pattern."),
    options=(
        Option(name="pattern", help=HELP),
        Option(
            name="no_msr",
            help="Don't switch prefetchers off to confirm what was found, where the kernel would allow it.",
            flag=True,
        ),
    ),
    plot=plot,
    order=50,
    seconds=40.0,
)

"""What software prefetches really do, per hint, and what misses hold up (Fang et al. 2014, 5.1.4, 5.2.1, 5.2.3).

Every answer compares loads after a prefetch with the same loads without it, interleaved, and says by its time alone
which level served them. Nothing is concluded from one run of one line, from a threshold on a mean, or from a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.infer.software_prefetch import Answer
from setebench.measure.calibrate import step_ticks
from setebench.measure.sweep import working_memory
from setebench.results import Finding
from setebench.scenario import Context, Scenario
from setebench.software_prefetch import busy, fills, places
from setebench.software_prefetch.run import Run, unavailable
from setebench.software_prefetch.stores import Stores


def answer(context: Context) -> Iterator[Finding]:
    """Yield what each hint does, what becomes of prefetches in special places, and what misses hold up.

    Looks at where lines land, and stores to lines of other cores, come between the other questions, so that they are
    seconds apart."""
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        run = Run(context, region)
        stores = Stores(run)
        fills.choose_hint(run)
        if run.hint:
            stores.time()
            yield from places.across_page(run)
            yield from places.on_tlb_miss(run)
            fills.look_again(run)
            yield from places.on_page_fault(run)
        else:
            yield from _no_hint(run)
        yield from busy.blocking(run)
        if run.hint:
            fills.look_again(run)
            stores.time()
            yield from busy.when_full(run)
            fills.look_again(run)
            yield from busy.trains_hardware(run)
            fills.look_again(run)
        stores.time()
        yield from stores.findings()
        yield from fills.findings(run)
    finally:
        context.machine.release(region)


IN_GENERAL = (
    "on_tlb_miss.l1",
    "on_tlb_miss.l2",
    "on_page_fault",
    "across_page",
    "when_full",
    "trains_hardware",
)


def _no_hint(run: Run) -> Iterator[Finding]:
    reason = "no prefetch hint was seen to bring lines anywhere"
    for name in IN_GENERAL:
        unit = "string" if name == "when_full" else "bool"
        parameter = f"software_prefetch.{name}"
        if run.fills:
            yield Answer(reason=reason).finding(parameter, unit, "lines in memory, prefetched, then loaded")
        else:
            yield unavailable(parameter, unit, "this machine has no software prefetches")


def plot(evidence: dict[str, Any]) -> Any:
    """Where prefetched lines were found, and stores to lines that other cores held."""
    from setebench.report.software_prefetch_plot import prefetch_figure  # matplotlib is only loaded for a plot

    return prefetch_figure(evidence)


SCENARIO = Scenario(
    name="software-prefetch",
    summary="what software prefetches do: level filled per hint, faults, full queues, blocking, shared lines",
    answer=answer,
    parameters=("software_prefetch.", "blocking."),
    plot=plot,
    order=40,
    seconds=12.0,
)

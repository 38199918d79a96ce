"""What software prefetches really do, per hint, and what misses hold up (Fang et al. 2014, 5.1.4, 5.2.1, 5.2.3).

Every answer compares loads after a prefetch with the same loads without it, interleaved (`run`), and says by its time
alone which level served them (`answers`). Nothing is concluded from one run of one line, from a threshold on a mean, or
from a name. The questions: where lines land (`fills`), prefetches in special places (`places`), what misses hold up and
what becomes of too many prefetches (`busy`), stores to lines of other cores (`stores`)."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.levels import working_memory
from setebench.results import Finding
from setebench.scenario import Context, Scenario
from setebench.stats import decide

from . import busy, fills, places
from .plot import draw
from .run import Run
from .stores import Stores


def answer(context: Context) -> Iterator[Finding]:
    """Yield what each hint does, what becomes of prefetches in special places, and what misses hold up.

    Samples at where lines land, and stores to lines of other cores, come between the other questions, so that they are
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


def _no_hint(run: Run) -> Iterator[Finding]:
    """What can't be asked without any hint that does something."""
    names = ("on_tlb_miss.l1", "on_tlb_miss.l2", "on_page_fault", "across_page", "when_full", "trains_hardware")
    for name in names:
        parameter, unit = f"software_prefetch.{name}", "string" if name == "when_full" else "bool"
        if run.fills:
            reason = "no prefetch hint was seen to bring lines anywhere"
            yield decide.unresolved(parameter, unit, reason, "lines in memory, prefetched, then loaded")
        else:
            yield decide.unavailable(parameter, unit, "this machine has no software prefetches")


SCENARIO = Scenario(
    name="software-prefetch",
    summary="what software prefetches do: level filled per hint, faults, full queues, blocking, shared lines",
    answer=answer,
    parameters=("software_prefetch.", "blocking."),
    plot=draw,
    order=40,
    seconds=12.0,
    needs=("clock", "levels"),
)

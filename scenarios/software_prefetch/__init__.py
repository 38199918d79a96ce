"""What each software prefetch hint does, and which accesses block a core when they miss (Fang et al. 2014, 5.1.4,
5.2.1, 5.2.3).

Every answer compares repetitions of one program that only differ in addresses: its line was loaded, was flushed, or was
flushed and then prefetched (`trials`). The questions: the level that lines land in (`fills`), prefetches in special
places (`places`), blocking and too many prefetches (`busy`), stores to lines of other cores (`stores`)."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.experiments.bursts.bursts import BurstParams, Bursts, burst_memory
from setebench.experiments.calibrate import step_ticks
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Scenario
from setebench.stats import decide

from . import busy, fills, places
from .plot import draw
from .stores import Stores
from .trials import Trials


def answer(context: Context) -> Iterator[Finding]:
    """Yield the level that each hint fills, what prefetches do in special places and when too many are in flight, which
    accesses block a core when they miss, and latencies of stores after prefetches. Levels and stores are sampled
    between the other questions, so that their samples lie seconds apart."""
    context.progress("clock")
    step_ticks(context)
    with burst_memory(context, BurstParams(), large=False) as region:
        trials = Trials(context, Bursts(context, region, context.rng(4)))
        stores = Stores(trials)
        fills.sample(trials)
        stores.time()
        found: dict[str, Finding] = {}
        if trials.hint:
            found |= _named(places.across_page(trials)) | _named(places.on_tlb_miss(trials))
            fills.sample(trials)
            found |= _named(places.on_page_fault(trials))
        found |= _named(busy.blocking(trials))
        stores.time()
        if trials.hint:
            alone = found["blocking.prefetch"].value == "blocking"
            found |= _named(busy.when_full(trials, blocking=alone))
            fills.sample(trials)
        else:
            found |= _named(_no_hint(trials))
        stores.time()
        yield from found.values()
        yield decide.unavailable("software_prefetch.trains_hardware", "bool", "not measured since 0.2")
        yield from stores.findings()
        yield from fills.findings(trials)


def _named(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {finding.parameter: finding for finding in findings}


def _no_hint(trials: Trials) -> Iterator[Finding]:
    """Yield a finding without a value for each question that needs a hint, where no hint does anything."""
    why, finding = "this machine has no software prefetches", decide.unavailable
    if trials.fills:
        why, finding = "no prefetch hint was seen to bring lines anywhere", decide.unresolved
    for name in ("on_tlb_miss.l1", "on_tlb_miss.l2", "on_page_fault", "across_page", "when_full"):
        yield finding(f"software_prefetch.{name}", "string" if name == "when_full" else "bool", why)


SCENARIO = Scenario(
    name="software-prefetch",
    summary="what software prefetches do: level filled per hint, faults, full queues, blocking, shared lines",
    answer=answer,
    parameters=("software_prefetch.", "blocking."),
    options=(PAGE_SIZE,),
    plot=draw,
    order=40,
    needs=("clock", "issue_pace"),
)

"""What misses hold up, what becomes of too many prefetches, and whether prefetches wake hardware prefetchers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setebench.infer import held_up
from setebench.infer import software_prefetch as infer
from setebench.infer.software_prefetch import Answer
from setebench.infer.ticks import mean_ticks
from setebench.measure.calibrate import quick_cycles_per_tick
from setebench.results import Finding
from setebench.software_prefetch import full, overlap, training
from setebench.software_prefetch.heeded import unless_ignored
from setebench.software_prefetch.run import Run, unavailable

LEAST_ADDITIONS = 16
WORK_METHOD = "additions behind an access that misses every cache, against the access alone"


def blocking(run: Run) -> Iterator[Finding]:
    """Whether independent work goes on behind a load, a store or a prefetch that misses."""
    run.context.progress("work behind misses")
    cycles = run.memory_ticks * quick_cycles_per_tick(run.context)
    additions = int(min(overlap.MOST_ADDITIONS, cycles / 2))
    kinds = ("load", "store", "prefetch") if run.hint else ("load", "store")
    if additions < LEAST_ADDITIONS:
        for kind in kinds:
            reason = f"memory takes only {cycles:.0f} cycles longer than the first level"
            yield Answer(reason=reason).finding(f"blocking.{kind}", "string", WORK_METHOD)
        return
    ticks = overlap.work_behind_misses(run.context, run.region, kinds, run.hint, additions, run.samples // 2)
    per_tick = quick_cycles_per_tick(run.context)
    means = {name: mean_ticks(each, run.step) for name, each in ticks.items()}
    run.context.evidence["work_behind_misses"] = {
        "additions": additions,
        "cycles": {name: mean * per_tick for name, mean in means.items()},
    }
    for kind in kinds:
        hit, miss, both = (means[f"{kind}.{each}"] for each in ("hit", "miss", "miss+work"))
        found = held_up.blocking(hit, miss, both, additions / per_tick, run.memory_ticks)
        if kind == "prefetch":
            found = unless_ignored(run, found)
            run.prefetch_blocks = found.value != "nonblocking"
        yield found.finding(f"blocking.{kind}", "string", WORK_METHOD, "work_behind_misses")
    if not run.hint:
        yield unavailable("blocking.prefetch", "string", "no prefetch hint was seen to bring lines anywhere")


def when_full(run: Run) -> Iterator[Finding]:
    """Whether prefetches wait or are lost where too many are under way."""
    run.context.progress("more prefetches than can be in flight")
    method = f"burst of {full.BURST_PAGES * full.LINES_A_PAGE} prefetches {run.hint}, late lines loaded afterwards"
    ticks = full.bursts(run.context, run.region, run.hint, run.samples)
    shares = run.shares(ticks.late, ticks.baseline)
    longer = float(np.median(ticks.missing) - np.median(ticks.present))
    run.context.evidence["burst"] = {
        "held_up_ticks": longer,
        "memory_ticks": run.memory_ticks,
        "late_lines_in_memory": shares.of("memory").tolist(),
    }
    found = unless_ignored(run, held_up.when_full(shares, longer, run.memory_ticks))
    if run.prefetch_blocks and found.value == "stalls":
        found = Answer(reason="each prefetch waits for the one before, so the queue is never full")
    yield found.finding("software_prefetch.when_full", "string", method, "burst")


def trains_hardware(run: Run) -> Iterator[Finding]:
    """Whether patterns of prefetches alone have hardware prefetchers fetch further lines."""
    run.context.progress("whether prefetches wake hardware prefetchers")
    patterns = {
        "a run of prefetches": training.run_of_prefetches(run.context, run.region, run.hint, run.samples // 2),
        "visits by prefetches": training.visits_by_prefetches(run.context, run.region, run.hint, run.samples // 2),
    }
    shares = {name: run.shares(*ticks) for name, ticks in patterns.items()}
    run.context.evidence["training"] = {name: each.of("memory").tolist() for name, each in shares.items()}
    method = f"patterns of prefetches {run.hint} alone, then a load of a line that they point to"
    found = unless_ignored(run, infer.trains_hardware(shares))
    yield found.finding("software_prefetch.trains_hardware", "bool", method, "training")

"""What software prefetches really do, per hint, and what misses hold up (Fang et al. 2014, 5.1.4, 5.2.1, 5.2.3).

Every answer compares loads after a prefetch with the same loads without it, interleaved, and says by its time alone
which level served them. Nothing is concluded from one run of one line, from a threshold on a mean, or from a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from setebench.calibrate import quick_cycles_per_tick, step_ticks
from setebench.errors import UnsupportedError
from setebench.infer import held_up
from setebench.infer import software_prefetch as infer
from setebench.infer.mixture import Shares
from setebench.infer.software_prefetch import Answer
from setebench.infer.ticks import mean_ticks, over_rounds
from setebench.machine import Region, Ticks
from setebench.placing import BASELINE_ADDITIONS
from setebench.prefetches import full, overlap, sharing, training, translation
from setebench.prefetches.ways import Way, nothing, prefetched, prefetched_from_elsewhere, side_by_side
from setebench.probe import HINTS
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Scenario
from setebench.serving import LAYOUTS, References, measure_references
from setebench.sweep import working_memory

SAMPLES, FAST_SAMPLES = 2000, 800
"""Loads per condition: enough that 6 cycles show on a clock that moves in steps of 70."""

STORE_ROUNDS, FAST_STORE_ROUNDS, STORE_REPETITIONS = 16, 8, 120

MOST_HOLDERS = 8
"""Stores are timed with 1, 2, 4, ... other cores holding the line, up to so many."""


class _Run:
    """What the steps of one answer share."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context, self.region = context, region
        self.samples = FAST_SAMPLES if context.fast else SAMPLES
        self.references: References = measure_references(context, region, self.samples)
        self.step = step_ticks(context)
        means = {name: mean_ticks(ticks, self.step) for name, ticks in self.references.ticks.items()}
        self.memory_ticks = means["memory"] - means["l1"]
        self.rng = context.rng(46)
        self.hint = ""
        """The hint that other questions are asked with: one that fills the first level, else any that does anything."""
        self.fills: dict[str, Answer] = {}
        self.looks: list[dict[str, Ticks]] = []
        self.landed: dict[str, dict[str, list[float]]] = {}
        self.across_page: bool | None = None
        self.prefetch_blocks = False

    def shares(self, *sets: Any) -> Shares:
        return self.references.shares(sets, self.rng)


def answer(context: Context) -> Iterator[Finding]:
    """Yield what each hint does, what becomes of prefetches in special places, and what misses hold up."""
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        run = _Run(context, region)
        _choose_hint(run)
        if run.hint:
            yield from _across_page(run)
            yield from _on_tlb_miss(run)
            _look_again(run)
            yield from _on_page_fault(run)
        else:
            yield from _no_hint(run)
        yield from _blocking(run)
        if run.hint:
            _look_again(run)
            yield from _when_full(run)
            _look_again(run)
            yield from _training(run)
            _look_again(run)
        yield from _store_after(run)
        yield from _fills(run)
    finally:
        context.machine.release(region)


# -- where lines land ----------------------------------------------------------------------------------------------


def _look(run: _Run, source: str, samples: int) -> dict[str, Ticks]:
    """Loads of lines that were in `source`, after each hint and after none (the empty name)."""
    run.context.progress(f"where prefetched lines land, from {source}")
    hints = run.context.machine.facts.prefetch_hints
    ways: dict[str, Way] = {hint: prefetched(hint) for hint in hints} | {"": nothing}
    return side_by_side(run.context, run.region, source, ways, samples)


def _choose_hint(run: _Run) -> None:
    """A first look, which finds the hint that other questions are asked with."""
    _look_again(run)
    run.hint = _chosen(_answers(run))


def _look_again(run: _Run) -> None:
    run.looks.append(_look(run, "memory", run.samples // 4))


def _answers(run: _Run) -> dict[str, Answer]:
    """Where each hint's lines landed in all looks together."""
    heeded = {name: _heeded(run, name) for name in run.looks[0]}
    ticks = {name: each[0] for name, each in heeded.items()}
    shares = run.shares(*ticks.values())
    rows = {name: number for number, name in enumerate(ticks)}
    found = {
        hint: replace(_landed(run, ticks[hint], shares, row, rows[""]), remark=heeded[hint][1])
        for hint, row in rows.items()
        if hint
    }
    run.landed["memory"] = {name: shares.value[row].round(4).tolist() for name, row in rows.items()}
    told = infer.without_silent(found, LAYOUTS * len(run.looks))
    run.fills = infer.numbered(told, run.references.levels)
    return run.fills


def _heeded(run: _Run, hint: str) -> tuple[Ticks, str]:
    """A hint's loads from all looks, without those of layouts in which it did nothing at all, and how many these were;
    but all of them where it never did anything."""
    layouts = [part for look in run.looks for part in np.array_split(look[hint], LAYOUTS)]
    ignored = infer.ignored(run.references.shares(layouts))
    if not hint or ignored.all() or not ignored.any():
        return np.concatenate(layouts), ""
    kept = [part for part, none in zip(layouts, ignored, strict=True) if not none]
    return np.concatenate(kept), f"ignored altogether in {ignored.sum()} of {len(layouts)} turns"


def _fills(run: _Run) -> Iterator[Finding]:
    """The level that each hint brings a line to: from memory as findings, from nearer levels as evidence.

    Looks from memory come before, between and after all other questions: some CPUs ignore some hints for milliseconds
    or seconds on end, and such a while must not be told as what the hint does."""
    for source in [name for name in reversed(run.references.levels) if name not in ("l1", "memory")]:
        ticks = _look(run, source, run.samples // 4)
        shares = run.shares(*ticks.values())
        run.landed[source] = {name: each.round(4).tolist() for name, each in zip(ticks, shares.value, strict=True)}
    _look_again(run)
    answers = _answers(run)
    run.context.evidence["landed"] = {"levels": list(run.references.levels), "shares": run.landed}
    for hint in HINTS:
        name = f"software_prefetch.fills.{hint}"
        if hint in answers:
            yield answers[hint].finding(name, "string", "lines in memory, prefetched, then loaded", "landed")
        else:
            yield _unavailable(name, "string", f"this machine has no prefetch hint {hint}")


def _landed(run: _Run, ticks: Ticks, shares: Shares, row: int, baseline: int) -> Answer:
    found = infer.landed(shares, row, baseline)
    apart, error = infer.between(run.references.ticks, ticks, shares, row, run.step)
    return infer.unless_between(found, apart, error, quick_cycles_per_tick(run.context))


def _chosen(fills: dict[str, Answer]) -> str:
    """A hint that does something, one that fills level 1 if there is one."""
    working = [hint for hint, answer in fills.items() if answer.value not in (None, "none")]
    return next((hint for hint in working if fills[hint].value == "l1"), working[0] if working else "")


def _unavailable(parameter: str, unit: str, reason: str) -> Finding:
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason)


IN_GENERAL = (
    "on_tlb_miss.l1",
    "on_tlb_miss.l2",
    "on_page_fault",
    "across_page",
    "when_full",
    "trains_hardware",
)


def _no_hint(run: _Run) -> Iterator[Finding]:
    reason = "no prefetch hint was seen to bring lines anywhere"
    for name in IN_GENERAL:
        unit = "string" if name == "when_full" else "bool"
        parameter = f"software_prefetch.{name}"
        if run.fills:
            yield Answer(reason=reason).finding(parameter, unit, "lines in memory, prefetched, then loaded")
        else:
            yield _unavailable(parameter, unit, "this machine has no software prefetches")


# -- special places ------------------------------------------------------------------------------------------------


def _across_page(run: _Run) -> Iterator[Finding]:
    run.context.progress("prefetches outside the page of the latest load")
    ways: dict[str, Way] = {"elsewhere": prefetched_from_elsewhere(run.hint), "": nothing}
    ticks = side_by_side(run.context, run.region, "memory", ways, run.samples // 4)
    found = infer.done(run.shares(*ticks.values()), 0, 1)
    run.across_page = found.value if isinstance(found.value, bool) else None
    method = f"prefetch {run.hint} right behind a load from another page, both translations warm"
    yield found.finding("software_prefetch.across_page", "bool", method)


def _on_tlb_miss(run: _Run) -> Iterator[Finding]:
    per_tick = quick_cycles_per_tick(run.context)
    walks = []
    table = []
    for pages in translation.walk_lengths(run.region):
        ticks = translation.behind_walk(run.context, run.region, pages, run.hint, run.samples)
        cost = held_up.penalty(ticks.cold, ticks.warm, run.step, per_tick)
        shares = run.shares(ticks.prefetched, ticks.baseline)
        walks.append((pages, cost, infer.done(shares, 0, 1)))
        table.append({"pages": pages, "penalty_cycles": cost.cycles, "still_in_memory": shares.of("memory").tolist()})
        if len(walks) > 1 and cost.above(walks[0][1]):
            break  # the longest walk is only needed where shorter ones leave every translation in some TLB
    run.context.evidence["page_walks"] = table
    method = f"prefetch {run.hint} behind a walk over many pages"
    for level, found in zip(("l1", "l2"), held_up.on_tlb_misses(walks, run.across_page), strict=True):
        yield found.finding(f"software_prefetch.on_tlb_miss.{level}", "bool", method, "page_walks")


def _on_page_fault(run: _Run) -> Iterator[Finding]:
    run.context.progress("prefetches of pages that were never touched")
    parameter = "software_prefetch.on_page_fault"
    method = f"prefetch {run.hint} of a fresh page, then its first touch"
    try:
        ticks = translation.first_touches(run.context, run.hint, 16 if run.context.fast else 32)
    except UnsupportedError as error:
        yield Answer(reason=str(error)).finding(parameter, "bool", method)
        return
    medians = {name: [float(np.median(each)) for each in pair] for name, pair in zip(ticks._fields, ticks, strict=True)}
    run.context.evidence["first_touches"] = {"median_ticks": medians, "order": ["prefetched", "not prefetched"]}
    cached = infer.done(run.shares(*ticks.line), 0, 1)
    touched, untouched = medians["touch"]
    found = held_up.on_page_fault(touched, untouched, cached, run.memory_ticks)
    yield found.finding(parameter, "bool", method, "first_touches")


# -- what misses hold up -------------------------------------------------------------------------------------------


def _blocking(run: _Run) -> Iterator[Finding]:
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
            run.prefetch_blocks = found.value != "nonblocking"
        yield found.finding(f"blocking.{kind}", "string", WORK_METHOD, "work_behind_misses")
    if not run.hint:
        yield _unavailable("blocking.prefetch", "string", "no prefetch hint was seen to bring lines anywhere")


LEAST_ADDITIONS = 16
WORK_METHOD = "additions behind an access that misses every cache, against the access alone"


def _when_full(run: _Run) -> Iterator[Finding]:
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
    found = held_up.when_full(shares, longer, run.memory_ticks)
    if run.prefetch_blocks and found.value == "stalls":
        found = Answer(reason="each prefetch waits for the one before, so the queue is never full")
    yield found.finding("software_prefetch.when_full", "string", method, "burst")


# -- other cores ---------------------------------------------------------------------------------------------------


def _store_after(run: _Run) -> Iterator[Finding]:
    """Stores after a shared prefetch, and after an exclusive one."""
    facts = run.context.machine.facts
    own = facts.cpus[-1] if run.context.cpu is None else run.context.cpu
    others = sharing.one_cpu_per_core(facts, own)
    _answers(run)  # later looks may tell what the first one did not
    hints = {"shared": _chosen({h: a for h, a in run.fills.items() if h != "w"}), "exclusive": "w"}
    wanted = {state: hint for state, hint in hints.items() if run.fills.get(hint, Answer()).value == "l1"}
    reason = "only one core is at hand: nobody else can hold the line" if not others else ""
    if wanted and others:
        yield from _timed_stores(run, own, others, wanted)
    for state, hint in hints.items():
        parameter = f"software_prefetch.store_after.{state}"
        if reason or not facts.prefetch_hints or (state == "exclusive" and hint not in facts.prefetch_hints):
            yield _unavailable(parameter, "cycles", reason or f"this machine has no prefetch hint {hint}")
        elif state not in wanted:
            lacking = f"no {state} prefetch was seen to fill level 1"
            yield Answer(reason=lacking).finding(parameter, "cycles", "store after a prefetch")


def _timed_stores(run: _Run, own: int, others: list[int], wanted: dict[str, str]) -> Iterator[Finding]:
    kinds = (sharing.ADDITIONS, sharing.OWN, sharing.NONE, *wanted.values())
    table: dict[str, dict[str, float]] = {}
    holders = [count for count in (1, 2, 4, MOST_HOLDERS) if count <= len(others)]
    for count in holders:
        rounds = FAST_STORE_ROUNDS if run.context.fast else STORE_ROUNDS
        cycles: dict[str, list[float]] = {kind: [] for kind in kinds[1:]}
        for number in range(rounds if count == 1 else rounds // 4):
            run.context.progress(f"stores to lines that {count} other cores hold, round {number + 1} of {rounds}")
            ticks = sharing.stores_after(run.context, run.region, own, others[:count], kinds, STORE_REPETITIONS)
            per_tick = quick_cycles_per_tick(run.context)
            base = mean_ticks(ticks[sharing.ADDITIONS], run.step)
            for kind, told in cycles.items():
                told.append((mean_ticks(ticks[kind], run.step) - base) * per_tick + BASELINE_ADDITIONS)
        estimates = {kind: over_rounds(told) for kind, told in cycles.items()}
        table[str(count)] = {kind: estimate.value for kind, estimate in estimates.items()}
        if count == 1:
            for state, hint in wanted.items():
                method = f"store and full fence after prefetch {hint} of a line that another core loaded"
                yield held_up.store_latency(f"software_prefetch.store_after.{state}", estimates[hint], method)
    run.context.evidence["store_after"] = {"hints": wanted, "cycles_by_holders": table}


# -- hardware prefetchers ------------------------------------------------------------------------------------------


def _training(run: _Run) -> Iterator[Finding]:
    run.context.progress("whether prefetches wake hardware prefetchers")
    patterns = {
        "a run of prefetches": training.run_of_prefetches(run.context, run.region, run.hint, run.samples // 2),
        "visits by prefetches": training.visits_by_prefetches(run.context, run.region, run.hint, run.samples // 2),
    }
    shares = {name: run.shares(*ticks) for name, ticks in patterns.items()}
    run.context.evidence["training"] = {name: each.of("memory").tolist() for name, each in shares.items()}
    method = f"patterns of prefetches {run.hint} alone, then a load of a line that they point to"
    found = infer.trains_hardware(shares)
    yield found.finding("software_prefetch.trains_hardware", "bool", method, "training")


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

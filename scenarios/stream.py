"""The classical STREAM benchmark: memory bandwidth of the kernels Copy, Scale, Add and Triad, run on all CPUs at once.

As McCalpin asks, an array has at least four times the size of the last cache. Short blocks of the arrays are timed, not
whole passes: a pass lasts for milliseconds, in which a busy host may take a CPU away from one thread, for which all the
others wait. McCalpin reports the best of several runs; this scenario reports the 84th percentile of rounds with its
interval. Each kernel runs as an unrolled and as a rolled loop, and the faster one is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setebench.errors import UsageError
from setebench.experiments.levels import find_levels
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import choose_cpus, kernels_of, widths_of, without_kernels
from setebench.experiments.streams.outgrowing import outgrowing
from setebench.experiments.streams.timed import Case, Stream, measure
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.rounds import rate_of_rounds

EVIDENCE = "stream"
TABLE = {"copy": "Copy", "scale": "Scale", "add": "Add", "triad": "Triad"}

SECONDS, FAST_SECONDS = 30.0, 10.0
"""Time budget (see `Budget`) of all rounds together: McCalpin's program takes about as long on a large machine."""

ARRAY_TIME = 0.03
"""Share of the time budget that one pass over an array may take."""

MEMORY_PART = 1 / 6
"""Largest share of the machine's memory that one array may take: three arrays leave half of the memory to others."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield one bandwidth finding in GB/s per kernel, or an unresolved one per kernel where memory is too small."""
    facts = context.machine.facts
    if not facts.kernels:
        yield without_kernels(facts)
        return
    threads = context.options.get("threads")
    cpus = choose_cpus(facts, context.cpu, len(facts.cpus) if threads is None else threads)
    (width,) = widths_of(facts)
    cases = [Case(kernel, width, cpus) for kernel in kernels_of(facts, tuple(TABLE))]
    budget = Budget(facts, FAST_SECONDS if context.fast else SECONDS)
    array, last = _array_bytes(context, int(budget.bytes(ARRAY_TIME)))
    if not array:
        reason = "there is no memory for arrays that outgrow the caches; --size names a size"
        yield from (decide.unresolved(case.parameter("memory"), "GB/s", reason) for case in cases)
        return
    streams = [Stream.over(case, "memory", case.kernel.arrays * array // len(cpus), 0) for case in cases]
    measure(context, streams, budget, last)
    context.evidence[EVIDENCE] = {
        "array_bytes_per_thread": array // len(cpus),
        "threads": len(cpus),
        "rounds_gb_per_s": {
            each.case.name: [one.gigabytes for one in each.rounds[each.best_form]] for each in streams if each.rounds
        },
    }
    for each in streams:
        yield _row(each, array)


def _array_bytes(context: Context, affordable: int) -> tuple[int, float]:
    """Return the bytes of one array over all threads (0 where memory can't hold arrays that outgrow the caches), and
    the bytes of the last cache. Raises `UsageError` where arrays of the user's size don't fit into memory."""
    most, mib = int(MEMORY_PART * context.machine.facts.memory_bytes), context.options.get("size")
    if mib is not None and not 1 <= mib <= most >> 20:
        raise UsageError(f"--size takes 1 to {most >> 20} MiB: three arrays must fit half of the memory")
    if mib is not None:
        return int(mib << 20), float(mib << 20)
    found = outgrowing(find_levels(context), affordable)
    return min(found.wanted, most) if found.least <= most else 0, found.last


def _row(stream: Stream, array: int) -> Finding:
    """Return the finding of one kernel: the 84th percentile of its rounds in GB/s, over arrays of `array` bytes."""
    parameter, name = stream.case.parameter("memory"), stream.case.kernel.name
    per_round = np.array([each.gigabytes for each in stream.rounds[stream.best_form]])
    rates = per_round[np.isfinite(per_round)]
    form = "rolled" if stream.best_form else "unrolled"
    spread = f"{rates.min():.4g} to {rates.max():.4g} GB/s"
    how = f"{TABLE[name]}, {form}, {len(rates)} rounds: {spread}, arrays of {array >> 20} MiB"
    return decide.measured(parameter, rate_of_rounds(rates), "GB/s", how, EVIDENCE)


SCENARIO = Scenario(
    name="stream",
    summary="the classical STREAM table (Copy, Scale, Add, Triad) of memory",
    answer=answer,
    parameters=("bandwidth.memory.",),
    options=(
        Option(name="threads", help="Number of threads. Default: one on every CPU.", type=int),
        Option(name="size", help="MiB of each array. Default: one that outgrows the caches.", type=int),
        PAGE_SIZE,
    ),
    order=90,
    needs=("clock", "levels"),
)

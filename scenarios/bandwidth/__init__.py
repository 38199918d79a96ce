"""Bandwidth of every cache level and of memory: streaming kernels over one data set per level, on one CPU and several.

A level's data set fits its capacity, which a latency sweep (`experiments.levels`) has measured. Fang et al. 2014, 5.4
and Figure 9; Molka et al. 2017, 3.3; the kernels are those of Röhl et al. 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from setebench.calibration import MEMORY, Levels
from setebench.errors import UnsupportedError
from setebench.experiments.levels import find_levels
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import (
    WIDTH,
    choose_cpus,
    kernels_of,
    thread_counts,
    widths_of,
    without_kernels,
)
from setebench.experiments.streams.nodes import matrix
from setebench.experiments.streams.outgrowing import Outgrowing, outgrowing
from setebench.experiments.streams.timed import Case, Stream, measure
from setebench.probe.kernels import KERNELS
from setebench.report.plots.plot import bandwidth_figure
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario
from setebench.stats import decide

from .findings import EVIDENCE, evidence_of, findings_of
from .sets import bytes_of, shared

ACCESSING = tuple(name for name, kernel in KERNELS.items() if kernel.accesses)
"""Names of the kernels that load or store. Prefetch-only kernels are left out: a dropped prefetch moves no bytes."""

DEFAULT_KERNELS = ("load", "store", "copy", "triad")

SECONDS, FAST_SECONDS = 18.0, 6.0
"""Time budget (see `Budget`) of all rounds together, by default and with --fast."""

SMALL_BYTES, SMALL_LEAST, SMALL_TIME = 1 << 19, 1 << 17, 1 / 8000
"""Bytes that a sample of a small data set streams over: many passes, so branch predictors learn where a pass ends. If
these take more than the share `SMALL_TIME` of the budget, fewer do, at least `SMALL_LEAST`: brackets add 2 % then."""

MEMORY_TIME = 0.03
"""Share of the time budget that one pass over memory's data set may take."""

SPACED = 1.25
"""Memory that a data set takes, relative to its bytes: the arrays of a block have gaps between them."""

NO_ROOM = "no data set of so many threads outgrows the level before and fits this one, in the memory that there is"


def answer(context: Context) -> Iterator[Finding]:
    """Yield the bandwidth of every level in GB/s and bytes per cycle, by kernel, access width and thread count."""
    facts = context.machine.facts
    if not facts.kernels:
        yield without_kernels(facts)
        return
    cases = _cases(context)
    if not cases:
        return
    levels, budget = find_levels(context), Budget(facts, FAST_SECONDS if context.fast else SECONDS)
    memory = outgrowing(levels, int(budget.bytes(MEMORY_TIME)))
    small = max(SMALL_LEAST, min(SMALL_BYTES, int(budget.bytes(SMALL_TIME))))
    sizes = {case: _sizes(context, levels, case, memory) for case in cases}
    streams = {
        case: [
            Stream.over(case, level, size, small, shared=shared(levels, level)) for level, size in own.items() if size
        ]
        for case, own in sizes.items()
    }
    measure(context, [each for own in streams.values() for each in own], budget, memory.last)
    sweeps = [evidence_of(case, own) for case, own in streams.items() if own]
    context.evidence[EVIDENCE] = {"sweeps": sweeps}
    per_ns = levels.pace.value * facts.ticks_per_second / 1e9 if levels.pace else None
    for case in cases:
        yield from (
            decide.unresolved(case.parameter(each), "GB/s", NO_ROOM) for each in sizes[case] if not sizes[case][each]
        )
        for stream in streams[case]:
            yield from findings_of(stream, per_ns)

    def loads(own: Context, cpus: tuple[int, ...], parts: int) -> Iterator[Finding]:
        case = replace(cases[0], cpus=cpus)
        if not (size := _sizes(own, levels, case, memory)[MEMORY]):
            raise UnsupportedError(NO_ROOM)
        stream = Stream.over(case, MEMORY, size, 0)
        measure(own, [stream], Budget(facts, FAST_SECONDS, parts), memory.last)
        yield from findings_of(stream)

    yield from matrix(context, loads, "bandwidth.memory", "GB/s")


def _cases(context: Context) -> list[Case]:
    """Return each combination of kernel, width and CPUs. Those on the same CPUs, which use the same memory, adjoin."""
    facts, options = context.machine.facts, context.options
    kernels = kernels_of(facts, tuple(options.get("kernel") or DEFAULT_KERNELS))
    widths = widths_of(facts, tuple(options.get("width") or ()))
    counts = thread_counts(options.get("threads"), len(facts.cpus))
    groups = [choose_cpus(facts, context.cpu, threads) for threads in counts]
    cases = [Case(kernel, width, cpus) for cpus in groups for kernel in kernels for width in widths]
    return list(dict.fromkeys(cases))  # what is named twice would be measured twice in each round


def _sizes(context: Context, levels: Levels, case: Case, memory: Outgrowing) -> dict[str, int]:
    """Return the bytes of one thread's data set by level name, 0 where there is no room: those of all the case's
    threads may take a quarter of the memory. Non-temporal stores bypass caches, so they get a set in memory only."""
    threads, facts = len(case.cpus), context.machine.facts
    room, found = facts.memory_bytes // (4 * threads), bytes_of(levels, facts, case.cpus)
    least, most = memory.least // threads, int(room / SPACED)
    found[MEMORY] = min(memory.wanted // threads, most) if least <= most else 0
    return {level: found[level] if found[level] <= room else 0 for level in ([MEMORY] if case.kernel.bypass else found)}


SCENARIO = Scenario(
    name="bandwidth",
    summary="bandwidth of every level and of memory, by streaming kernels on one CPU and on several",
    answer=answer,
    parameters=("bandwidth.",),
    options=(
        Option(name="kernel", help="Kernel to run; may be repeated.", choices=ACCESSING, multiple=True),
        WIDTH,
        Option(name="threads", help="Numbers of threads, such as 1,2,4, or each. Default: one, and all."),
        PAGE_SIZE,
    ),
    plot=bandwidth_figure,
    order=70,
    needs=("clock", "levels"),
)

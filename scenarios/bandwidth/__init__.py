"""Bandwidth of every level and of memory: streaming kernels over data sets of growing size, on one CPU and on several.

Fang et al. 2014, 5.4 and Figure 9; Molka et al. 2017, 3.3; the kernels are those of Röhl et al. 2015. Where the levels
end is found by a latency sweep (`experiments.levels`), so a peak belongs to a level because its data set fits there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

from setebench.calibration import MEMORY as MEMORY_LEVEL
from setebench.errors import UnsupportedError, UsageError
from setebench.experiments.streams.arithmetic import check_all
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import (
    MEMORY,
    PLACEMENT,
    PLACEMENTS,
    WIDTH,
    choose_cpus,
    kernels_of,
    nodes_for,
    thread_counts,
    widths_of,
    without_kernels,
)
from setebench.experiments.streams.points import Point
from setebench.experiments.streams.team import Team, team_bytes
from setebench.kernels import NAMES
from setebench.report.plots.bandwidth import bandwidth_figure
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide

from .findings import evidence_of, findings_of
from .levels import DataSets, levels_of, sets_of
from .params import PARAMS
from .prefetched import why_dropped
from .sweep import Case, Sweep, between, in_rounds, plotted

DEFAULT_KERNELS = ("load", "store", "copy", "triad")


def answer(context: Context) -> Iterator[Finding]:
    """Yield the peaks of every level for each kernel, width and number of threads."""
    facts = context.machine.facts
    if not facts.kernels:
        yield without_kernels(facts)
        return
    yield from _no_remote(context)
    cases = _cases(context)
    if not cases:
        return
    room = _room(context, cases)
    wrong = check_all(context, dict.fromkeys((case.kernel, case.width) for case in cases))
    for case in cases:
        if case.name in wrong:
            yield decide.unresolved(case.parameter("l1"), "GB/s", wrong[case.name])
    cases = [case for case in cases if case.name not in wrong]
    sets = _data_sets(context, cases, room)
    drawn: list[dict[str, Any]] = []
    context.evidence["bandwidth"] = {
        "data_sets": {str(len(cpus)): {**own.caches, MEMORY_LEVEL: own.memory} for cpus, own in sets.items()},
        "peak_gb_per_s": context.options.get("peak"),
        "sweeps": drawn,
    }
    for case, points, without in _measured(context, cases, sets, room):
        drawn.append(evidence_of(case, points))
        if not without and case.kernel.fetches:
            without = why_dropped(context, case.kernel)
        yield from findings_of(case, points, sets[case.cpus], without)


def _cases(context: Context) -> list[Case]:
    """Kernels, widths and CPUs to run on; those with the same CPUs beside each other, as they share their memory."""
    facts, options = context.machine.facts, context.options
    kernels = kernels_of(facts, tuple(options.get("kernel") or DEFAULT_KERNELS))
    widths = widths_of(facts, tuple(options.get("width") or ()))
    placement = options.get("placement") or PLACEMENTS[0]
    counts = thread_counts(options.get("threads"), len(facts.cpus))
    memory = tuple(options.get("memory") or ("local", "remote"))
    groups = [choose_cpus(facts, context.cpu, threads, placement) for threads in counts]
    cases = [
        Case(kernel, width, cpus, where == "remote")
        for cpus in groups
        for where in memory
        for kernel in kernels
        for width in (widths if kernel.accesses else ["64"])
        if where == "local" or all(nodes_for(facts, cpu) for cpu in cpus)
    ]
    return list(dict.fromkeys(cases))  # what was asked for twice would be measured twice in each round


def _no_remote(context: Context) -> Iterator[Finding]:
    """Says why there is no remote memory, where it was asked for."""
    facts = context.machine.facts
    if "remote" in (context.options.get("memory") or ()) and not all(nodes_for(facts, cpu) for cpu in facts.cpus):
        reason = f"every CPU needs a memory node and another one; {facts.name} has {len(facts.nodes)} to choose from"
        yield decide.unavailable("bandwidth.memory.remote", "GB/s", reason)


def _room(context: Context, cases: list[Case]) -> int:
    """Bytes that each thread's data set may have, local and remote ones beside each other. Raises `UsageError` for what
    can't be."""
    threads = max(case.threads for case in cases)
    room = context.machine.facts.memory_bytes // (2 * threads * len({case.remote for case in cases}))
    asked, peak = context.options.get("largest"), context.options.get("peak")
    if peak is not None and not peak > 0:
        raise UsageError("--peak takes a rate in GB/s above 0")
    if asked is not None and not 1 <= asked <= room >> 20:
        raise UsageError(f"--largest takes 1 to {room >> 20} MiB: {threads} threads have no more memory here")
    return room


def _data_sets(context: Context, cases: list[Case], room: int) -> dict[tuple[int, ...], DataSets]:
    """Data sets of every team of CPUs, up to where a pass over memory's would take more than its part of the time.

    What one thread alone does not find is no level: what is behind it may have another number."""
    levels, asked = levels_of(context), int(context.options.get("largest") or 0) << 20
    lines = _budget(context).bytes(1.0 / max(len(cases), 1))
    alone = choose_cpus(context.machine.facts, context.cpu, 1)
    found = {
        cpus: sets_of(context, levels, cpus, asked or min(int(lines / (2 * PARAMS.widest * len(cpus))), room))
        for cpus in dict.fromkeys([alone, *(case.cpus for case in cases)])
    }
    lacking = next((n for n, name in enumerate(levels.caches) if not found[alone].caches[name]), len(levels.caches))
    context.evidence["after_a_pass"] = {
        "ticks": {str(len(cpus)): {str(size): each for size, each in own.ticks.items()} for cpus, own in found.items()},
        "flushed_ticks": levels.flushed,
        "level_ticks": dict(levels.ticks),
    }
    return {cpus: own.without(levels.caches[lacking:]) for cpus, own in found.items()}


def _budget(context: Context) -> Budget:
    seconds = context.options.get("seconds") or (PARAMS.fast_seconds if context.fast else PARAMS.seconds)
    return Budget(context.machine.facts, seconds)


def _measured(
    context: Context, cases: list[Case], sets: dict[tuple[int, ...], DataSets], room: int
) -> Iterator[tuple[Case, list[Point], str]]:
    """Sweep all cases at once, round by round: the points of each, or why there are none."""
    budget, asked = _budget(context), int(context.options.get("largest") or 0) << 20
    chosen = {case: _sizes(case, sets[case.cpus], room, asked) for case in cases}
    sweeps: dict[Case, Sweep] = {}
    missing: dict[bool, str] = {}
    with ExitStack() as memory:
        for remote in sorted({case.remote for case in cases}):
            own = {case: sizes for case, sizes in chosen.items() if case.remote == remote}
            try:
                team = memory.enter_context(closing(_team(context, own, remote)))
            except UnsupportedError as error:
                if not remote:
                    raise
                missing[remote] = str(error)
                continue
            team.fill_all()
            sweeps |= {case: Sweep(context, case, team.part(case.cpus), sizes) for case, sizes in own.items()}
        in_rounds(list(sweeps.values()), budget, PARAMS.fast_rounds if context.fast else PARAMS.rounds)
        local = {case: sweep for case, sweep in sweeps.items() if not case.remote}
        plotted({sweep: between(chosen[case], context.fast) for case, sweep in local.items()}, budget)
    for case in cases:
        yield case, sweeps[case].points if case in sweeps else [], missing.get(case.remote, "")


def _sizes(case: Case, sets: DataSets, room: int, asked: int) -> list[int]:
    """Data sets that findings of a case come from: of caches, for which it makes no difference where memory lies, and
    of memory."""
    largest = asked or min(int(PARAMS.widest * sets.memory), room)
    inside = [size for name in sets.caches for size in sets.caches[name] if not (case.remote or case.kernel.bypass)]
    return [*inside, *([largest] if largest else [])]


def _team(context: Context, chosen: dict[Case, list[int]], remote: bool) -> Team:
    """Memory on all CPUs of these cases, for the largest data set of each. Raises `UnsupportedError` where there is
    none."""
    needed: dict[int, int] = {}
    for case, sizes in chosen.items():
        size = team_bytes(max(sizes, default=PARAMS.smallest))
        needed |= {cpu: max(size, needed.get(cpu, 0)) for cpu in case.cpus}
    return Team(context, list(needed), needed, remote=remote)


SCENARIO = Scenario(
    name="bandwidth",
    summary="bandwidth of every level and of memory, by streaming kernels on one CPU and on several",
    answer=answer,
    parameters=("bandwidth.",),
    options=(
        Option(name="kernel", help="Kernel to run; may be repeated.", choices=NAMES, multiple=True),
        WIDTH,
        Option(name="threads", help="Numbers of threads, such as 1,2,4, or each. Default: one, and all."),
        PLACEMENT,
        MEMORY,
        Option(
            name="largest", help="Largest data set of a thread in MiB. Default: one that outgrows all caches.", type=int
        ),
        Option(name="peak", help="The memory's peak by its data sheet in GB/s, for the plot.", type=float),
        Option(name="seconds", help="Time to spend on sweeps. Default: 18, or 6 with --fast.", type=float),
    ),
    plot=bandwidth_figure,
    order=70,
    seconds=12.0,
)

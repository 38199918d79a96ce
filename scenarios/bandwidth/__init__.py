"""Bandwidth of every level and of memory: streaming kernels over data sets of growing size, on one CPU and on several.

Fang et al. 2014, 5.4 and Figure 9; Molka et al. 2017, 3.3; the kernels are those of Röhl et al. 2015. Where the levels
end is found by a latency sweep (`experiments.levels`), so a rate belongs to a level because its data set fits there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from setebench.calibration import MEMORY, Levels
from setebench.errors import UnsupportedError, UsageError
from setebench.experiments.size_sweep import SizeSweepParams
from setebench.experiments.streams.arithmetic import check_all
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import MEMORY as WHICH_MEMORY
from setebench.experiments.streams.choice import (
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
from setebench.experiments.streams.team import Team
from setebench.kernels import NAMES
from setebench.report.plots.bandwidth import bandwidth_figure
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide

from .findings import EVIDENCE, evidence_of, findings_of, levels_for, no_room
from .params import PARAMS
from .prefetched import why_dropped
from .sets import bytes_of, data_set, levels_of, shared
from .timed import Case, Stream, Timer

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
    levels = levels_of(context)
    sizes = {case: _sizes(context, levels, case, room) for case in cases}
    small = max(PARAMS.small_least, min(PARAMS.small_bytes, int(_budget(context).bytes(PARAMS.small_time))))
    streams = {
        case: [
            Stream(case, level, data_set(case.kernel, size, small), shared(levels, level))
            for level, size in own.items()
            if size
        ]
        for case, own in sizes.items()
    }
    missing = _measure(context, levels, streams)
    context.evidence[EVIDENCE] = {
        "peak_gb_per_s": context.options.get("peak"),
        "sweeps": [evidence_of(case, own) for case, own in streams.items() if own and case.remote not in missing],
    }
    for case in cases:
        yield from _reported(context, case, sizes[case], streams[case], missing)


def _reported(
    context: Context, case: Case, sizes: dict[str, int], streams: list[Stream], missing: dict[bool, str]
) -> Iterator[Finding]:
    """The rates of a case, or why it has none."""
    without = missing.get(case.remote, "")
    if not without and case.kernel.fetches:
        without = why_dropped(context, case.kernel)
    if without:
        yield from (decide.unresolved(case.parameter(level), "GB/s", without) for level in sizes)
        return
    yield from (no_room(case, level) for level, size in sizes.items() if not size)
    for stream in streams:
        yield from findings_of(stream)


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


def _sizes(context: Context, levels: Levels, case: Case, room: int) -> dict[str, int]:
    """Bytes of a thread's data set in each level that a case is of."""
    found = bytes_of(levels, context.machine.facts, case.cpus)
    asked = int(context.options.get("largest") or 0) << 20
    least = min(PARAMS.memory_least, int(_budget(context).bytes(PARAMS.memory_time))) // case.threads
    wanted, most = found[MEMORY], int(room / PARAMS.spaced)
    found[MEMORY] = asked or (min(max(wanted, least), most) if wanted <= most else 0)
    return {level: found[level] if found[level] <= room else 0 for level in levels_for(case, list(found))}


def _budget(context: Context) -> Budget:
    seconds = context.options.get("seconds") or (PARAMS.fast_seconds if context.fast else PARAMS.seconds)
    return Budget(context.machine.facts, seconds)


def _measure(context: Context, levels: Levels, streams: dict[Case, list[Stream]]) -> dict[bool, str]:
    """Time all streams, local and remote ones, round by round; why some have no memory, by whether it is remote."""
    budget, missing = _budget(context), dict[bool, str]()
    budget = budget.part(1 / max(1, len({case.remote for case in streams})))
    for remote in sorted({case.remote for case in streams}):
        own = [stream for case, each in streams.items() if case.remote == remote for stream in each]
        try:
            team = _team(context, own, remote)
        except UnsupportedError as error:
            if not remote:
                raise
            missing[remote] = str(error)
            continue
        with closing(team):
            team.fill_all()
            last = levels.ends_bytes.get(levels.caches[-1], float(SizeSweepParams().largest))
            Timer(context, team, budget.part(1.0), last).all(own)
    return missing


def _team(context: Context, streams: list[Stream], remote: bool) -> Team:
    """Memory on all CPUs of these streams, for the largest data set of each. Raises `UnsupportedError` where there is
    none."""
    needed: dict[int, int] = {}
    for stream in streams:
        size = stream.data.blocks * stream.data.spacing
        needed |= {cpu: max(size, needed.get(cpu, 0)) for cpu in stream.case.cpus}
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
        WHICH_MEMORY,
        Option(
            name="largest", help="Largest data set of a thread in MiB. Default: one that outgrows all caches.", type=int
        ),
        Option(name="peak", help="The memory's peak by its data sheet in GB/s, for the plot.", type=float),
        Option(name="seconds", help="Time to spend on sweeps. Default: 18, or 6 with --fast.", type=float),
    ),
    plot=bandwidth_figure,
    order=70,
    seconds=12.0,
    needs=("clock", "levels"),
)

"""Diagnosing on this machine: a program, a process or a function of Python is counted by interval and sampled, and a
document comes of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import store
from setebench.counters import verdicts
from setebench.counters.counted import Interval, Run, regions
from setebench.diagnose.document import Frame, diagnosed
from setebench.diagnose.figures import USEFUL_WORK, Basis
from setebench.diagnose.observers import Sets, Turns, WorkByThread, sets_of, without_resting, work_event
from setebench.diagnose.records import Hit, Thread, Timeline, summed
from setebench.diagnose.samples import TimeSampling
from setebench.host.environment import read_environment
from setebench.machine import open_machine
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver, Wanted
from setebench.native.perf.messages import Situation
from setebench.native.perf.opened import Counters, Target
from setebench.native.perf.program.run import Ending, Job, Programs, Rows, threads_of
from setebench.native.perf.tables import this_key
from setebench.native.threads import allowed_cpus
from setebench.results import Document, MachineRecord

Observe = Callable[[], tuple[Timeline, Run]]

PMU_ROLES = (
    *("cycles", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
    *("l1d_inflight_sum", "l1d_inflight_cycles", "load_l1_miss", "load_fb_hit", "load_l1_miss_any"),
    *("mem_read", "mem_write", "home_read", "home_write", "offcore_mem_read"),
    *("load", "store", "l1d_fill", "l1d_writeback", "l2_fill", "l2_writeback"),
    *("hitm_local", "hitm_remote", "fp_op"),
)
"""What is counted where there is a PMU for it, what most is made of first."""
MOST_INTERVALS = 600
"""Of a timeline: more than a plot shows; of a longer run neighbours are added up."""


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What observing needs: what the system allows, what is to be counted, in which sets by turns, where not all fits
    at once, and by which role the work of each thread."""

    situation: Situation
    wanted: tuple[Wanted, ...]
    sets: Sets = ()
    work: Wanted | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to diagnose. `interval`: seconds between two reads of the counters, about 0.2 ms each. `samples_hz`: samples
    of time a second and CPU, 0 for none; about 20 us each, so 199 take 0.4 %, and a prime number is in step with
    nothing that the program does regularly. `limit`: seconds after which to end, None for none. `basis`: by which
    verdicts and calibration to read the counts (None: by the verdicts stored for this machine). `probe_latency`:
    whether an idle core probes memory latency beside the program."""

    interval: float = 0.1
    samples_hz: int = 199
    limit: float | None = None
    basis: Basis | None = None
    probe_latency: bool = False


def native_kit() -> Kit:
    """Every role that diagnosing needs, with its event here, or the reason why there is none."""
    resolver = Resolver()
    wanted = tuple(map(resolver.of_role, (*SYSTEM_ROLES, *PMU_ROLES)))
    work = work_event(wanted, USEFUL_WORK)
    always = ("cycles",) if work is None else ("cycles", work.name)  # it has a counter of its own for all of the time
    sets = sets_of([each.name for each in wanted if not each.reason], always)
    return Kit(situation=resolver.situation, wanted=wanted, sets=sets, work=work)


def diagnose_program(command: Sequence[str], options: Options | None = None) -> tuple[Document, Run]:
    """Run a program and say what limits it. It has our standard input, output and error.

    Raises `SetebenchError` for what can't be started."""
    chosen = options or Options()
    return _document_of(lambda: observe_program(native_kit(), chosen, command), chosen)


def diagnose_process(process: int, options: Options | None = None) -> tuple[Document, Run]:
    """The same of a process that runs already. Raises `SetebenchError` where there is none."""
    chosen = options or Options()
    return _document_of(lambda: _observe_process(native_kit(), chosen, process), chosen)


def diagnose(
    function: Callable[..., Any], /, *arguments: Any, options: Options | None = None, **keywords: Any
) -> Document:
    """Call `function` with these arguments and say what limits it, as `setebench diagnose` says of a program.

    Counted are all threads that this process has, and those that they start meanwhile. What the function raises is
    raised, and nothing is said then."""
    chosen = options or Options()
    name = getattr(function, "__qualname__", repr(function))
    kit = native_kit()
    document, _run = _document_of(
        lambda: _observe_function(kit, chosen, lambda: function(*arguments, **keywords), name), chosen
    )
    return document


def _document_of(observe: Observe, options: Options) -> tuple[Document, Run]:
    """What is observed, as a document. Raises `SetebenchError` for verdicts that can't be read."""
    machine = this_machine()
    settings: dict[str, Any] = {
        "interval_seconds": options.interval,
        "samples_hz": options.samples_hz,
        "probe_latency": options.probe_latency,
        "machine": "native",
    }
    frame = Frame(machine=machine, settings=settings, started=datetime.now(UTC))
    # before the program runs: verdicts may have expired
    basis = options.basis or Basis(verdicts=verdicts.stored(this_key(), machine.name))
    timeline, run = _probed(observe, options) if options.probe_latency else observe()
    return diagnosed(timeline, basis, frame), run


def _probed(observe: Observe, options: Options) -> tuple[Timeline, Run]:
    """Observe while an idle core probes memory latency. Raises `UnsupportedError` where no core is idle."""
    from setebench.diagnose.probing import LatencyProbe, idle_core

    cpu = idle_core()
    with closing(open_machine("native", cpu=cpu)) as machine:
        probe = LatencyProbe(machine, cpu, options.interval)
        begin = time.monotonic()
        probe.start()
        try:
            timeline, run = observe()
        finally:
            end = time.monotonic()
            probe.end()
    return probe.added_to(timeline, begin, end), run


def this_machine() -> MachineRecord:
    """What the system says of this machine; nothing is measured."""
    environment = read_environment()
    name = environment.cpu.name or "this CPU"
    facts = {"name": name, "kind": "native", "cpus": list(allowed_cpus())}
    known = store.plain(msgspec.to_builtins(environment))
    return MachineRecord(kind="native", name=name, facts=facts, environment=known)


# -- observing --------------------------------------------------------------------------------------------------------


def observe_program(kit: Kit, options: Options, command: Sequence[str]) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end.

    Raises as `native.perf.program.run.Programs.run` does."""
    job = Job(wanted=kit.wanted, interval=options.interval, limit=options.limit)
    with TimeSampling(options.samples_hz) as sampling, WorkByThread(kit.work) as work:
        run, _events = Programs(kit.situation, (sampling, Turns(kit.sets), work)).run(job, command)
        timeline = _timeline(kit, run, sampling, tuple(command))
        return msgspec.structs.replace(timeline, threads=work.added_to(timeline.threads)), run


def _observe_process(kit: Kit, options: Options, process: int) -> tuple[Timeline, Run]:
    """Observe a process that runs already, and what it starts, until it ends, the time is over, or a signal comes."""
    name: tuple[str, ...] = (f"process {process}",)
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        name = tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    job = Job(wanted=kit.wanted, interval=options.interval, limit=options.limit)
    with TimeSampling(options.samples_hz, attached=True) as sampling:
        run, _events = Programs(kit.situation, (sampling, Turns(kit.sets))).attach(job, process)
        return _timeline(kit, run, sampling, name), run


def _observe_function(kit: Kit, options: Options, call: Callable[[], Any], name: str) -> tuple[Timeline, Run]:
    """The timeline of one call. Another thread, which is not counted, reads the counters at the end of every interval
    meanwhile. Raises what the call raises."""
    begun, over = threading.Event(), threading.Event()

    def read() -> None:
        begun.wait()
        while not over.wait(options.interval):
            rows.tick(time.monotonic() - begin)

    reader = threading.Thread(target=read, name="setebench-diagnose", daemon=True)
    reader.start()
    threads = tuple(thread for thread in threads_of(os.getpid()) if thread != reader.native_id)
    target = Target(threads=threads, inherit=True)
    try:
        with (
            Counters(kit.wanted, target, kit.situation) as counters,
            TimeSampling(options.samples_hz, attached=True) as sampling,
        ):
            sampling.open_threads(os.getpid(), threads, (threading.get_native_id(),))
            turns = Turns(kit.sets)
            turns.open(os.getpid(), counters)
            rows = Rows(counters, options.interval, (sampling, turns))
            counters.switch(True)
            begin = time.monotonic()
            begun.set()
            call()
            over.set()
            reader.join()
            run = rows.run(Ending(elapsed=time.monotonic() - begin))
            return _timeline(kit, run, sampling, (name,)), run
    finally:
        over.set()
        begun.set()
        reader.join()


def _timeline(kit: Kit, run: Run, sampling: TimeSampling, program: tuple[str, ...]) -> Timeline:
    """What was counted and sampled, put together."""
    profile = sampling.profile()
    intervals = [
        msgspec.structs.replace(each, counts=without_resting(each.counts, kit.sets, number))
        for number, each in enumerate(run.intervals)
    ]
    if not kit.sets:  # sums over turns would lack all of them
        intervals = _joined(intervals)
    hits = profile.hits([each.end for each in intervals])
    killed = f"killed by signal {run.signal}" if run.signal is not None else ""
    return Timeline(
        program=program,
        intervals=tuple(intervals),
        roles={each.name: run.counts[each.name].reason for each in kit.wanted},
        hits=hits,
        threads=_threads(hits, profile.names),
        regions=tuple(regions(run.regions)),
        unsampled=sampling.reason or ("" if hits else "the program took too little CPU time for a sample"),
        lost_samples=sampling.lost,
        ending=killed or ("" if run.status is None else f"exit status {run.status}"),
    )


def _joined(intervals: Sequence[Interval]) -> list[Interval]:
    """At most `MOST_INTERVALS`: neighbours added up where there are more."""
    size = max(1, -(-len(intervals) // MOST_INTERVALS))
    groups = [intervals[first : first + size] for first in range(0, len(intervals), size)]
    return [
        Interval(
            begin=group[0].begin,
            end=group[-1].end,
            counts=summed([each.counts for each in group], tuple(group[0].counts)),
        )
        for group in groups
    ]


def _threads(hits: Sequence[Hit], names: dict[int, str]) -> tuple[Thread, ...]:
    """Threads by the samples that named them, in the order of their numbers."""
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return tuple(Thread(number=each, name=names.get(each, ""), cpu_seconds=seconds[each]) for each in sorted(seconds))

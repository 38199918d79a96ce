"""Diagnosing on this machine: what is counted, by which verdicts it is read, and the document that comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import store
from setebench.counters import verdicts
from setebench.counters.counted import Run
from setebench.diagnose.analysis import Basis
from setebench.diagnose.document import Frame, diagnosed
from setebench.diagnose.findings import USEFUL_WORK
from setebench.diagnose.observing.observe import Kit, observe_process, observe_program
from setebench.diagnose.observing.time_samples import Wish
from setebench.diagnose.observing.turns import sets_of
from setebench.diagnose.observing.work import choice
from setebench.diagnose.records import Timeline
from setebench.host.environment import read_environment
from setebench.machine import open_machine
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.program.wanted import Resolver
from setebench.native.perf.trust import this_key
from setebench.native.threads import allowed_cpus
from setebench.results import Document, MachineRecord

Observe = Callable[[], tuple[Timeline, Run]]

PMU_ROLES = (
    *("cycles", "instructions", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
    *("l1d_inflight_sum", "l1d_inflight_cycles", "load_l1_miss", "load_fb_hit", "load_l1_miss_any"),
    *("mem_read", "mem_write", "home_read", "home_write", "offcore_mem_read"),
    *("load", "store", "l1d_fill", "l1d_writeback", "l2_fill", "l2_writeback"),
    *("hitm_local", "hitm_remote", "fp_op"),
)
"""What is counted where there is a PMU for it, what most is made of first."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to diagnose: how closely to observe, by which verdicts and calibration to read the counts (None: by the
    verdicts kept for this machine), and whether an idle core watches memory latency beside the program."""

    wish: Wish = msgspec.field(default_factory=Wish)
    basis: Basis | None = None
    probe_latency: bool = False


def native_kit() -> Kit:
    """Every role that diagnosing asks for, with its event here, or the reason why there is none."""
    resolver = Resolver()
    wanted = tuple(map(resolver.of_role, (*SYSTEM_PLANS, *PMU_ROLES)))
    countable = [each.name for each in wanted if not each.plan.reason]
    work = choice(wanted, USEFUL_WORK)
    always = ("cycles",) if work is None else ("cycles", work.name)  # it has a counter of its own for all of the time
    return Kit(situation=resolver.situation, wanted=wanted, sets=sets_of(countable, always), work=work)


def diagnose_program(command: Sequence[str], options: Options | None = None) -> tuple[Document, Run]:
    """Run a program and say what limits it. It has our standard input, output and error.

    Raises `SetebenchError` for what can't be started."""
    chosen = options or Options()
    return document_of(lambda: observe_program(native_kit(), chosen.wish, command), chosen)


def diagnose_process(process: int, options: Options | None = None) -> tuple[Document, Run]:
    """The same of a process that runs already. Raises `SetebenchError` where there is none."""
    chosen = options or Options()
    return document_of(lambda: observe_process(native_kit(), chosen.wish, process), chosen)


def document_of(observe: Observe, options: Options) -> tuple[Document, Run]:
    """What is observed, as a document. Raises `SetebenchError` for verdicts that can't be read."""
    machine = this_machine()
    settings: dict[str, Any] = {
        "interval_seconds": options.wish.interval,
        "samples_hz": options.wish.samples_hz,
        "probe_latency": options.probe_latency,
        "machine": "native",
    }
    frame = Frame(machine=machine, settings=settings, started=datetime.now(UTC))
    # before the program runs: verdicts may have expired
    basis = options.basis or Basis(verdicts=verdicts.kept(this_key(), machine.name))
    timeline, run = _watched(observe, options) if options.probe_latency else observe()
    return diagnosed(timeline, basis, frame), run


def _watched(observe: Observe, options: Options) -> tuple[Timeline, Run]:
    """Observe while an idle core watches memory latency. Raises `UnsupportedError` where no core is idle."""
    from setebench.diagnose.observing.watch import LatencyWatch, idle_core

    cpu = idle_core()
    with closing(open_machine("native", cpu=cpu)) as machine:
        watch = LatencyWatch(machine, cpu, options.wish.interval)
        begin = time.monotonic()
        watch.start()
        try:
            timeline, run = observe()
        finally:
            end = time.monotonic()
            watch.end()
    return watch.added_to(timeline, begin, end), run


def this_machine() -> MachineRecord:
    """What the system says of this machine; nothing is measured."""
    environment = read_environment()
    name = environment.cpu.name or "this CPU"
    facts = {"name": name, "kind": "native", "cpus": list(allowed_cpus())}
    known = store.plain(msgspec.to_builtins(environment))
    return MachineRecord(kind="native", name=name, facts=facts, environment=known)

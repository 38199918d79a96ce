"""Diagnosing on this machine: what is counted, by which verdicts it is read, and the document that comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import store
from setebench.counters.counted import Run
from setebench.counters.roles import ROLES
from setebench.diagnose.analysis import Basis
from setebench.diagnose.calibration import basis
from setebench.diagnose.document import Frame, diagnosed
from setebench.diagnose.findings import USEFUL_WORK
from setebench.diagnose.observing.observe import Kit, observe_process, observe_program
from setebench.diagnose.observing.time_samples import Wish
from setebench.diagnose.observing.turns import sets_of
from setebench.diagnose.observing.work import choice
from setebench.diagnose.records import Timeline
from setebench.host.environment import read_environment
from setebench.machine import open_machine
from setebench.native.perf import _perf
from setebench.native.perf.messages import read_situation
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.program.native import native_resolver
from setebench.native.perf.program.wanted import Wanted, system_event
from setebench.native.perf.trust import this_key
from setebench.native.threads import allowed_cpus
from setebench.results import Document, MachineRecord

Observe = Callable[[], tuple[Timeline, Run]]

PMU_ROLES = (
    *("cycles", "instructions", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
    *("l1d_inflight_sum", "l1d_inflight_cycles", "load_l1_miss", "load_fb_hit", "load_l1_miss_any"),
    *("mem_read", "mem_write", "home_read", "home_write", "offcore_mem_read", "remote_read", "link_flit"),
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
    """This machine's kernel, and every role that diagnosing asks for."""
    wanted = roles_wanted()
    countable = [each.name for each in wanted if not each.plan.reason]
    work = choice(wanted, USEFUL_WORK)
    always = ("cycles",) if work is None else ("cycles", work.name)  # it has a counter of its own for all of the time
    return Kit(kernel=_perf, situation=read_situation(), wanted=wanted, sets=sets_of(countable, always), work=work)


def roles_wanted() -> tuple[Wanted, ...]:
    """Every role that figures are made of, with its event here, or the reason why there is none."""
    resolver = native_resolver()
    return (*map(system_event, SYSTEM_PLANS), *(resolver.of_role(role) for role in PMU_ROLES if role in ROLES))


def diagnose_program(command: Sequence[str], options: Options | None = None) -> tuple[Document, Run]:
    """Run a program and say what limits it. It has our standard input, output and error.

    Raises `SetebenchError` for what can't be started."""
    chosen = options or Options()
    return _document(lambda: observe_program(native_kit(), chosen.wish, command), chosen)


def diagnose_process(process: int, options: Options | None = None) -> tuple[Document, Run]:
    """The same of a process that runs already. Raises `SetebenchError` where there is none."""
    chosen = options or Options()
    return _document(lambda: observe_process(native_kit(), chosen.wish, process), chosen)


def _document(observe: Observe, options: Options) -> tuple[Document, Run]:
    frame = Frame(machine=this_machine(), settings=settings(options), started=datetime.now(UTC))
    read_by = basis_of(options)  # before the program runs: verdicts may have expired
    timeline, run = _watched(observe, options) if options.probe_latency else observe()
    return diagnosed(timeline, read_by, frame), run


def basis_of(options: Options) -> Basis:
    """By what the counts are read. Raises `SetebenchError` for verdicts that can't be read."""
    return options.basis or basis(this_key(), this_machine().name)


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


def settings(options: Options) -> dict[str, Any]:
    """What a document says of how it came to be."""
    return {
        "interval_seconds": options.wish.interval,
        "samples_hz": options.wish.samples_hz,
        "probe_latency": options.probe_latency,
        "machine": "native",
    }


def this_machine() -> MachineRecord:
    """What the system says of this machine; nothing is measured."""
    environment = read_environment()
    facts = {"name": environment.cpu.name or "this CPU", "kind": "native", "cpus": list(allowed_cpus())}
    return MachineRecord(
        kind="native",
        name=str(facts["name"]),
        facts=facts,
        environment=store.plain(msgspec.to_builtins(environment)),
    )

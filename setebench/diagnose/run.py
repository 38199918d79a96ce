"""Diagnosing on this machine: a program is counted by interval and sampled, and a document comes of it.

Not all roles fit into the counters of a core at once. The kernel would let events take turns by itself, but for a few
milliseconds each and at unknown times. Turns of whole intervals are known, so each figure is made of intervals in which
all of its roles were counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

import msgspec

from setebench import store
from setebench.counters.counted import Interval, Run
from setebench.counters.protocol import Count
from setebench.diagnose.document import diagnosed
from setebench.diagnose.figures import Basis
from setebench.diagnose.records import Thread, Timeline
from setebench.diagnose.samples import profile
from setebench.host.environment import read_environment
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver
from setebench.native.perf.opened import Counters
from setebench.native.perf.program.run import Job, Observer, run_program
from setebench.native.perf.sampling import Sampler
from setebench.native.threads import allowed_cpus
from setebench.results import Document, MachineRecord

PMU_ROLES = (
    *("cycles", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
    *("l1d_inflight_sum", "load_l1_miss", "load_fb_hit", "load_l1_miss_any"),
    *("mem_read", "mem_write", "home_read", "home_write", "offcore_mem_read"),
    *("hitm_local", "hitm_remote"),
)
"""What is counted where there is a PMU for it, what most is made of first."""
RESTING = "counted in other intervals: not all roles fit at once"

Sets = tuple[tuple[str, ...], ...]


INTERVAL = 0.1
"""Seconds between two reads of the counters, about 0.2 ms each."""


def diagnose_program(
    command: Sequence[str], basis: Basis, limit: float | None, probe_latency: bool
) -> tuple[Document, Run]:
    """Run a program, for `limit` seconds at most, and say what limits it; where wanted an idle core probes memory
    latency beside it. It has our standard input, output and error.

    Raises `SetebenchError` for what can't be started, `UnsupportedError` where no core is idle to probe latency."""
    settings = {"interval_seconds": INTERVAL, "probe_latency": probe_latency, "machine": "native"}
    from setebench.diagnose.probing import LatencyProbe

    machine, started = this_machine(), datetime.now(UTC)
    beside: AbstractContextManager[LatencyProbe | None] = LatencyProbe() if probe_latency else nullcontext()
    with beside as probe:
        timeline, run = observe_program(command, limit, () if probe is None else (probe,))
    if probe is not None:
        reason = "" if probe.points else "the program ended before its first point"
        timeline = msgspec.structs.replace(timeline, probed=probe.points, idle_ns=probe.idle_ns, unprobed=reason)
    return diagnosed(timeline, basis, machine, settings, started), run


def this_machine() -> MachineRecord:
    """What the system says of this machine; nothing is measured."""
    environment = read_environment()
    name = environment.cpu.name or "this CPU"
    facts = {"name": name, "kind": "native", "cpus": list(allowed_cpus())}
    known = store.plain(msgspec.to_builtins(environment))
    return MachineRecord(kind="native", name=name, facts=facts, environment=known)


def observe_program(
    command: Sequence[str],
    limit: float | None = None,
    observers: Sequence[Observer] = (),
    roles: Sequence[str] = (*SYSTEM_ROLES, *PMU_ROLES),
    sets: Sets = (),
) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end. Of the `roles` those of each set count by
    turns: of these sets, or of those that fit at once here.

    Raises as `native.perf.program.run.run_program` does."""
    resolver = Resolver()
    wanted = tuple(map(resolver.of_role, roles))
    sets = sets or resolver.groups([each.name for each in wanted if not each.reason], ("cycles",))
    turns = Turns(sets if len(sets) > 1 else ())
    job = Job(wanted=wanted, interval=INTERVAL, limit=limit)
    with Sampler() as sampling:
        run, _events = run_program(resolver.situation, job, command, (sampling, turns, *observers))
        hits, names = profile(sampling, [each.end for each in run.intervals])
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return Timeline(
        program=tuple(command),
        intervals=tuple(turns.counted(run.intervals)),
        roles={each.name: run.counts[each.name].reason for each in wanted},
        hits=hits,
        threads=tuple(
            Thread(number=each, name=names.get(each, ""), cpu_seconds=seconds[each]) for each in sorted(seconds)
        ),
        unsampled=sampling.reason or ("" if hits else "the program took too little CPU time for a sample"),
        ending=f"exit status {run.status}" if run.signal is None else f"killed by signal {run.signal}",
    ), run


class Turns:
    """Lets sets of roles count by turns, an interval each (a `native.perf.program.run.Observer`). Nothing rests in the
    first interval, which may begin with the program's exec; what then shares a counter says so itself."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._every = {role for each in sets for role in each}
        self._number = 0

    def open(self, _process: int, counters: Counters) -> None:
        """These are switched."""
        self._counters = counters

    def tick(self) -> None:
        """The next set's turn."""
        self._number += 1
        rests = self._resting(self._number)
        self._counters.switch(False, rests)
        self._counters.switch(True, self._every - rests)

    def _resting(self, number: int) -> set[str]:
        """Roles whose turn it is not in interval `number`."""
        return self._every - set(self._sets[(number - 1) % len(self._sets)]) if self._sets and number else set()

    def counted(self, intervals: Sequence[Interval]) -> Iterator[Interval]:
        """The intervals without the counts of roles whose turn it was not."""
        for number, each in enumerate(intervals):
            rests = (role for role in self._resting(number) if each.counts[role].value is not None)
            resting = {role: Count(role=role, reason=RESTING) for role in rests}
            yield msgspec.structs.replace(each, counts={**each.counts, **resting})

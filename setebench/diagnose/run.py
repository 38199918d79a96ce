"""Diagnosing on this machine: a program is counted by interval and sampled, and a document comes of it.

Not all roles fit into the counters of a core at once. The kernel would let events take turns by itself, but for a few
milliseconds each and at unknown times. Turns of whole intervals are known, so each figure is made of intervals in which
all of its roles were counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
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
from setebench.machine import open_machine
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver, Wanted
from setebench.native.perf.messages import Situation
from setebench.native.perf.opened import Counters
from setebench.native.perf.program.run import Job, run_program
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


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What observing needs: what the system allows, what is to be counted, and in which sets by turns, where not all
    fits at once."""

    situation: Situation
    wanted: tuple[Wanted, ...]
    sets: Sets = ()


INTERVAL = 0.1
"""Seconds between two reads of the counters, about 0.2 ms each."""


def native_kit() -> Kit:
    """Every role that diagnosing needs, with its event here, or the reason why there is none."""
    resolver = Resolver()
    wanted = tuple(map(resolver.of_role, (*SYSTEM_ROLES, *PMU_ROLES)))
    sets = resolver.groups([each.name for each in wanted if not each.reason], ("cycles",))
    return Kit(situation=resolver.situation, wanted=wanted, sets=sets if len(sets) > 1 else ())


def diagnose_program(
    command: Sequence[str], basis: Basis, limit: float | None, probe_latency: bool
) -> tuple[Document, Run]:
    """Run a program, for `limit` seconds at most, and say what limits it; where wanted an idle core probes memory
    latency beside it. It has our standard input, output and error.

    Raises `SetebenchError` for what can't be started, `UnsupportedError` where no core is idle to probe latency."""
    settings = {"interval_seconds": INTERVAL, "probe_latency": probe_latency, "machine": "native"}
    started, observe = datetime.now(UTC), _probed if probe_latency else observe_program
    timeline, run = observe(native_kit(), command, limit)
    return diagnosed(timeline, basis, this_machine(), settings, started), run


def _probed(kit: Kit, command: Sequence[str], limit: float | None) -> tuple[Timeline, Run]:
    """Observe while an idle core probes memory latency. Raises `UnsupportedError` where no core is idle."""
    from setebench.diagnose.probing import LatencyProbe, idle_core

    cpu = idle_core()
    with closing(open_machine("native", cpu=cpu)) as machine:
        probe = LatencyProbe(machine, cpu, INTERVAL)
        probe.start()
        try:
            timeline, run = observe_program(kit, command, limit)
        finally:
            probe.end()
    return probe.added_to(timeline), run


def this_machine() -> MachineRecord:
    """What the system says of this machine; nothing is measured."""
    environment = read_environment()
    name = environment.cpu.name or "this CPU"
    facts = {"name": name, "kind": "native", "cpus": list(allowed_cpus())}
    known = store.plain(msgspec.to_builtins(environment))
    return MachineRecord(kind="native", name=name, facts=facts, environment=known)


def observe_program(kit: Kit, command: Sequence[str], limit: float | None = None) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end.

    Raises as `native.perf.program.run.run_program` does."""
    job = Job(wanted=kit.wanted, interval=INTERVAL, limit=limit)
    turns = Turns(kit.sets)
    with Sampler() as sampling:
        run, _events = run_program(kit.situation, job, command, (sampling, turns))
        hits, names = profile(sampling, [each.end for each in run.intervals])
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return Timeline(
        program=tuple(command),
        intervals=tuple(turns.counted(run.intervals)),
        roles={each.name: run.counts[each.name].reason for each in kit.wanted},
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

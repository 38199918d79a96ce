"""A demonstration on a machine that counts events: three phases whose answers are known, diagnosed as a program is.

First arithmetic on a line in L1 (productive), then a chase over flushed lines (memory latency), then a stream over
flushed lines (memory bandwidth). It shows a diagnosis where no program can run, as on a simulated machine, and on a CPU
whether its events distinguish these three.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import numpy as np

from setebench.counters.counted import Interval
from setebench.counters.counting import countable, counted, hardware_roles
from setebench.counters.protocol import Count
from setebench.diagnose.records import Hit, Thread, Timeline
from setebench.diagnose.run import PMU_ROLES
from setebench.machine import Machine, Ticks
from setebench.probe import Base, Probe
from setebench.probe.kernels import array_spacing
from setebench.scenario import Context

INTERVALS = 6
"""Of each phase: two more than the least that give an interval with some sense."""
PAGES = 256
"""Of the chase, with a line in each."""
ARRAY_BYTES = 1 << 17
"""Of the stream: 2,000 lines, beside which its start is nothing."""
ROUNDS = 8000
"""Of a load from L1 and eight additions: as long as the other phases take."""


def demonstrate(machine: Machine) -> Timeline:
    """The timeline of the three phases. The work of an interval is run once for each group of events that fits at once.

    Raises `UnsupportedError` on a machine that counts none of the roles that figures are made of."""
    known, offered = countable(machine, PMU_ROLES), hardware_roles(machine)
    roles = {role: offered.get(role, "this machine knows no event for it") for role in PMU_ROLES}
    lacking = {role: Count(role=role, reason=reason) for role, reason in roles.items() if reason}
    intervals, hits, now = list[Interval](), list[Hit](), 0.0
    with ExitStack() as stack:
        for name, work, before, start in _phases(Context(machine=machine), stack):
            run, prepare = partial(_run, machine, work, start), partial(_run, machine, before, start)
            run()  # stitches the code, and warms the TLB
            for _ in range(INTERVALS):
                counts, ticks = counted(machine, known, run, prepare)
                seconds = float(np.median([each.sum() for each in ticks])) / machine.facts.ticks_per_second
                busy = round(1e9 * seconds)
                clock = {"task_clock": Count(role="task_clock", value=busy, enabled=busy, running=busy)}
                place = {"function": name, "object": "demonstration"}
                hits.append(Hit(interval=len(intervals), thread=1, samples=1, seconds=seconds, **place))
                intervals.append(Interval(begin=now, end=now + seconds, counts=counts | clock | lacking))
                now += seconds
    return Timeline(
        program=("demonstration:", ", ".join(dict.fromkeys(hit.function for hit in hits))),
        source="simulated" if machine.facts.kind == "sim" else "counted",
        intervals=tuple(intervals),
        roles=roles | {"task_clock": ""},
        hits=tuple(hits),
        threads=(Thread(number=1, name="demonstration", cpu_seconds=now),),
        ending="three phases",
    )


def _run(machine: Machine, work: Probe, start: int) -> Ticks:
    return machine.run(work, {base: np.full(1, start) for base in work.bases} or 1)


def _phases(context: Context, stack: ExitStack) -> Iterator[tuple[str, Probe, Probe, int]]:
    """Name, timed work, what is done before it uncounted, and where its memory starts."""
    machine, region = context.machine, stack.enter_context(context.memory(PAGES * 4096))
    rng, line, base = np.random.default_rng(1), region.line_size, Base("memory")

    def timed(work: Probe) -> Probe:
        return Probe().start(0, dither=False) + work.stop(0)

    hot = Probe().repeat(ROUNDS, Probe().load(base).add(8))
    yield "arithmetic", timed(hot), Probe().load(base), region.address
    offsets = rng.permutation(PAGES) * 4096 + rng.integers(16, 48, PAGES) * line
    machine.link(region, region.address + offsets)
    away = Probe()
    for offset in offsets.tolist():
        away = away.flush(base + offset)
    yield "chase", timed(Probe().chase(base + int(offsets[0]), PAGES)), away.fence(), region.address
    if "load" in machine.facts.kernels:
        start = stack.enter_context(context.memory(array_spacing(ARRAY_BYTES))).address
        stream = Probe().stream(base, "load", ARRAY_BYTES, max(machine.facts.access_sizes))
        away = Probe().repeat(ARRAY_BYTES // line, Probe().flush(base), advance=line).fence()
        yield "stream", timed(stream), away, start

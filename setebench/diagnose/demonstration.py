"""A demonstration on a machine that counts events: three phases whose answers are known, diagnosed as a program is.

First arithmetic on a line in L1 (productive), then a chase over flushed lines (memory latency), then a stream over
flushed lines (memory bandwidth). It shows a diagnosis where no program can run, as on a simulated
machine, and on a CPU whether its events distinguish these three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.counted import Interval
from setebench.counters.counting import countable, counted, hardware_roles
from setebench.counters.protocol import Count
from setebench.diagnose.params import DemonstrationParams
from setebench.diagnose.records import Hit, Place, Thread, Timeline
from setebench.diagnose.run import PMU_ROLES
from setebench.kernels import array_spacing
from setebench.machine import Machine, Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context

PARAMS = DemonstrationParams()

Run = Callable[[], Ticks]


class Phase(msgspec.Struct, frozen=True):
    """Work with a name, what runs it once, and what is done before, uncounted."""

    name: str
    run: Run
    prepare: Callable[[], object] = lambda: None


def demonstrate(machine: Machine, cpu: int | None = None) -> Timeline:
    """The timeline of the three phases. The work of an interval is run once for each group of events that fits at once.

    Raises `UnsupportedError` on a machine that counts none of the roles that figures are made of."""
    known, offered = countable(machine, PMU_ROLES), hardware_roles(machine)
    roles = {role: offered.get(role, "this machine knows no event for it") for role in PMU_ROLES}
    with ExitStack() as stack:
        phases = list(_phases(Context(machine=machine, cpu=cpu), stack))
        return _timeline(machine, phases, roles, known)


def _timeline(machine: Machine, phases: list[Phase], roles: dict[str, str], known: tuple[str, ...]) -> Timeline:
    intervals: list[Interval] = []
    hits: list[Hit] = []
    now = 0.0
    for phase in phases:
        phase.run()  # stitches the code, and warms the TLB
        for _ in range(PARAMS.intervals):
            seconds, counts = _interval(machine, phase, known)
            counts |= {role: Count(role=role, reason=reason) for role, reason in roles.items() if reason}
            place = Place(function=phase.name, object="demonstration")
            samples = max(1, round(seconds * PARAMS.samples_hz))
            hits.append(Hit(interval=len(intervals), thread=1, place=place, samples=samples, seconds=seconds))
            intervals.append(Interval(begin=now, end=now + seconds, counts=counts))
            now += seconds
    return Timeline(
        program=("demonstration:", ", ".join(phase.name for phase in phases)),
        source="simulated" if machine.facts.kind == "sim" else "counted",
        intervals=tuple(intervals),
        roles=roles | {"task_clock": ""},
        hits=tuple(hits),
        threads=(Thread(number=1, name="demonstration", cpu_seconds=now),),
        line_bytes=machine.facts.line_size,
        ending="three phases",
    )


def _interval(machine: Machine, phase: Phase, known: tuple[str, ...]) -> tuple[float, dict[str, Count]]:
    """Seconds of the work, and its counts: those of each group from a run of its own."""
    counts, ticks = counted(machine, known, phase.run, phase.prepare)
    seconds = float(np.median([each.sum() for each in ticks])) / machine.facts.ticks_per_second
    busy = round(1e9 * seconds)
    return seconds, counts | {"task_clock": Count(role="task_clock", value=busy, enabled=busy, running=busy)}


# -- phases -------------------------------------------------------------------------------------------------------


def _phases(context: Context, stack: ExitStack) -> Iterator[Phase]:
    machine, region = context.machine, stack.enter_context(context.memory(PARAMS.chased_pages * 4096))
    hot, far, array = Base("hot"), Base("far"), Base("array")

    def runs(probe: Probe, base: Base, start: int) -> Run:
        return lambda: machine.run(probe, {base: np.full(1, start)}, cpu=context.cpu)

    work = Probe().repeat(PARAMS.arithmetic_rounds, Probe().load(hot).add(8))
    yield Phase("arithmetic", runs(_timed(work), hot, region.address))
    offsets = _far_lines(region)
    machine.link(region, region.address + offsets)
    chase = Probe().chase(far + int(offsets[0]), PARAMS.chased_lines)
    yield Phase("chase", runs(_timed(chase), far, region.address), runs(_away(far, offsets), far, region.address))
    if "load" in machine.facts.kernels:
        streamed = stack.enter_context(context.memory(array_spacing(PARAMS.array_bytes)))
        stream = Probe().stream(array, "load", PARAMS.array_bytes, max(machine.facts.access_sizes))
        lines = np.arange(0, PARAMS.array_bytes, region.line_size)
        before = runs(_away(array, lines), array, streamed.address)
        yield Phase("stream", runs(_timed(stream), array, streamed.address), before)


def _timed(work: Probe) -> Probe:
    return Probe().start(0, dither=False) + work.stop(0)


def _far_lines(region: Region) -> NDArray[np.int64]:
    """Offsets of the chase's lines, in its order."""
    rng = np.random.default_rng(1)
    pages = rng.permutation(PARAMS.chased_pages)[: PARAMS.chased_lines]
    found: NDArray[np.int64] = pages * 4096 + rng.integers(16, 48, PARAMS.chased_lines) * region.line_size
    return found


def _away(base: Base, offsets: NDArray[np.int64]) -> Probe:
    """All lines at these offsets out of every cache."""
    probe = Probe()
    for offset in offsets.tolist():
        probe = probe.flush(base + offset)
    return probe.fence()

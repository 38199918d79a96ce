"""How memory latency grows with load: one pointer chase beside threads that read memory at a settable rate.

Helm and Taura 2019, 4.3.1: each loading thread reads four independent lines, then does nothing for a number of
no-operations. All start together. Every thread's time is cut into segments, and only segments during which all the
others still ran count. Lines are flushed before they are used, so every one comes from memory, whatever caches hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.infer.loaded import KNEE_RATIO, Load, knee_bandwidth, saturated
from setebench.infer.ticks import Estimate, mean_ticks, over_replicates
from setebench.layout import GROUP_PAGES
from setebench.machine import Region, Ticks
from setebench.placing import CHAINS, LONG_CHAIN, SETTLE_CYCLES, SHORT_CHAIN, Place
from setebench.probe import COLUMNS, Base, Operand, Probe
from setebench.report.loaded_latency import loaded_latency_figure
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario
from setebench.streaming.choice import choose_cpus

STREAMS = 4
"""Independent lines that are read between two delays, each from memory of its own."""

DELAYS = (0, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048)
FAST_DELAYS = (0, 16, 64, 256, 1024)
"""No-operations between four lines."""

GROUPS = 9
"""Groups of lines that a repetition chases, each timed as the scenario `latency` times lines in memory."""

LOAD_SEGMENTS = 20
REPETITIONS, FAST_REPETITIONS, BATCHES = 96, 12, 12
"""Repetitions of a load point, and how many figures they make: a single one scatters too much to say what the others
vary by."""

SPARE_TIME = 1.3
"""Loading threads run so much longer than the chase is expected to: the chase slows down as the load grows."""

MOST_STREAM_BYTES = 4 << 20
"""Memory of one of the four streams of a thread; a faster thread ends early, and its last segments show it."""

STAGGER_LINES = 5

MOST_LOADING, FAST_MOST_LOADING = 64, 16
"""Loading threads unless more are asked for: each point takes longer the more there are, on a simulated machine above
all."""

CHASED_BYTES = 32 << 20

FEW_ROUNDS = 8

LEAST_GROUPS = 2
"""A chase of which fewer groups ran under load tells nothing."""

SPANS = len(CHAINS)
"""Number of the interval around a whole group, behind those of its chains."""


@dataclass(frozen=True)
class Reading:
    """One load point: latency in ns and bandwidth in GB/s of every batch of repetitions, shape (batches,) each; empty
    where the load did not last."""

    latency_ns: NDArray[np.float64]
    gigabytes: NDArray[np.float64]


def answer(context: Context) -> Iterator[Finding]:
    """Yield idle latency, the load reached and the latency there, and knee and peak where they were seen."""
    crew = _loaders(context)
    bench = _Bench(context, crew)
    try:
        context.progress("memory latency without load")
        idle_before = bench.measure((), 0)
        readings: dict[tuple[int, int], Reading] = {}
        for threads, delay in _points(context, len(crew)):
            context.progress(f"{threads} loading, {delay} no-operations between lines")
            readings[threads, delay] = bench.measure(crew[:threads], delay)
        idle_after = bench.measure((), 0)
    finally:
        bench.close()
    idle = np.concatenate([idle_before.latency_ns, idle_after.latency_ns])
    loads = [
        Load(threads, delay, float(np.median(one.gigabytes)), float(np.median(one.latency_ns)))
        for (threads, delay), one in readings.items()
        if len(one.latency_ns)
    ]
    context.evidence["loaded_latency"] = _evidence(idle, loads, readings)
    yield from _findings(idle, loads, readings, len(crew))


def _loaders(context: Context) -> tuple[int, ...]:
    """CPUs that may make load: those of other cores first. Those that share the chase's core come last, as they slow it
    down without any memory."""
    facts = context.machine.facts
    ordered = choose_cpus(facts, context.cpu, len(facts.cpus))
    own = next((group for group in facts.siblings if ordered[0] in group), ())
    apart = [cpu for cpu in ordered[1:] if cpu not in own]
    asked = context.options.get("threads")
    if asked is None:
        return tuple(apart[: FAST_MOST_LOADING if context.fast else MOST_LOADING])
    if not 0 <= asked < len(facts.cpus):
        raise UsageError(f"{asked} loading threads beside the chase don't fit: {facts.name} has {len(facts.cpus)} CPUs")
    return tuple([*apart, *(cpu for cpu in ordered[1:] if cpu in own)][:asked])


def _points(context: Context, most: int) -> list[tuple[int, int]]:
    """Load points (threads, delay): every delay for all threads, and full load for fewer. One thread less is always
    there: that the last one brings nothing is what tells saturation."""
    fewer = sorted(count for count in {1, most // 4, most // 2, most - 1} if 0 < count < most)
    return [(threads, 0) for threads in fewer] + [
        (most, delay) for delay in (FAST_DELAYS if context.fast else DELAYS) if most
    ]


class _Bench:
    """The memory of all threads, and how to measure one load point in it."""

    def __init__(self, context: Context, crew: tuple[int, ...]) -> None:
        self._context, self._machine = context, context.machine
        self._facts = context.machine.facts
        self._cpu = self._facts.cpus[-1] if context.cpu is None else context.cpu
        self._repetitions = FAST_REPETITIONS if context.fast else REPETITIONS
        self._line = self._facts.line_size
        page = min(self._facts.page_sizes)
        self._chased = self._machine.allocate(min(CHASED_BYTES, self._facts.memory_bytes // 4), page)
        room = self._facts.memory_bytes // (4 * STREAMS * max(len(crew), 1))
        self._stream_bytes = min(MOST_STREAM_BYTES, room // page * page)
        # streams at one place of a page each would fight for the same sets of the caches
        self._stride = self._stream_bytes + STAGGER_LINES * self._line
        self._regions: dict[int, Region] = {}
        self._starts: dict[int, int] = {}
        self._bases = {cpu: Base(f"load{cpu}") for cpu in crew}
        self._chase_ticks = 0.0
        try:
            for number, cpu in enumerate(crew):
                region = self._machine.allocate(STREAMS * self._stride + page, page)
                self._regions[cpu] = region
                self._starts[cpu] = region.address + number * STREAMS * STAGGER_LINES * self._line % page
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        for region in (self._chased, *self._regions.values()):
            self._machine.release(region)

    def measure(self, loaders: tuple[int, ...], delay: int) -> Reading:
        """The chase beside these loading threads."""
        # one layout for all groups: a second one would lead chases of the first astray where they share lines
        place = Place(self._context, self._chased, "memory", 0.0)
        rounds = self._rounds(loaders, delay)
        probes = {self._cpu: _chase(place)} | {cpu: self._load(cpu, delay, rounds) for cpu in loaders}
        placements = self._placements(place, loaders, self._repetitions + 1)
        if loaders:
            found = self._machine.run_together(probes, placements)
        else:
            found = {self._cpu: self._machine.run(probes[self._cpu], placements, cpu=self._cpu)}
        return self._reading({cpu: ticks[1:] for cpu, ticks in found.items()}, rounds)

    def _placements(self, place: Place, loaders: tuple[int, ...], count: int) -> dict[Base, Any]:
        """Random groups for the chase; the same lines again for the load, as they are flushed before."""
        chased = {
            _numbered(base, number): addresses
            for number in range(GROUPS)
            for base, addresses in place.placements(count).items()
        }
        return chased | {self._bases[cpu]: np.full(count, self._starts[cpu]) for cpu in loaders}

    def _load(self, cpu: int, delay: int, rounds: int) -> Probe:
        """A loading thread in segments of `rounds` times four lines and a delay."""
        base, probe = self._bases[cpu], Probe()
        segment_bytes = rounds * self._line
        for stream in range(STREAMS):
            probe = _away(probe, base + stream * self._stride, LOAD_SEGMENTS * segment_bytes, self._line)
        probe = _met(probe)
        for segment in range(LOAD_SEGMENTS):
            body = Probe()
            for stream in range(STREAMS):
                body = body.load(base + stream * self._stride + segment * segment_bytes)
            body = body.nop(delay) if delay else body
            probe = probe.start(segment, dither=False).repeat(rounds, body, advance=self._line).stop(segment)
        return probe

    def _rounds(self, loaders: tuple[int, ...], delay: int) -> int:
        """Rounds per segment with which the loading threads outlast the chase, from a short run of all of them."""
        if not loaders:
            return 0
        probes = {cpu: self._load(cpu, delay, FEW_ROUNDS) for cpu in loaders}
        placements = {self._bases[cpu]: np.full(2, self._starts[cpu]) for cpu in loaders}
        if len(loaders) == 1:
            found = {loaders[0]: self._machine.run(probes[loaders[0]], placements, cpu=loaders[0])}
        else:
            found = self._machine.run_together(probes, placements)
        fastest = min(float(np.median(ticks)) for ticks in found.values()) / FEW_ROUNDS
        wanted = SPARE_TIME * self._chase_ticks / (LOAD_SEGMENTS * max(fastest, 1e-3))
        return int(np.clip(wanted, FEW_ROUNDS, self._stream_bytes // (LOAD_SEGMENTS * self._line)))

    def _reading(self, found: dict[int, Ticks], rounds: int) -> Reading:
        """Latency and bandwidth of every repetition, from the time in which all threads ran."""
        chase = found.pop(self._cpu).reshape(self._repetitions, GROUPS, SPANS + 1)
        ends = np.cumsum(chase[:, :, SPANS], axis=1)
        self._chase_ticks = float(np.median(ends[:, -1]))
        loaded_until = np.min([ticks.sum(axis=1) for ticks in found.values()], axis=0) if found else ends[:, -1]
        within = ends <= loaded_until[:, None]
        enough = np.flatnonzero(within.sum(axis=1) >= LEAST_GROUPS)
        batches = np.array_split(enough, min(BATCHES, len(enough))) if len(enough) else []
        rates = GROUPS * GROUP_PAGES * self._line / ends[:, -1]  # the chase reads memory, too
        for ticks in found.values():
            counted = np.cumsum(ticks, axis=1) <= ends[:, -1:]
            read = counted.sum(axis=1) * rounds * STREAMS * self._line
            rates += read / np.maximum((ticks * counted).sum(axis=1), 1.0)
        ticks_per_ns = self._facts.ticks_per_second / 1e9
        latency = [_step_ticks(chase[batch][within[batch]]) / ticks_per_ns for batch in batches]
        return Reading(np.array(latency), np.array([rates[batch].mean() * ticks_per_ns for batch in batches]))


def _step_ticks(groups: Ticks) -> float:
    """Ticks per step from the chains of some groups, shape (groups, chains and span): long ones less short ones, so
    that no bracket is left in it."""
    lengths = np.array(CHAINS)
    short, long = (mean_ticks(groups[:, :SPANS][:, lengths == steps].ravel()) for steps in (SHORT_CHAIN, LONG_CHAIN))
    return (long - short) / (LONG_CHAIN - SHORT_CHAIN)


def _chase(place: Place) -> Probe:
    """Groups of lines one after the other, each within an interval around all of it; first all threads meet."""
    whole = Probe().barrier()
    probe = (Probe().start(SPANS, dither=False) + place.chains(8)).stop(SPANS)
    for number in range(GROUPS):
        rows = probe.rows.copy()
        rows[:, _INTERVAL][rows[:, _INTERVAL] >= 0] += number * (SPANS + 1)
        whole += Probe(rows.tobytes(), tuple(_numbered(base, number) for base in probe.bases))
    return whole


_INTERVAL = COLUMNS.index("interval")


def _numbered(base: Base, number: int) -> Base:
    return Base(f"{base.name}{number}")


def _away(probe: Probe, where: Base | Operand, size: int, line: int) -> Probe:
    """`probe`, then every line of some memory out of all caches."""
    return probe.repeat(size // line, Probe().flush(where), advance=line)


def _met(probe: Probe) -> Probe:
    """`probe`, time for its flushes to end, then a meeting of all threads: from there on their times count."""
    return probe.fence().wait(SETTLE_CYCLES).fence().barrier()


# -- findings ------------------------------------------------------------------------------------


def _findings(
    idle: NDArray[np.float64], loads: list[Load], readings: dict[tuple[int, int], Reading], crew: int
) -> Iterator[Finding]:
    estimate = over_replicates(idle)
    yield _measured("idle", estimate, "ns", f"{len(idle)} rounds of chains of flushed lines, long ones less short ones")
    if not loads:
        reason = (
            "one CPU alone can't load memory and chase pointers" if not crew else "no load lasted as long as a chase"
        )
        outcome = Outcome.UNRESOLVED if crew else Outcome.UNAVAILABLE
        for name in ("at_peak", "reached_bandwidth", "peak_bandwidth", "knee_bandwidth"):
            yield Finding(parameter=f"loaded_latency.{name}", outcome=outcome, reason=reason)
        return
    most = max(loads, key=lambda load: load.bandwidth)
    at_most = readings[most.threads, most.delay]
    how = f"{most.threads} loading, {most.delay} no-operations between four lines"
    yield _measured("at_peak", over_replicates(at_most.latency_ns), "ns", how)
    yield _measured("reached_bandwidth", over_replicates(at_most.gigabytes), "GB/s", how)
    yield _peak(loads, at_most, most, estimate.value)
    yield _knee(loads, most, estimate.value)


def _peak(loads: list[Load], at_most: Reading, most: Load, idle: float) -> Finding:
    if not saturated(loads, idle):
        reason = (
            f"no saturation was seen: {most.threads} loading reached {most.bandwidth:.3g} GB/s, where latency is "
            f"{most.latency / idle:.2f} times the idle one; more CPUs might bring more"
        )
        return Finding(parameter="loaded_latency.peak_bandwidth", outcome=Outcome.UNRESOLVED, reason=reason)
    how = "one thread more brings no more, and latency has passed the knee"
    return _measured("peak_bandwidth", over_replicates(at_most.gigabytes), "GB/s", how)


def _knee(loads: list[Load], most: Load, idle: float) -> Finding:
    knee = knee_bandwidth(loads, idle)
    return Finding(
        parameter="loaded_latency.knee_bandwidth",
        value=round(most.bandwidth if knee is None else knee, 4),
        unit="GB/s",
        outcome=Outcome.AT_LEAST if knee is None else Outcome.MEASURED,
        method=f"where latency passes {KNEE_RATIO} times the idle one",
        evidence="loaded_latency",
    )


def _measured(name: str, estimate: Estimate, unit: str, how: str) -> Finding:
    return Finding(
        parameter=f"loaded_latency.{name}",
        value=estimate.value,
        unit=unit,
        low=estimate.low,
        high=estimate.high,
        method=how,
        evidence="loaded_latency",
    )


def _evidence(idle: NDArray[np.float64], loads: list[Load], readings: dict[tuple[int, int], Reading]) -> dict[str, Any]:
    points = [
        {"threads": load.threads, "no_operations": load.delay, "gb_per_s": load.bandwidth, "latency_ns": load.latency}
        for load in loads
    ]
    short = [f"{threads} loading, {delay}" for (threads, delay), one in readings.items() if not len(one.latency_ns)]
    return {"idle_ns": float(idle.mean()), "points": points, "too_short": short}


SCENARIO = Scenario(
    name="loaded-latency",
    summary="how memory latency grows with load, by a pointer chase beside threads that read at a settable rate",
    answer=answer,
    parameters=("loaded_latency.",),
    options=(
        Option(name="threads", help="Most loading threads. Default: all CPUs but those of the chase's core.", type=int),
    ),
    plot=loaded_latency_figure,
    order=80,
    seconds=12.0,
)

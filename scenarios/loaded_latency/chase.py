"""One pointer chase beside threads that read and write memory at a settable rate.

Helm and Taura 2019, 4.3.1: each loading thread uses four independent lines, then does nothing for a number of
no-operations. All start together. Every thread's time is cut into segments, and only segments during which all the
others still ran count. Lines are flushed before they are used, so every one comes from memory, whatever caches hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.lines.layout import GROUP_PAGES
from setebench.experiments.lines.placing import CHAINS, LONG_CHAIN, SETTLE_CYCLES, SHORT_CHAIN, Place
from setebench.experiments.streams.budget import Budget
from setebench.machine import Region, Ticks, run_on
from setebench.probe import COLUMNS, Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .params import PARAMS

STREAMS = 4
"""Independent lines that are used between two delays, each in memory of its own."""

WRITING_BACK = ("clwb", "clflushopt", "clflush")
"""Flushes, the one that disturbs least first."""

SPANS = len(CHAINS)
"""Number of the interval around a whole group, behind those of its chains."""


@dataclass(frozen=True)
class Reading:
    """One load point: latency in ns and bandwidth in GB/s (lines read from memory and written back) of every round in
    which the load lasted, shape (rounds,) each."""

    latency_ns: NDArray[np.float64]
    gigabytes: NDArray[np.float64]

    def then(self, later: Reading) -> Reading:
        """These rounds and later ones of the same load point."""
        return Reading(
            np.concatenate([self.latency_ns, later.latency_ns]), np.concatenate([self.gigabytes, later.gigabytes])
        )


Point = tuple[tuple[int, ...], int, int]
"""Loading threads, delay and lines written of four."""

NOTHING = Reading(np.empty(0), np.empty(0))
"""A load that did not last."""


class LoadedChase:
    """A pointer chase and the threads that load memory beside it, with the memory of all: measures load points."""

    def __init__(self, context: Context, loaders: tuple[int, ...]) -> None:
        self._context, self._machine = context, context.machine
        self._facts = context.machine.facts
        self._cpu = self._facts.cpus[-1] if context.cpu is None else context.cpu
        self._most_repetitions = PARAMS.fast_repetitions if context.fast else PARAMS.repetitions
        self.budget = Budget(self._facts, PARAMS.seconds)
        self._line = self._facts.line_size
        page = min(self._facts.page_sizes)
        self._chased = self._machine.allocate(min(PARAMS.chased, self._facts.memory_bytes // 4), page)
        room = self._facts.memory_bytes // (4 * STREAMS * max(len(loaders), 1))
        self._stream_bytes = min(PARAMS.stream, room // page * page)
        # streams at one place of a page each would fight for the same sets of the caches
        self._stride = self._stream_bytes + PARAMS.stagger * self._line
        self._regions: dict[int, Region] = {}
        self._starts: dict[int, int] = {}
        self._bases = {cpu: Base(f"load{cpu}") for cpu in loaders}
        self._place: Place | None = None
        self._chase_ticks = 0.0
        self._paces: dict[Point, float] = {}
        self._chases: dict[Point, float] = {}
        try:
            for number, cpu in enumerate(loaders):
                region = self._machine.allocate(STREAMS * self._stride + 2 * page, page)
                self._regions[cpu] = region
                self._starts[cpu] = region.address + number * STREAMS * PARAMS.stagger * self._line % page
        except BaseException:
            self.close()
            raise

    @property
    def cpu(self) -> int:
        """The CPU that chases."""
        return self._cpu

    def close(self) -> None:
        """Give the memory back."""
        for region in (self._chased, *self._regions.values()):
            self._machine.release(region)

    def measure(self, loaders: tuple[int, ...], delay: int, writes: int = 0) -> Reading:
        """The chase beside these loading threads, which store to so many of every four lines and load the others."""
        place = self._place = self._place or self._laid_out()
        rounds = self._rounds(loaders, delay, writes)
        probes = {self._cpu: _chase(place)} | {cpu: self._load(cpu, delay, writes, rounds) for cpu in loaders}
        moved = PARAMS.segments * rounds * (STREAMS + writes) * len(loaders) + PARAMS.groups * GROUP_PAGES
        fewest, most = PARAMS.fewest_repetitions, self._most_repetitions
        repetitions = self.budget.times(moved * self._line, PARAMS.point_fraction, fewest, most)
        placements = self._placements(place, loaders, repetitions + 1)
        found = run_on(self._machine, probes, placements)
        reading = self._reading({cpu: ticks[1:] for cpu, ticks in found.items()}, rounds * (STREAMS + writes))
        self._chases[loaders, delay, writes] = self._chase_ticks
        self.budget.spend((repetitions + 1) * moved * self._line)
        return reading

    def lay_out(self) -> None:
        """Other lines for the chase from here on: where they lie is part of what figures vary by."""
        self._place = self._laid_out()

    def _laid_out(self) -> Place:
        # one layout for all groups: a second one would lead chases of the first astray where they share lines
        return Place(self._context, self._chased, "memory", 0.0)

    def _placements(self, place: Place, loaders: tuple[int, ...], count: int) -> dict[Base, Any]:
        """Random groups for the chase; the same lines again for the load, as they are flushed before."""
        chased = {
            _numbered(base, number): addresses
            for number in range(PARAMS.groups)
            for base, addresses in place.placements(count).items()
        }
        return chased | {self._bases[cpu]: np.full(count, self._starts[cpu]) for cpu in loaders}

    def _load(self, cpu: int, delay: int, writes: int, rounds: int) -> Probe:
        """A loading thread in segments of `rounds` times four lines and a delay."""
        base, probe = self._bases[cpu], Probe()
        segment_bytes = rounds * self._line
        streams = [base + (stream * self._stride + PARAMS.lag * self._line) for stream in range(STREAMS)]
        for stream in streams:
            probe = _away(probe, stream, PARAMS.segments * segment_bytes, self._line)
        probe = _met(probe)
        for segment in range(PARAMS.segments):
            body = self._round([stream + segment * segment_bytes for stream in streams], delay, writes)
            probe = probe.start(segment, dither=False).repeat(rounds, body, advance=self._line).stop(segment)
        return probe

    def _round(self, lines: list[Operand], delay: int, writes: int) -> Probe:
        """Four lines, the last `writes` of them stored to, and a delay."""
        body = Probe()
        back = next((how for how in WRITING_BACK if how in self._facts.flushes), self._facts.flushes[0])
        for number, line in enumerate(lines):
            if number < STREAMS - writes:
                body = body.load(line)
            else:
                body = body.store(line).flush(line + -PARAMS.lag * self._line, back)
        return body.nop(delay) if delay else body

    def _rounds(self, loaders: tuple[int, ...], delay: int, writes: int) -> int:
        """Rounds per segment with which the loading threads outlast the chase: what it took beside them before, or else
        what it took last."""
        if not loaders:
            return 0
        point = (loaders, delay, writes)
        if point not in self._paces:
            self._paces[point] = self._pace(*point)
        wanted = PARAMS.spare * self._chases.get(point, self._chase_ticks) / (PARAMS.segments * self._paces[point])
        return int(np.clip(wanted, PARAMS.pace_rounds, self._stream_bytes // (PARAMS.segments * self._line)))

    def _pace(self, loaders: tuple[int, ...], delay: int, writes: int) -> float:
        """Ticks of a round of the fastest loading thread, from a short run of all of them."""
        probes = {cpu: self._load(cpu, delay, writes, PARAMS.pace_rounds) for cpu in loaders}
        placements = {self._bases[cpu]: np.full(2, self._starts[cpu]) for cpu in loaders}
        found = run_on(self._machine, probes, placements)
        return max(min(float(np.median(ticks)) for ticks in found.values()) / PARAMS.pace_rounds, 1e-3)

    def _reading(self, found: dict[int, Ticks], segment_lines: int) -> Reading:
        """Latency and bandwidth of all repetitions, from the time in which all threads ran; `segment_lines` move to or
        from memory in each segment of a loading thread."""
        chase = found.pop(self._cpu).reshape(-1, PARAMS.groups, SPANS + 1)
        ends = np.cumsum(chase[:, :, SPANS], axis=1)
        self._chase_ticks = float(np.median(ends[:, -1]))
        loaded_until = np.min([ticks.sum(axis=1) for ticks in found.values()], axis=0) if found else ends[:, -1]
        within = ends <= loaded_until[:, None]
        enough = np.flatnonzero(within.sum(axis=1) >= PARAMS.least_groups)
        if not len(enough):
            return NOTHING
        rates = PARAMS.groups * GROUP_PAGES * self._line / ends[:, -1]  # the chase reads memory, too
        for ticks in found.values():
            counted = np.cumsum(ticks, axis=1) <= ends[:, -1:]
            moved = counted.sum(axis=1) * segment_lines * self._line
            rates += moved / np.maximum((ticks * counted).sum(axis=1), 1.0)
        ticks_per_ns = self._facts.ticks_per_second / 1e9
        latency = _step_ticks(chase[enough][within[enough]]) / ticks_per_ns
        return Reading(np.array([latency]), np.array([rates[enough].mean() * ticks_per_ns]))


def _step_ticks(groups: Ticks) -> float:
    """Ticks per step from the chains of some groups, shape (groups, chains and span): long ones less short ones, so
    that no bracket is left in it."""
    lengths = np.array(CHAINS)
    short, long = (mean_ticks(groups[:, :SPANS][:, lengths == steps].ravel()) for steps in (SHORT_CHAIN, LONG_CHAIN))
    return (long - short) / (LONG_CHAIN - SHORT_CHAIN)


def _chase(place: Place) -> Probe:
    """Groups of lines one after the other, each within an interval around all of it; first all threads meet."""
    whole = Probe().barrier()
    probe = (Probe().start(SPANS, dither=False) + place.chains()).stop(SPANS)
    for number in range(PARAMS.groups):
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

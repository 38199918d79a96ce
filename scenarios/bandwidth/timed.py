"""Rates of streams in paired samples: each block of a data set between two references of its own, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.paired import RoundsParams, rounds
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS
from setebench.experiments.streams.team import Team
from setebench.kernels import Kernel
from setebench.machine import Ticks, run_on
from setebench.probe import REFERENCE_CYCLES, Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import Paired, bracket_ticks, interquartile_mean, located
from setebench.stats.pairs import ticks as core_ticks

from .params import PARAMS
from .sets import DataSet


@dataclass(frozen=True)
class Case:
    """A kernel, its accesses and the CPUs that it runs on; `remote` memory lies on the node farthest from each."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]
    remote: bool = False

    @property
    def threads(self) -> int:
        """Number of threads."""
        return len(self.cpus)

    @property
    def name(self) -> str:
        """Kernel and width, as parameters name them."""
        return f"{self.kernel.name}.{self.width}"

    def parameter(self, level: str) -> str:
        """Name of the finding of a level."""
        return f"bandwidth.{level}.{self.name}.threads_{self.threads}{'.remote' if self.remote else ''}"


@dataclass
class Stream:
    """A case over a data set of one level. `gigabytes` and `per_cycle`, by form of the loop (rolled or not), are GB/s
    and bytes a core cycle of all threads in every round; NaN where too few samples were undisturbed. A level that is
    `shared` is not clocked by the core: there the counter's rate alone counts, and the slowest thread."""

    case: Case
    level: str
    data: DataSet
    shared: bool
    gigabytes: dict[bool, list[float]] = field(default_factory=dict)
    per_cycle: dict[bool, list[float]] = field(default_factory=dict)

    @property
    def best_form(self) -> bool:
        """The form of the loop that was faster."""
        return max(self.gigabytes, key=lambda rolled: np.nanmax([0.0, *self.gigabytes[rolled]]))

    def probe(self, base: Base, rolled: bool) -> Probe:
        """The stream runs once before the first reference, too: wide vectors change the clock. Behind stores a fence
        waits for those that are still on their way."""
        data, case = self.data, self.case
        one = Probe().stream(base, case.kernel.name, data.array_bytes, WIDTHS[case.width], rolled=rolled)
        before = Probe().stream(before_of(base), case.kernel.name, data.array_bytes, WIDTHS[case.width], rolled=rolled)
        body = one if data.passes == 1 else Probe().repeat(data.passes, one)
        body = body.fence() if case.kernel.written_bytes else body
        before = before.fence()
        return (before.barrier() if case.threads > 1 else before).paired(body)


def before_of(base: Base) -> Base:
    """Where the stream before the first reference runs: over the block before."""
    return Base(f"{base.name}_before")


class Timer:
    """Times streams over the memory of a team; `budget` says for how long."""

    def __init__(self, context: Context, team: Team, budget: Budget, last_bytes: float) -> None:
        """`last_bytes` of a stream leave the caches in the state that it keeps them in."""
        self._context, self._team, self._budget, self._last_bytes = context, team, budget, last_bytes
        self._place: dict[int, int] = {}  # where each team goes on in memory: no block is met again before all others
        self._writing: bool | None = None

    def all(self, streams: Sequence[Stream]) -> None:
        """Every stream once in each round, as far as the budget lasts, but `least_rounds` times in any case."""
        for number in rounds(self._context, RoundsParams(rounds=PARAMS.rounds, apart_seconds=PARAMS.apart_seconds)):
            before = self._budget.left
            for stream in streams:
                self._context.progress(f"round {number + 1}: {stream.case.parameter(stream.level)}")
                forms = stream.case.kernel.forms if number < PARAMS.both_forms else (stream.best_form,)
                for rolled in forms:
                    self._once(stream, rolled)
            if number + 1 >= PARAMS.least_rounds and self._budget.left < before - self._budget.left:
                return

    def _once(self, stream: Stream, rolled: bool) -> None:
        data, cpus = stream.data, stream.case.cpus
        part = self._team.part(cpus)
        turns, warmup = np.arange(self._warmup(stream) + PARAMS.samples), self._warmup(stream)
        first = self._place.get(len(cpus), 0) if stream.level == "memory" else 0
        blocks = first + turns
        placements = {}
        for base, region in zip(part.bases, part.regions, strict=True):
            placements[base] = region.address + blocks % data.blocks * data.spacing
            placements[before_of(base)] = region.address + (blocks - 1) % data.blocks * data.spacing
        probes = {cpu: stream.probe(base, rolled) for cpu, base in zip(cpus, part.bases, strict=True)}
        found = run_on(self._context.machine, probes, placements, warmup=warmup)
        if stream.level == "memory":
            self._place[len(cpus)] = int(blocks[-1]) + 1
            self._writing = bool(stream.case.kernel.written_bytes)
        self._budget.spend(2 * data.sample_bytes * len(turns) * len(cpus))
        stream.gigabytes.setdefault(rolled, []).append(self._gigabytes(stream, found))
        stream.per_cycle.setdefault(rolled, []).append(self._per_cycle(stream, found))

    def _warmup(self, stream: Stream) -> int:
        """Samples before those that count: a pass over a cache's data set; in memory, as many as leave caches full of
        what this kernel leaves, dirty lines or clean ones, where the one before left others."""
        if stream.level != "memory":
            return stream.data.blocks + 1
        same = self._writing == bool(stream.case.kernel.written_bytes)
        return 2 if same else min(stream.data.blocks, 2 + int(self._last_bytes / PARAMS.block_bytes))

    def _pairs(self, found: dict[int, Ticks], stream: Stream) -> list[Paired]:
        step, accesses = step_ticks(self._context), max(1, stream.data.sample_bytes // WIDTHS["64"])
        return [
            Paired(ticks=found[cpu], step_ticks=step, reference_cycles=REFERENCE_CYCLES, accesses=accesses)
            for cpu in stream.case.cpus
        ]

    def _gigabytes(self, stream: Stream, found: dict[int, Ticks]) -> float:
        """10^9 program bytes per second of all threads together."""
        pairs, rate = self._pairs(found, stream), self._context.machine.facts.ticks_per_second
        if stream.shared:
            bodies = np.max([pair.ticks[:, 2] - bracket_ticks(pair) for pair in pairs], axis=0)
            seconds = interquartile_mean(bodies) / rate
            return len(pairs) * stream.data.sample_bytes / seconds / 1e9
        return sum(stream.data.sample_bytes / core_ticks(pair) for pair in pairs) * rate / 1e9

    def _per_cycle(self, stream: Stream, found: dict[int, Ticks]) -> float:
        """Program bytes of all threads together in a core cycle."""
        return sum(stream.data.sample_bytes / located(pair) for pair in self._pairs(found, stream))

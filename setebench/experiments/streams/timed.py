"""Rates of streams in paired samples: each block of a data set between two references of its own, round by round."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from setebench.experiments.calibrate import reference
from setebench.experiments.memory import flushed
from setebench.experiments.paired import RoundsParams, paired
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS
from setebench.experiments.streams.team import arrays
from setebench.machine import Region, run_on
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, Kernel, stream_bytes
from setebench.scenario import Context
from setebench.stats.pairs import Paired, bracket_ticks, interquartile_mean, located
from setebench.stats.pairs import ticks as core_ticks


@dataclass(frozen=True, kw_only=True)
class StreamParams:
    """What is timed of a data set, and how often."""

    block_bytes: int = 1 << 16  # of a data set that a sample passes over: in so short a time the clock hardly changes
    samples: int = 16  # of a round: paired ones need half of that
    fewest_rounds: int = 3  # whatever the budget: Student's t of two makes much of any difference
    passes: int = 4  # of a round over what a core has for itself: they take no time, and co-runners are away in some
    both_forms: int = 2  # rounds that time both forms of a loop, as something may disturb one of them


PARAMS = StreamParams()


@dataclass(frozen=True)
class Case:
    """A kernel, its accesses and the CPUs that it runs on."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]

    @property
    def name(self) -> str:
        """Kernel and width, as parameters name them."""
        return f"{self.kernel.name}.{self.width}"

    def parameter(self, level: str) -> str:
        """Name of the finding of a level."""
        return f"bandwidth.{level}.{self.name}.threads_{len(self.cpus)}"


class Round(NamedTuple):
    """GB/s and bytes a core cycle of all threads together, NaN where too few samples were undisturbed."""

    gigabytes: float
    per_cycle: float


@dataclass
class Stream:
    """A case over a data set of one level: of each thread `blocks` blocks of arrays of `array_bytes` bytes, passed over
    `passes` times a sample. `rounds` are by form of the loop (rolled or not). A level that is `shared` is not clocked
    by the core: there the counter's rate alone counts, and the slowest thread."""

    case: Case
    level: str
    shared: bool
    array_bytes: int
    blocks: int
    passes: int = 1
    rounds: dict[bool, list[Round]] = field(default_factory=dict)

    @classmethod
    def over(cls, case: Case, level: str, total: int, least: int, *, shared: bool = True) -> Stream:
        """One over data sets of about `total` bytes; where that is a block, as many passes as make up `least` bytes."""
        kernel, wanted = case.kernel, max(1, -(-total // PARAMS.block_bytes))
        rows = max(1, round(total / wanted / kernel.arrays / BLOCK_BYTES))
        array = BLOCK_BYTES * (1 << round(math.log2(rows)) if kernel.random else rows)
        # more where an array is a power of two, but one of a set that is a block: its passes make a sample
        blocks = max(1, round(total / (kernel.arrays * array))) if wanted > 1 else 1
        passes = -(-least // (kernel.arrays * array)) if blocks == 1 else 1
        return cls(case, level, shared, array, blocks, passes)

    @property
    def bytes(self) -> int:
        """Of all arrays of a thread."""
        return self.blocks * self.case.kernel.arrays * self.array_bytes

    @property
    def alone(self) -> bool:
        """Whether it is one thread's, in what its core has for itself."""
        return not self.shared and len(self.case.cpus) == 1

    @property
    def spacing(self) -> int:
        """Bytes from one block to the next."""
        return stream_bytes(self.case.kernel, self.array_bytes)

    @property
    def sample_bytes(self) -> int:
        """Bytes that the program moves in a sample of a thread."""
        return self.passes * self.array_bytes // BLOCK_BYTES * self.case.kernel.program_bytes

    @property
    def best_form(self) -> bool:
        """The form of the loop that was faster."""
        return max(self.rounds, key=lambda rolled: np.nanmax([0.0, *(each.gigabytes for each in self.rounds[rolled])]))

    def probe(self, cpu: int, line_size: int, rolled: bool, reference: Probe) -> Probe:
        """The stream runs once before the first reference, too: wide vectors change the clock. Behind stores a fence
        waits for those that are still on their way. Lines of memory are flushed before, as a last cache may be larger
        than any data set."""
        kernel, width, (last, base) = self.case.kernel, WIDTHS[self.case.width], bases_of(cpu)
        one = Probe().stream(base, kernel.name, self.array_bytes, width, rolled=rolled)
        body = one if self.passes == 1 else Probe().repeat(self.passes, one)
        body = body.fence() if kernel.written_bytes else body
        before = flushed(base, self.spacing, line_size).fence() if self.level == "memory" else Probe()
        before = before.stream(last, kernel.name, self.array_bytes, width, rolled=rolled).fence()
        return (before.barrier() if len(self.case.cpus) > 1 else before).paired(reference, body)


def bases_of(cpu: int) -> tuple[Base, Base]:
    """The block before and the block that is timed."""
    return Base(f"before{cpu}"), Base(f"arrays{cpu}")


def measure(context: Context, streams: Sequence[Stream], budget: Budget, last_bytes: float) -> None:
    """Time all streams round by round, as far as the budget lasts. Passing over `last_bytes` leaves the caches in the
    state that a stream keeps them in. Raises `UnsupportedError` where there is too little memory."""
    sizes: dict[int, int] = {}
    for each in streams:
        sizes |= {cpu: max(each.blocks * each.spacing, sizes.get(cpu, 0)) for cpu in each.case.cpus}
    with arrays(context, sizes) as regions:
        budget.spend(sum(sizes.values()))
        timer = _Timer(context, regions, budget, last_bytes)
        for number in budget.rounds(context, PARAMS.fewest_rounds, RoundsParams()):
            timer.round(streams, number)


class _Timer:
    """Times streams over the memory of each CPU."""

    def __init__(self, context: Context, regions: dict[int, Region], budget: Budget, last_bytes: float) -> None:
        self._context, self._regions, self._budget, self._last_bytes = context, regions, budget, last_bytes
        self._place: dict[int, int] = {}  # where so many threads go on in memory: no block again before all others
        self._writing: bool | None = None

    def round(self, streams: Sequence[Stream], number: int) -> None:
        """Time every stream in round `number`: once, or several times where it stays in a core's private caches."""
        alone = [each for each in streams if each.alone]
        others = [each for each in streams if not each.alone]
        turns = [[*alone, *others[turn :: PARAMS.passes]] for turn in range(PARAMS.passes)]
        for stream in itertools.chain(*turns):
            self._context.progress(f"round {number + 1}: {stream.case.parameter(stream.level)}")
            for rolled in stream.case.kernel.forms if number < PARAMS.both_forms else (stream.best_form,):
                stream.rounds.setdefault(rolled, []).append(self._once(stream, rolled))

    def _once(self, stream: Stream, rolled: bool) -> Round:
        machine, cpus, memory = self._context.machine, stream.case.cpus, stream.level == "memory"
        warmup = self._warmup(stream)
        blocks = (self._place.get(len(cpus), 0) if memory else 0) + np.arange(warmup + PARAMS.samples)
        placements = {}
        for cpu in cpus:
            for base, back in zip(bases_of(cpu), (1, 0), strict=True):
                at = (blocks - back) % stream.blocks * stream.spacing
                placements[base] = self._regions[cpu].address + at
        work, line = reference(self._context).work, self._context.line_size
        probes = {cpu: stream.probe(cpu, line, rolled, work) for cpu in cpus}
        found = run_on(machine, probes, placements, warmup=warmup)
        if memory:
            self._place[len(cpus)] = int(blocks[-1]) + 1
            self._writing = bool(stream.case.kernel.written_bytes)
        self._budget.spend(2 * stream.sample_bytes * len(blocks) * len(cpus))
        accesses = max(1, stream.sample_bytes // WIDTHS["64"])
        pairs = [paired(self._context, found[cpu], accesses) for cpu in cpus]
        per_cycle = sum(stream.sample_bytes / located(pair) for pair in pairs)
        return Round(self._gigabytes(stream, pairs), per_cycle)

    def _warmup(self, stream: Stream) -> int:
        """Samples before those that count: a pass over a cache's data set; in memory, as many as leave caches full of
        what this kernel leaves, dirty lines or clean ones, where the one before left others."""
        if stream.level != "memory":
            return stream.blocks + 1
        same = self._writing == bool(stream.case.kernel.written_bytes)
        return 2 if same else min(stream.blocks, 2 + int(self._last_bytes / PARAMS.block_bytes))

    def _gigabytes(self, stream: Stream, pairs: Sequence[Paired]) -> float:
        """10^9 program bytes per second of all threads together."""
        rate = self._context.machine.facts.ticks_per_second
        if stream.shared:
            bodies = np.max([pair.ticks[:, 2] - bracket_ticks(pair) for pair in pairs], axis=0)
            return len(pairs) * stream.sample_bytes / interquartile_mean(bodies) * rate / 1e9
        return sum(stream.sample_bytes / core_ticks(pair) for pair in pairs) * rate / 1e9

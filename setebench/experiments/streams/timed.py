"""Measure rates of streaming kernels in paired samples: each sample times one block between two references."""

from __future__ import annotations

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
    """Sizes of samples, and their number."""

    block_bytes: int = 1 << 16  # bytes of a block, over which one sample streams: so few that the clock hardly drifts
    samples: int = 16  # samples of a stream in a round, of which 8 undisturbed ones suffice
    fewest_rounds: int = 3  # least number of rounds: with two, intervals by Student's t are too wide
    passes: int = 4  # measurements per round of a stream in private caches: they are short, and some are undisturbed
    both_forms: int = 2  # first rounds, in which both the rolled and the unrolled loop are timed


PARAMS = StreamParams()


@dataclass(frozen=True)
class Case:
    """A streaming kernel with the width of its accesses (a key of `WIDTHS`) and the CPUs that run it at once."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]

    @property
    def name(self) -> str:
        """Kernel and width as in parameter names, such as "load.64"."""
        return f"{self.kernel.name}.{self.width}"

    def parameter(self, level: str) -> str:
        """Return the name of the reported parameter for data in `level`, such as "bandwidth.l2.load.64.threads_1"."""
        return f"bandwidth.{level}.{self.name}.threads_{len(self.cpus)}"


class Round(NamedTuple):
    """Rate of all threads together, in GB/s and in bytes per core cycle; NaN if too few samples are undisturbed."""

    gigabytes: float
    per_cycle: float


@dataclass
class Stream:
    """A kernel on some CPUs (`case`) over a data set in one level. Each thread has `blocks` blocks, with `array_bytes`
    bytes of each array of the kernel; a sample streams over a block `passes` times. `rounds` has results by form of the
    loop (True: rolled). A `shared` level doesn't run on the core's clock, so that bytes a cycle mean nothing there: its
    rate is in GB/s, by the time of the slowest thread."""

    case: Case
    level: str
    shared: bool
    array_bytes: int
    blocks: int
    passes: int = 1
    rounds: dict[bool, list[Round]] = field(default_factory=dict)

    @classmethod
    def over(cls, case: Case, level: str, total: int, least: int, *, shared: bool = True) -> Stream:
        """Return a stream of `case` over data sets of about `total` bytes a thread, in whole blocks. They have to fit
        `level`, such as "l2"; if cores share it (`shared`), streams are compared in GB/s only. If a data set is a
        single block, a sample streams over it until at least `least` bytes are accessed."""
        kernel, wanted = case.kernel, max(1, -(-total // PARAMS.block_bytes))
        rows = max(1, round(total / wanted / kernel.arrays / BLOCK_BYTES))
        array = BLOCK_BYTES * (1 << round(math.log2(rows)) if kernel.random else rows)
        # Arrays rounded to a power of two need another number of blocks; a single block stays single, for its passes.
        blocks = max(1, round(total / (kernel.arrays * array))) if wanted > 1 else 1
        passes = -(-least // (kernel.arrays * array)) if blocks == 1 else 1
        return cls(case, level, shared, array, blocks, passes)

    @property
    def bytes(self) -> int:
        """Bytes of all arrays of one thread."""
        return self.blocks * self.case.kernel.arrays * self.array_bytes

    @property
    def alone(self) -> bool:
        """Whether one thread alone streams, in its core's private caches."""
        return not self.shared and len(self.case.cpus) == 1

    @property
    def spacing(self) -> int:
        """Bytes from the start of one block to the next."""
        return stream_bytes(self.case.kernel, self.array_bytes)

    @property
    def sample_bytes(self) -> int:
        """Bytes that the kernel's loads and stores move in one thread's sample."""
        return self.passes * self.array_bytes // BLOCK_BYTES * self.case.kernel.program_bytes

    @property
    def best_form(self) -> bool:
        """The form of the loop (True: rolled) that was faster in the rounds so far."""
        return max(self.rounds, key=lambda rolled: np.nanmax([0.0, *(each.gigabytes for each in self.rounds[rolled])]))

    def probe(self, cpu: int, line_size: int, rolled: bool, reference: Probe) -> Probe:
        """Return the paired probe of one sample on `cpu`, between runs of `reference`, by a `rolled` or unrolled loop.
        The kernel first runs over another block, as wide vectors change the clock rate. After kernels that store, a
        fence waits for the stores. Blocks in memory are flushed before, as the last cache may be larger than the data
        set."""
        kernel, width, (last, base) = self.case.kernel, WIDTHS[self.case.width], bases_of(cpu)
        one = Probe().stream(base, kernel.name, self.array_bytes, width, rolled=rolled)
        body = one if self.passes == 1 else Probe().repeat(self.passes, one)
        body = body.fence() if kernel.written_bytes else body
        before = flushed(base, self.spacing, line_size).fence() if self.level == "memory" else Probe()
        before = before.stream(last, kernel.name, self.array_bytes, width, rolled=rolled).fence()
        return (before.barrier() if len(self.case.cpus) > 1 else before).paired(reference, body)


def bases_of(cpu: int) -> tuple[Base, Base]:
    """Return the bases, for a CPU, of the block that is streamed before a sample and of the block that is timed."""
    return Base(f"before{cpu}"), Base(f"arrays{cpu}")


def measure(context: Context, streams: Sequence[Stream], budget: Budget, last_bytes: float) -> None:
    """Time all streams in rounds until the budget is spent, and add the results to their `rounds`. Streams in memory
    first run untimed over `last_bytes` bytes if another left lines of another kind in the caches. Raises
    `UnsupportedError` if memory is too small for the arrays."""
    sizes: dict[int, int] = {}
    for each in streams:
        sizes |= {cpu: max(each.blocks * each.spacing, sizes.get(cpu, 0)) for cpu in each.case.cpus}
    with arrays(context, sizes) as regions:
        budget.spend(sum(sizes.values()))
        timer = _Timer(context, regions, budget, last_bytes)
        for number in budget.rounds(context, PARAMS.fewest_rounds, RoundsParams()):
            timer.round(streams, number)


class _Timer:
    """Times streams over the memory of each CPU in `regions`, and subtracts their cost from the budget."""

    def __init__(self, context: Context, regions: dict[int, Region], budget: Budget, last_bytes: float) -> None:
        self._context, self._regions, self._budget, self._last_bytes = context, regions, budget, last_bytes
        self._place: dict[int, int] = {}  # next block in memory by number of threads: blocks are used cyclically
        self._writing: bool | None = None

    def round(self, streams: Sequence[Stream], number: int) -> None:
        """Time every stream in round `number`: in private caches `PARAMS.passes` times, with alternate forms of its
        loop, elsewhere once with each form; after the first `PARAMS.both_forms` rounds only with the faster form."""
        alone, others = ([each for each in streams if each.alone == own] for own in (True, False))
        for turn in range(PARAMS.passes):
            for stream in [*alone, *others[turn :: PARAMS.passes]]:
                self._context.progress(f"round {number + 1}: {stream.case.parameter(stream.level)}")
                forms = stream.case.kernel.forms if number < PARAMS.both_forms else (stream.best_form,)
                for rolled in forms[turn % len(forms) :: len(forms)] if stream.alone else forms:
                    stream.rounds.setdefault(rolled, []).append(self._once(stream, rolled))

    def _once(self, stream: Stream, rolled: bool) -> Round:
        """Run `PARAMS.samples` samples of a stream, with the rolled or the unrolled loop, and return their rate."""
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
        """Return the number of warm-up samples: in a cache one pass over the data set; in memory 2, or enough to
        replace all cached lines if the stream before left dirty lines and this one leaves clean ones or the reverse."""
        if stream.level != "memory":
            return stream.blocks + 1
        same = self._writing == bool(stream.case.kernel.written_bytes)
        return 2 if same else min(stream.blocks, 2 + int(self._last_bytes / PARAMS.block_bytes))

    def _gigabytes(self, stream: Stream, pairs: Sequence[Paired]) -> float:
        """Return the rate of all threads together in GB/s (10^9 bytes of loads and stores per second)."""
        rate = self._context.machine.facts.ticks_per_second
        if stream.shared:
            bodies = np.max([pair.ticks[:, 2] - bracket_ticks(pair) for pair in pairs], axis=0)
            return len(pairs) * stream.sample_bytes / interquartile_mean(bodies) * rate / 1e9
        return sum(stream.sample_bytes / core_ticks(pair) for pair in pairs) * rate / 1e9

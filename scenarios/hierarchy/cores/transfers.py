"""Reads of lines that other CPUs hold: paired chases behind a meeting, round by round.

In each sample the reader flushes the lines, the owner stores or loads them, a third CPU may load them too, and the
reader chases them, all meeting between. Samples in which both CPUs were threads of one core (a hypervisor moves its
virtual CPUs) are told apart by the core's own caches, which then answer, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.experiments.memory import LINES, Scattered, scattered
from setebench.experiments.paired import rounds
from setebench.experiments.streams.budget import Budget
from setebench.machine import Region
from setebench.probe import REFERENCE_CYCLES, Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import Paired, located
from setebench.stats.pairs import ticks as located_ticks

WALK = Base("walk")


@dataclass(frozen=True, kw_only=True)
class Params:
    """How lines of other CPUs are read, and of how many pairs."""

    memory_bytes: int = 32 << 20  # for the lines, and as many for traversals
    lines: int = 8  # of a chase, a page each: within any first TLB
    samples: int = 24  # chases of a round
    lost_samples: int = 12  # the same where the reader traverses more than its private caches hold in each
    settle: int = 2000  # cycles behind flushes
    seconds: float = 10.0  # for all pairs unless all are asked for
    run_seconds: float = 0.004  # of a joint run, for beginning its threads
    usual: float = 2.5  # lines traversed over those of the second cache, so that it loses what it held
    by_chance: float = 5.0  # the same where the third cache holds twice as many: random replacement keeps one in 150
    own: float = 1.25  # other cores' answers take so many times as long as the second cache's at least
    steady: float = 0.1  # of a read of a copy that the reader lost: half its interval at most, else levels are mixed
    steady_cycles: float = 2.0  # the same in cycles, where a read takes few
    same_cycles: float = 1.0  # cores that differ by no more are equally far


PARAMS = Params()


class Question(NamedTuple):
    """Which CPU reads lines that which one holds, in which state, shared with which third one; of `shared` lines
    without a third one the reader itself had a copy and lost it."""

    reader: int
    owner: int
    state: str
    third: int | None = None


class Read(NamedTuple):
    """A round: core cycles and nanoseconds of a load, NaN where too few samples were undisturbed, and the part of the
    samples in which both CPUs shared one core, which the others leave out."""

    cycles: float
    ns: float
    one_core: float


def cpu_pairs(context: Context) -> list[tuple[int, int]]:
    """Ordered pairs (reader, owner) of CPUs on different cores, reads by the measured CPU first. Those of a reader
    begin with owners whose numbers lie far apart, as cores of a cache, a die or a socket have successive numbers."""
    groups = context.machine.facts.siblings or tuple((cpu,) for cpu in context.machine.facts.cpus)
    cpus = sorted(context.own_cpu if context.own_cpu in each else min(each) for each in groups)
    bits = len(cpus).bit_length()
    spread = sorted(range(len(cpus)), key=lambda number: f"{number:0{bits}b}"[::-1])
    ordered = [cpus[number] for number in spread]
    readers = sorted(ordered, key=lambda cpu: cpu != context.own_cpu)
    return [(reader, owner) for reader in readers for owner in ordered if reader != owner]


def further_cpu(cycles: Mapping[tuple[int, int], float], reader: int, owner: int) -> int | None:
    """The CPU furthest from the reader, by what reads of the others' lines cost; None where that is the owner.

    It may hold a line together with the owner without being the one that delivers it: the nearest does."""
    others = [pair for pair in cycles if pair[0] == reader and pair[1] != owner]
    furthest = max(others, key=lambda pair: cycles[pair], default=None)
    return None if furthest is None or cycles[furthest] < cycles[reader, owner] - PARAMS.same_cycles else furthest[1]


def read_all(context: Context, every: bool) -> dict[Question, list[Read]]:
    """Rounds of all questions: of as many pairs as there is time for, as the first round shows, or of `every` one."""
    found: dict[Question, list[Read]] = {}
    size = min(PARAMS.memory_bytes, context.machine.facts.memory_bytes // 4)
    with context.memory(size) as region, context.memory(size) as ground:
        reader = _Reader(context, region, ground)
        pairs, least = cpu_pairs(context), 0.0 if every else PARAMS.seconds * (1 - 1 / 6)
        for number in rounds(context):
            for pair in list(pairs):
                context.progress(f"round {number + 1}: lines that CPU {pair[1]} holds, read by CPU {pair[0]}")
                for state in ("modified", "exclusive"):
                    found.setdefault(asked := Question(*pair, state), []).append(reader.read(asked))
                if not number and not every and reader.budget.left < least:
                    pairs = pairs[: pairs.index(pair) + 1]
                    break
            exclusive = {pair: _middle(found[Question(*pair, "exclusive")]) for pair in pairs}
            for pair in pairs:
                third = next((q.third for q in found if q[:3] == (*pair, "shared")), further_cpu(exclusive, *pair))
                found.setdefault(asked := Question(*pair, "shared", third), []).append(reader.read(asked))
    return found


def _middle(reads: Sequence[Read]) -> float:
    """Cycles of the middle round; infinite where there is none."""
    known = [each.cycles for each in reads if np.isfinite(each.cycles)]
    return float(np.median(known)) if known else float("inf")


class _Reader:
    """Reads lines of `region`; traversals are over `ground`."""

    def __init__(self, context: Context, region: Region, ground: Region) -> None:
        self._context, self._region = context, region
        self.budget = Budget(context.machine.facts, PARAMS.seconds)
        levels = context.calibration.levels
        assert levels is not None  # whoever asks has found them
        second, third = (levels.ends_bytes.get(name, 0.0) for name in ("l2", "l3"))
        times = PARAMS.by_chance if 2 * PARAMS.by_chance * second < third else PARAMS.usual
        self._own_cycles = PARAMS.own * levels.cycles.get("l2", levels.cycles["l1"])
        self._walk = np.zeros(0, dtype=np.int64)
        if second and span_bytes(times * second, ground.line_size) <= ground.size:
            rng = context.rng(61)
            self._walk = by_windows(lay(ground, times * second, rng), rng)
            context.machine.link(ground, self._walk)

    def read(self, question: Question) -> Read:
        """One round; NaN where the reader can't be made to lose its copy."""
        lost = question.state == "shared" and question.third is None
        if lost and not len(self._walk):
            return Read(float("nan"), float("nan"), 0.0)
        samples = PARAMS.lost_samples if lost else PARAMS.samples
        chased = scattered(self._context, self._region, PARAMS.lines, samples)
        places = {LINES: chased.first}
        if lost:
            places[WALK] = np.repeat(self._walk[:1], samples)
        ticks = self._context.machine.run_together(self._probes(question, chased), places)[question.reader]
        passed = samples * (4 * PARAMS.lines + lost * len(self._walk)) * self._region.line_size
        self.budget.spend(passed, PARAMS.run_seconds)
        return self._located(ticks)

    def _located(self, ticks: np.ndarray) -> Read:
        every = Paired(
            ticks=ticks, step_ticks=step_ticks(self._context), reference_cycles=REFERENCE_CYCLES, accesses=PARAMS.lines
        )
        body = (ticks[:, 2] - ticks[:, 1]) / (ticks[:, (0, -1)].mean(axis=1) - ticks[:, 1].mean()) * REFERENCE_CYCLES
        near = body / PARAMS.lines < self._own_cycles
        apart = msgspec.structs.replace(every, ticks=ticks[~near])
        if not len(apart.ticks):
            return Read(float("nan"), float("nan"), 1.0)
        seconds = located_ticks(apart) / self._context.machine.facts.ticks_per_second
        return Read(located(apart) / PARAMS.lines, seconds * 1e9 / PARAMS.lines, float(near.mean()))

    def _probes(self, question: Question, chased: Scattered) -> dict[int, Probe]:
        """One probe per CPU; each phase is one CPU's work, and all meet at a barrier behind it."""
        reader, owner, state, third = question
        loaded, stored = Probe(), Probe()
        for line in chased.lines:
            loaded, stored = loaded.load(line), stored.store(line + 8)  # behind the pointer
        # translations first: what prefetchers bring for these loads is flushed
        phases = [(reader, chased.translated() + chased.flushed(PARAMS.settle).fence())]
        phases.append((owner, (stored if state == "modified" else loaded).fence()))
        if state == "shared":
            phases.append((reader if third is None else third, loaded.fence()))
        if state == "shared" and third is None:
            phases.append((reader, Probe().chase(WALK, len(self._walk)).fence() + chased.translated()))
        phases.append((reader, Probe().paired(chased.chase)))
        probes = dict.fromkeys(sorted({each for each, _ in phases}), Probe())
        for cpu, work in phases:
            probes = {each: ((probe + work) if each == cpu else probe).barrier() for each, probe in probes.items()}
        return probes

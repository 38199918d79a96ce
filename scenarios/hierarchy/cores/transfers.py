"""What other CPUs add: lines they hold, the time until they have started, and what a sibling thread costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.chases import Lines
from setebench.experiments.lines.layout import TLB_PAGE_BYTES, Spread, by_windows, group, group_bases, lay, span_bytes
from setebench.experiments.lines.placing import BASELINE_ADDITIONS, SETTLE_CYCLES, TARGETS, WALK, WARMERS
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.drift import over_time
from setebench.stats.estimate import Estimate as OverEpochs
from setebench.stats.estimate import Interval
from setebench.stats.ticks.location import dominant, mean_ticks, over_replicates

from .findings import PARAMS, Read, from_memory

STATES = ("modified", "exclusive", "shared")


def private_walk(context: Context, region: Region, second: int, third: float) -> Lines:
    """Lines to traverse so that a core's private caches lose what they held, a second one of at most so many lines and
    a third one of so many; none where nothing bounds the second (0) or memory for it isn't to be had, since too short a
    traversal would leave lines where nobody else's answer is asked for."""
    by_chance = PARAMS.third_ratio * PARAMS.by_chance * second < third
    length = (PARAMS.by_chance if by_chance else PARAMS.usual) * second * region.line_size
    ground = Region(region.address, region.size // 2, region.page_size, region.line_size)
    if not second or span_bytes(length, ground.line_size) > ground.size:
        return np.zeros(0, dtype=np.int64)
    rng = context.rng(61)
    return by_windows(lay(ground, length, rng), rng)


class Question(NamedTuple):
    """Which CPU reads a line that which one holds, in which state, shared with which third one."""

    reader: int
    owner: int
    state: str
    third: int | None = None


def first_cpus(context: Context) -> list[int]:
    """One CPU of every core: `context.cpu` of its own, the first of the others."""
    groups = context.machine.facts.siblings or tuple((cpu,) for cpu in context.machine.facts.cpus)
    return sorted(context.cpu if context.cpu in each else min(each) for each in groups)


def cpu_pairs(context: Context, every: bool) -> list[tuple[int, int]]:
    """Ordered pairs (reader, owner) of CPUs on different cores."""
    cpus = first_cpus(context)
    own = context.cpu if context.cpu in cpus else cpus[0]
    readers = cpus if every or len(cpus) <= PARAMS.cores_in_pairs else [own]
    return [(reader, owner) for reader in readers for owner in cpus if reader != owner]


def further_cpu(cycles: dict[tuple[int, int], float], reader: int, owner: int) -> int | None:
    """The CPU furthest from the reader, by what reads of the others' lines cost; None where that is the owner.

    It may hold a line together with the owner without being the one that delivers it: the nearest does."""
    furthest = max(
        (pair for pair in cycles if pair[0] == reader and pair[1] != owner), key=lambda pair: cycles[pair], default=None
    )
    return None if furthest is None or cycles[furthest] < cycles[reader, owner] - PARAMS.same_cycles else furthest[1]


def enough(found: Interval, rounds: int, most: int) -> bool:
    """Whether so many rounds do; `most` are worth while for an interval that is as narrow as can be."""
    if rounds >= PARAMS.most_rounds or found.narrow(PARAMS.narrow, PARAMS.narrow_cycles):
        return True
    return rounds >= most and found.narrow(PARAMS.precise, PARAMS.precise_cycles)


class Transfers:
    """Reads of lines that other cores hold."""

    def __init__(self, context: Context, region: Region, walk: Lines) -> None:
        self._context, self._region, self._walk, self._steps = context, region, walk, len(walk)
        self._rng = context.rng(51)
        if len(walk):
            context.machine.link(region, walk)

    def cycles(self, question: Question) -> Read:
        """A read that is measured alone.

        `shared`: `third` has loaded the line as well; without one the reader itself has, and lost its copy by walking
        over more lines than its private caches hold, but not so many that no cache holds it any more. Where one level
        did not clearly answer, shorter walks are tried, until some in a row show the same; later reads follow the last
        of them from the beginning. On a clock that doesn't show memory beside the third cache no walk is believed
        alone, and what others don't confirm is reported as coming from several places."""
        found = self._measured(question)
        shows, walked = self._shows_memory, question.state == "shared" and question.third is None
        if not walked or (shows and self._clear(found)):
            return found
        longest, tried, wanted = self._steps, [found], PARAMS.alike_walks - shows
        own = PARAMS.own * self._context.calibration.level_cycles.get("l2", 0.0)
        for _ in range(PARAMS.shorter_walks):
            self._steps = int(self._steps / PARAMS.shorter)
            tried.append(self._measured(question))
            if tried[-1].cycles.value <= own:  # the reader's own second cache may have answered
                break
            values = [each.cycles.value for each in tried[-wanted:] if self._clear(each)]
            if len(values) == wanted and max(values) - min(values) < PARAMS.same * min(values):
                return tried[-1]
        self._steps = longest
        return found if shows else Read(found.cycles, 0.0, found.ends)

    @property
    def _shows_memory(self) -> bool:
        """Whether single loads that memory answers stand apart from those of the third cache. Else what is reported may
        be a mixture of the two."""
        cycles = self._context.calibration.level_cycles
        if "l3" not in cycles:
            return True
        apart = (cycles["memory"] - cycles["l3"]) / cycles_per_tick(self._context)
        return bool(apart > PARAMS.apart_steps * step_ticks(self._context))

    def _clear(self, found: Read) -> bool:
        """Whether one level answered, and that is not memory though there is a third cache."""
        precise = found.share >= PARAMS.least_group and found.cycles.narrow(PARAMS.precise, PARAMS.precise_cycles)
        return precise and not from_memory(found.cycles.value, self._context.calibration.level_cycles)

    def _measured(self, question: Question) -> Read:
        return self.together([question])[0]

    def together(self, questions: Sequence[Question]) -> list[Read]:
        """Rounds of all in turn, until they show the cycles of each, or there were enough of them: so each is spread
        over the time that all take."""
        series: list[list[tuple[float, float]]] = [[] for _ in questions]
        left = list(range(len(questions)))
        while left:
            for number in left:
                series[number].append(self._round(questions[number]))
            left = [number for number in left if not self._enough(questions[number], series[number])]
        return [_read(each) for each in series]

    def _enough(self, question: Question, rounds: Sequence[tuple[float, float]]) -> bool:
        lost = question.state == "shared" and question.third is None and self._shows_memory
        most = PARAMS.lost_rounds if lost else PARAMS.most_rounds
        found = [value for value, _ in rounds]
        if len(found) < PARAMS.rounds or not enough(over_replicates(found), len(found), most):
            return False
        # where a run drifts, what it leaves open of a longer time gets less with more rounds
        return len(found) >= most or over_time(found, shared=True).half_width <= PARAMS.precise * abs(
            float(np.mean(found))
        )

    def can_share(self, third: int | None) -> bool:
        """Whether a shared line can be read that the reader does not hold."""
        return third is not None or len(self._walk) > 0

    def _round(self, question: Question) -> tuple[float, float]:
        context, line = self._context, self._region.line_size
        spread = Spread.within(self._region.size - self._first_byte())
        own = group(self._rng, line, spread)
        targets, warmers = group_bases(self._region, self._first_byte(), PARAMS.repetitions, self._rng, spread)
        probes = self._probes(own.targets, own.warmers, question)
        walk = self._walk[:1] if len(self._walk) else targets[:1]
        placements = {TARGETS: targets, WARMERS: warmers, WALK: np.repeat(walk, len(targets))}
        ticks: Ticks = context.machine.run_together(probes, placements, warmup=1)[question.reader]
        loads, additions = ticks[:, ::2].ravel(), ticks[:, 1::2].ravel()
        step = step_ticks(context)
        kept = dominant(loads, step)
        more = mean_ticks(loads[kept], step) - mean_ticks(additions, step)
        return more * cycles_per_tick(context) + BASELINE_ADDITIONS, float(kept.mean())

    def _first_byte(self) -> int:
        return int(self._walk.max()) + TLB_PAGE_BYTES - self._region.address if len(self._walk) else 0

    def _probes(self, targets: Sequence[int], warmers: Sequence[int], question: Question) -> dict[int, Probe]:
        """One probe per CPU; each phase is one CPU's work, and all meet at a barrier behind it."""
        reader, owner, state, third = question
        flushed, loaded, stored = Probe(), Probe(), Probe()
        for offset in targets:
            flushed, loaded, stored = (
                flushed.flush(TARGETS + offset),
                loaded.load(TARGETS + offset),
                stored.store(TARGETS + offset),
            )
        settled = flushed.fence().wait(SETTLE_CYCLES).fence()
        phases = [(owner, settled + (stored if state == "modified" else loaded).fence())]
        if state == "shared":
            phases.append((reader if third is None else third, loaded.fence()))
        if state == "shared" and third is None:
            phases.append((reader, Probe().chase(WALK, self._steps).fence()))
        phases.append((reader, self._reads(targets, warmers)))
        cpus = {reader, owner} | ({third} if third is not None else set())
        probes = dict.fromkeys(sorted(cpus), Probe())
        for cpu, work in phases:
            probes = {each: ((probe + work) if each == cpu else probe).barrier() for each, probe in probes.items()}
        return probes

    def _reads(self, targets: Sequence[int], warmers: Sequence[int]) -> Probe:
        """Every other target timed, and additions in between as the baseline.

        What a bracket costs depends on what comes right before it (a fence, on some cores), so the baseline is measured
        in the same place."""
        probe = Probe()
        for number, (target, warmer) in enumerate(zip(targets, warmers, strict=True)):
            # a flush under way slows the next load, in some guests by hundreds of cycles
            probe = probe.flush(WARMERS + warmer).fence().wait(SETTLE_CYCLES).fence().start(number)
            probe = probe.add(BASELINE_ADDITIONS) if number % 2 else probe.load(TARGETS + target)
            probe = probe.stop(number)
        return probe


def _read(rounds: Sequence[tuple[float, float]]) -> Read:
    """From cycles and the share of the largest group in each round, in the order of time."""
    found, shares = zip(*rounds, strict=True)
    drift = over_time(found, shared=True).half_width
    return Read(over_replicates(found), float(np.mean(shares)), (min(found), max(found)), drift)


def start_spread(context: Context) -> list[float]:
    """Microseconds between the first and the last thread of every joint start.

    Each thread times how long it waits at the first barrier: who waits longest came first. Differences of such waits
    need no clock that is the same on all CPUs."""
    cpus = context.machine.facts.cpus
    probe = Probe().start(dither=False).barrier().stop()
    found = []
    for _ in range(PARAMS.starts):
        waits = context.machine.run_together(dict.fromkeys(cpus, probe), 1)
        ticks = [int(each[0, 0]) for each in waits.values()]
        found.append((max(ticks) - min(ticks)) / context.machine.facts.ticks_per_second * 1e6)
    return found


SIBLING_RING = Base("sibling_ring")

TURN_STEPS = 2048
"""Loads timed at once: a clock step of 30 ticks is a hundredth of a tick beside them, and few turns meet a stall."""


def smt_latency(context: Context, region: Region, siblings: Sequence[int]) -> OverEpochs:
    """Cycles per load from the first cache while another thread of the core does the same, mean of both threads."""
    cpus = sorted(siblings)[:2]
    begin = region.address
    own = np.arange(16) * region.line_size
    rings = [context.fresh_rng(7).permutation(begin + n * TLB_PAGE_BYTES + own) for n in range(2)]
    bases = (Base("ring"), SIBLING_RING)
    for ring in rings:
        context.machine.link(region, ring)
    placements = {
        base: np.repeat(ring[:1], PARAMS.turns + PARAMS.warm_turns) for base, ring in zip(bases, rings, strict=True)
    }
    probes = {
        cpu: Probe()
        .barrier()
        .chase(base, TURN_STEPS // 4)
        .start()
        .chase(base, TURN_STEPS)
        .stop()
        .chase(base, TURN_STEPS)
        .start(1)
        .stop(1)
        for cpu, base in zip(cpus, bases, strict=True)
    }
    found = []
    for _ in range(PARAMS.rounds):
        ticks = context.machine.run_together(probes, placements, warmup=PARAMS.warm_turns)
        chases = np.mean([np.median(ticks[cpu][:, 0]) - ticks[cpu][:, 1].mean() for cpu in cpus])
        found.append(float(chases) * cycles_per_tick(context) / TURN_STEPS)
    return over_time(found).doubted(PARAMS.pace)

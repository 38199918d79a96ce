"""Latency of lines that another core holds, and how far apart in time threads start.

In each sample the reader's CPU flushes lines, the owner's stores or loads them, a third CPU may load them too, and the
reader chases them; a barrier separates these phases. A hypervisor may put both CPUs on one core for a while: such
samples are recognised by their short latency, as the core's own caches answer, and are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from setebench.experiments.calibrate import reference, step_ticks
from setebench.experiments.memory import Scattered, scattered
from setebench.experiments.paired import paired
from setebench.machine import Region
from setebench.probe import Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import located, ticks
from setebench.stats.rounds import LATENCY, quantile_of_rounds


@dataclass(frozen=True, kw_only=True)
class Params:
    """How lines of other cores are read, for how many pairs of CPUs, and how thread starts are timed."""

    memory_bytes: int = 32 << 20  # memory that the lines are drawn from
    lines: int = 8  # lines of a chase, each on its own page: within any first TLB
    samples: int = 24  # chases per pair and state in a round
    settle: int = 2000  # cycles of waiting after flushes
    pairs: int = 128  # pairs of CPUs at most, unless the user wants all: about ten seconds in six rounds
    own: float = 1.25  # least latency of another core's line, relative to that of the last private cache
    same_cycles: float = 1.0  # latencies that differ by no more count as equal
    bias: float = 0.4  # systematic error of a load in cycles, from the bracket: 3 cycles over the lines of a chase
    starts: int = 40  # joint starts of all threads, from which the spread is taken


PARAMS = Params()
Pair = tuple[int, int]


class Read(NamedTuple):
    """What one round measured of a pair of CPUs (reader, owner) and a state of the owner's lines. `cycles` and `ns` are
    the latency per load, NaN where too few samples were undisturbed. `one_core` is the share of samples in which both
    CPUs were on one core, which the latency leaves out."""

    cycles: float
    ns: float
    one_core: float


Reads = dict[str, Read]
"""The result of one round, by the last parts of the parameter's name: READER-OWNER.STATE."""


def cpu_pairs(context: Context) -> list[Pair]:
    """Return all pairs (reader, owner) of CPUs on different cores, the measured CPU as reader first. For each reader,
    owners with distant numbers come first: cores of one cache, die or socket have successive numbers."""
    groups = context.machine.facts.siblings or tuple((cpu,) for cpu in context.machine.facts.cpus)
    cpus = sorted(context.own_cpu if context.own_cpu in each else min(each) for each in groups)
    bits = len(cpus).bit_length()
    spread = sorted(range(len(cpus)), key=lambda number: f"{number:0{bits}b}"[::-1])
    ordered = [cpus[number] for number in spread]
    readers = sorted(ordered, key=lambda cpu: cpu != context.own_cpu)
    return [(reader, owner) for reader in readers for owner in ordered if reader != owner]


def further_cpu(cycles: Mapping[Pair, float], reader: int, owner: int) -> int | None:
    """Return a CPU that can share the owner's line and won't be the one to deliver it, if the holder nearest to the
    reader delivers: the CPU whose lines take the reader longest, by `cycles` of pairs (reader, owner). Return None if
    the owner's own lines take the reader longest."""
    others = [pair for pair in cycles if pair[0] == reader and pair[1] != owner]
    furthest = max(others, key=lambda pair: cycles[pair], default=None)
    return None if furthest is None or cycles[furthest] < cycles[reader, owner] - PARAMS.same_cycles else furthest[1]


def read_lines(context: Context) -> Reads:
    """Measure one round: all pairs, each with modified, exclusive and shared lines. A pair's result for shared lines is
    NaN where no third core is further from the reader than the owner."""
    pairs = cpu_pairs(context)[: None if context.options.get("all_pairs") else PARAMS.pairs]
    found, exclusive = Reads(), {}
    with context.memory(min(PARAMS.memory_bytes, context.machine.facts.memory_bytes // 4)) as region:
        for pair in pairs:
            found["{}-{}.modified".format(*pair)] = _read(context, region, pair, stored=True)
            each = found["{}-{}.exclusive".format(*pair)] = _read(context, region, pair)
            exclusive[pair] = each.cycles if np.isfinite(each.cycles) else np.inf
        for pair in pairs:
            third = further_cpu(exclusive, *pair)
            shared = Read(np.nan, np.nan, 0.0) if third is None else _read(context, region, pair, third=third)
            found["{}-{}.shared".format(*pair)] = shared
    return found


def _read(context: Context, region: Region, pair: Pair, *, stored: bool = False, third: int | None = None) -> Read:
    """Measure the reader's latency of lines that the owner stored or loaded, and that a `third` CPU may have loaded."""
    chased = scattered(context, region, PARAMS.lines, PARAMS.samples)
    probes = _probes(context, pair, chased, stored, third)
    every = paired(context, context.machine.run_together(probes, chased.places)[pair[0]], PARAMS.lines)
    references = every.ticks[:, (0, -1)].mean(axis=1) - every.ticks[:, 1].mean()
    cycles = (every.ticks[:, 2] - every.ticks[:, 1]) / references * every.reference_cycles / PARAMS.lines
    assert context.calibration.levels is not None  # `answer` found them
    levels = context.calibration.levels.cycles
    second = levels.get("l2", levels["l1"])
    # another core's line costs about as much as L3, one of the same core about as much as L2 (21 cycles for 14)
    near = cycles < max(PARAMS.own * second, (second * levels.get("l3", second)) ** 0.5)
    several = msgspec.structs.replace(every, ticks=every.ticks[~near])
    if not len(several.ticks):
        return Read(np.nan, np.nan, 1.0)
    seconds = ticks(several) / context.machine.facts.ticks_per_second
    return Read(located(several) / PARAMS.lines, seconds * 1e9 / PARAMS.lines, float(near.mean()))


def _probes(context: Context, pair: Pair, chased: Scattered, stored: bool, third: int | None) -> dict[int, Probe]:
    """Return one probe per CPU (flush, store or load, chase). In each phase one CPU works, and a barrier ends it."""
    (reader, owner), loads, stores = pair, Probe(), Probe()
    for line in chased.lines:
        loads, stores = loads.load(line), stores.store(line + 8)  # behind the pointer
    # translations are loaded before the flushes, which also take out what prefetchers load meanwhile
    phases = [(reader, chased.translated() + chased.flushed(PARAMS.settle).fence())]
    phases.append((owner, (stores if stored else loads).fence()))
    phases += [] if third is None else [(third, loads.fence())]
    phases.append((reader, Probe().paired(reference(context).work, chased.chase)))
    probes = dict.fromkeys(sorted({each for each, _ in phases}), Probe())
    for cpu, work in phases:
        probes = {each: ((probe + work) if each == cpu else probe).barrier() for each, probe in probes.items()}
    return probes


def transfer_findings(context: Context, rounds: Sequence[Reads]) -> Iterator[Finding]:
    """Yield the latency of reading another core's line, by pair of CPUs and state; keep the table as evidence."""
    table = context.evidence["core_to_core"] = {state: [] for state in ("modified", "exclusive", "shared")}
    every = {name: [each[name] for each in rounds] for name in (rounds[0] if rounds else ())}
    for name, reads in every.items():
        finding = transfer_finding(name, reads)
        pair, state = name.split(".")
        if isinstance(finding.value, float):
            table[state].append([*map(int, pair.split("-")), round(finding.value, 2)])
        yield finding


def transfer_finding(name: str, reads: Sequence[Read]) -> Finding:
    """Return the latency in cycles of one pair of CPUs and one state (`name`), from its reads in all rounds."""
    parameter, answered = f"latency.core_to_core.{name}", [each for each in reads if np.isfinite(each.cycles)]
    together = float(np.mean([each.one_core for each in reads]))
    if not answered:
        reason = "in too few samples the two CPUs were on two cores"
        return decide.unresolved(
            parameter, "cycles", reason if together else "needs a third core that is further away than the owner"
        )
    value = quantile_of_rounds([each.cycles for each in answered], LATENCY, (PARAMS.bias, PARAMS.bias))
    ns = quantile_of_rounds([each.ns for each in answered], LATENCY)
    how = f"chases over lines of another core, {len(answered)} rounds, {ns.value:.4g} ns [{ns.low:.4g}, {ns.high:.4g}]"
    how += f"; both CPUs shared one core in {together:.0%} of the time" if together else ""
    return decide.measured(parameter, value._replace(low=max(value.low, 0.0)), "cycles", how, "core_to_core")


def thread_starts(context: Context) -> Finding:
    """Measure the microseconds between the first and the last thread's start when all are started together.

    Each thread times its wait at the first barrier: the longest wait is that of the earliest thread. Differences of
    waits need no clock that agrees between CPUs."""
    parameter, method, cpus = "thread_start.spread", "waits at the first barrier", context.machine.facts.cpus
    if len(cpus) < 2:
        return decide.unavailable(parameter, "microseconds", "one CPU", method)
    context.progress("thread starts")
    probe, per_microsecond = Probe().start(dither=False).barrier().stop(), context.machine.facts.ticks_per_second / 1e6
    found = []
    for _ in range(PARAMS.starts):
        waits = [int(each[0, 0]) for each in context.machine.run_together(dict.fromkeys(cpus, probe), 1).values()]
        found.append((max(waits) - min(waits)) / per_microsecond)
    context.evidence["thread_start_microseconds"] = [round(each, 4) for each in sorted(found)]
    low, middle, high = np.quantile(found, (0.025, 0.5, 0.975)).tolist()
    step = 2 * step_ticks(context) / per_microsecond  # two waits are subtracted, each on a clock that moves in steps
    spread = Interval(middle, max(low - step, 0.0), high + step)
    return decide.measured(parameter, spread, "microseconds", method, "thread_start_microseconds")

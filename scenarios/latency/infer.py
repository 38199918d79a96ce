"""From rounds to the latency of each level, by single loads and by chains, which should agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Levels
from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.drift import offset, over_time, pooled
from setebench.stats.estimate import Estimate
from setebench.stats.levels import LevelsParams
from setebench.stats.served import Intervals, Served, ServedParams, fit
from setebench.stats.ticks.location import mean_ticks, undisturbed

from .params import Params
from .rounds import Round, Timings, crude_cycles
from .vectors import vector_finding, vector_surplus


@dataclass(frozen=True)
class Latency:
    """A level's latency by single loads, by chains and by both; what the `bracket` was found to add to a single load,
    which is off the former; `own` is the least part of the lines that the level itself served."""

    single: Estimate
    chain: Estimate
    both: Estimate
    bracket: Estimate
    own: float = 1.0


@dataclass(frozen=True)
class _Asked:
    """A level that is asked for: about how many cycles it takes, what the levels take that may serve its lines instead,
    whether other cores use it as well, and what the bracket adds to a single load."""

    name: str
    about: float
    others: Sequence[float]
    shared: bool
    bracket: Estimate


def counted(rounds: Sequence[Round], params: Params) -> list[Round]:
    """The rounds in which additions ran as fast as they do undisturbed. Nothing else selects a round: by its own values
    a latency would be low by chance."""
    pace = np.array([1.0 / each.tick_rate.cycles_per_tick for each in rounds])
    fast = np.flatnonzero(pace <= params.pace * np.quantile(pace, 0.25))
    chosen = fast if len(fast) >= params.counted else np.argsort(pace)[: params.counted]
    return [rounds[number] for number in np.sort(chosen)]


def settled(rounds: Sequence[Round], levels: Levels, params: Params) -> bool:
    """Whether further rounds would say little more of any level."""
    chosen = counted(rounds, params)
    crude = (over_time([crude_cycles(each, name) for each in chosen]) for name in levels.walks)
    return all(each.half_width <= max(params.settled * each.value, params.settled_cycles) for each in crude)


def latencies(rounds: Sequence[Round], levels: Levels, step: float) -> dict[str, Latency]:
    """Of every level, nearest first. What is known of nearer levels, and about of further ones, explains lines that
    these served.

    Single loads are compared with additions, and a bracket need not wait for a load's value as it waits for a sum. What
    it adds to a load is alike in all levels. The first one shows it, where both ways are precise: the slope of chains
    has no bracket in it."""
    known, found, names = dict(levels.cycles), {}, list(levels.walks)
    chain = over_time([crude_cycles(each, names[0]) for each in rounds])
    single = over_time([_single_cycles(each, names[0], step) for each in rounds])
    bracket = offset(single, chain)
    for number, name in enumerate(names):
        if not number:  # to which all lines are brought for sure: plain means
            own = _freed(single, bracket)
            found[name] = Latency(own, chain, pooled(own, chain), bracket)
        else:  # prefetchers may bring flushed lines to any cache
            near = names[:-1] if name == MEMORY else {names[number - 1], names[number + 1], MEMORY}
            others = [known[each] for each in names if each in near]
            about = _median_cycles(rounds, name) if name == MEMORY else known[name]
            found[name] = _among(rounds, _Asked(name, about, others, levels.shared(name), bracket), step)
        known[name] = found[name].both.value
    return found


def _median_cycles(rounds: Sequence[Round], name: str) -> float:
    """About what most single loads take, on any clock: half of its step may be missing."""
    parts = [(each.tick_rate.cycles_per_tick, one.singles) for each in rounds for one in each.levels[name]]
    longer = [(np.median(timed.loads) - np.mean(timed.additions)) * per_tick for per_tick, timed in parts]
    return float(np.median(longer)) + parts[0][1].additions_cycles


def _freed(single: Estimate, bracket: Estimate) -> Estimate:
    """Single loads without what the bracket adds to them."""
    return msgspec.structs.replace(single, value=single.value - bracket.value).with_error(bracket.error)


def _single_cycles(one: Round, name: str, step: float) -> float:
    """Cycles of a load: its mean over that of the additions timed beside it."""
    timed = [each.singles for each in one.levels[name]]
    longer = [mean_ticks(each.loads, step) - mean_ticks(each.additions, step) for each in timed]
    return float(np.mean(longer)) * one.tick_rate.cycles_per_tick + timed[0].additions_cycles


def _among(rounds: Sequence[Round], asked: _Asked, step: float) -> Latency:
    """A level some of whose lines others serve."""
    timings = [(each, part) for each in rounds for part in each.levels[asked.name]]
    about, foreign = asked.about, np.array(asked.others)
    added = asked.bracket.value
    known = np.array([_overhead(one, part, step) + added / one.tick_rate.cycles_per_tick for one, part in timings])
    params = ServedParams()
    loads = [_singles(one, part, step) for one, part in timings]
    if asked.name == MEMORY:
        params = msgspec.structs.replace(params, alike=max(params.alike, _spread(loads, known, about)))
    singles = fit(loads, about, foreign, known, params)
    chains = fit([_chains(one, part, step) for one, part in timings], about, foreign, None, params)
    single, chain = (_over_time(each, asked.shared) for each in (singles, chains))
    single = single.with_error(asked.bracket.error)
    return Latency(single, chain, pooled(single, chain), asked.bracket, min(singles.own, chains.own))


def _spread(epochs: Sequence[Intervals], overhead: NDArray[np.float64], cycles: float) -> float:
    """Standard deviation of loads from memory relative to their mean: rows, banks, refreshes and other users make some
    take far longer than most, and the mean of all of them is the latency. No cache takes half as long as most do."""
    longer = np.concatenate(
        [(one.ticks - ticks) * one.cycles_per_tick for one, ticks in zip(epochs, overhead, strict=True)]
    )
    own = longer[longer > cycles / 2]
    return float(own.std() / own.mean()) if len(own) > 1 else 0.0


def _over_time(found: Served, shared: bool) -> Estimate:
    estimate = over_time(found.cycles, shared=shared)
    return estimate.with_error(found.shared_error)


def _overhead(one: Round, part: Timings, step: float) -> float:
    """Ticks of an interval without a load."""
    return mean_ticks(part.singles.additions, step) - part.singles.additions_cycles / one.tick_rate.cycles_per_tick


def _singles(one: Round, part: Timings, step: float) -> Intervals:
    loads = part.singles.loads[undisturbed(part.singles.loads, step)]
    return Intervals(
        count=np.ones(len(loads), dtype=np.int64),
        ticks=loads.astype(np.float64),
        step=step,
        jitter2=part.singles.bracket_jitter2(step),
        cycles_per_tick=one.tick_rate.cycles_per_tick,
    )


def _chains(one: Round, part: Timings, step: float) -> Intervals:
    return Intervals.of_chains(part.chains, step, part.singles.bracket_jitter2(step), one.tick_rate.cycles_per_tick)


# -- findings ------------------------------------------------------------------------------------


def findings(rounds: Sequence[Round], levels: Levels, step: float, params: Params) -> Iterator[Finding]:
    """Latencies of all levels, nearest first and memory last, by the two ways and as agreed, and of vector loads."""
    found = latencies(rounds, levels, step)
    transfer = over_time([each.transfer_cycles for each in rounds])
    doubts = _doubts(found, levels, params)
    for name, own in found.items():
        added = f", without {own.bracket.value:+.1f} cycles that the bracket adds" if own.bracket.value else ""
        yield _one_way(f"latency.{name}.sete", own.single, f"dithered single loads{added}")
        yield _one_way(f"latency.{name}.chase", own.chain, "chains of different length")
        agreed = _latency(f"latency.{name}", own, doubts.get(name, ""), len(rounds))
        if agreed.outcome is Outcome.MEASURED:
            agreed = decide.as_precise(agreed, max(params.precise * own.both.value, params.precise_cycles))
        yield agreed
        for size in sorted({size for each in rounds for level, size in each.longer if level == name}):
            surplus = vector_surplus(rounds, name, size, transfer, params)
            yield vector_finding(f"latency.{name}.vector{size}", agreed, surplus, params)


EVIDENCE = "single_load_ticks"
TOO_NOISY = "too noisy; run again on a quieter machine"


def _doubts(found: Mapping[str, Latency], levels: Levels, params: Params) -> dict[str, str]:
    """Why caches can't be stated: what speaks against one speaks against the numbers of those further out."""
    doubts: dict[str, str] = {}
    for before, name in pairwise(levels.caches):
        doubts[name] = doubts.get(before) or _doubt(name, before, found, levels, params)
    return doubts


def _doubt(name: str, before: str, found: Mapping[str, Latency], levels: Levels, params: Params) -> str:
    """What speaks against a cache; empty where nothing does. `before` is the one before."""
    own, memory = found[name], found[MEMORY].both.value
    cycles = own.both.value
    if cycles < LevelsParams().apart * found[before].both.value:
        return f"{name} takes {cycles:.1f} cycles, hardly longer than the level before it"
    if cycles > memory / LevelsParams().apart:
        return f"{name} takes {cycles:.1f} cycles, nearly as long as memory: its lines were evicted"
    if cycles > levels.hidden_cycles:
        return f"some lines took {levels.hidden_cycles:.1f} cycles, which may be a level of its own before {name}"
    if own.own < params.own:
        return f"{name} served {own.own:.0%} of its lines"
    return ""


def _one_way(parameter: str, estimate: Estimate, method: str) -> Finding:
    """A latency by one of the two ways, however wide its interval, unless that holds none at all."""
    if estimate.low <= 0:
        return decide.unresolved(parameter, "cycles", TOO_NOISY, method)
    return decide.measured(parameter, estimate, "cycles", method, EVIDENCE)


def _latency(parameter: str, own: Latency, doubt: str, rounds: int) -> Finding:
    if doubt:
        return decide.unresolved(parameter, "cycles", f"{doubt}; run again on a quieter machine", METHOD)
    both = own.both
    method = f"{METHOD}, {rounds} rounds"
    if own.own < 1.0:
        method += f", {own.own:.0%} of lines from the level"
    if not np.isfinite(both.half_width) or both.low <= 0:
        return decide.unresolved(parameter, "cycles", TOO_NOISY, method)
    return decide.measured(parameter, both, "cycles", method, EVIDENCE)


METHOD = "single loads and chains together"

"""From rounds of single loads and chains to the latency of a level. Knows no machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from setebench.infer.cycles import (
    AGREE_CYCLES,
    AGREE_RELATIVE,
    WIDEST_CYCLES,
    WIDEST_RELATIVE,
    measured,
    narrow,
    unresolved,
)
from setebench.infer.drift import over_run
from setebench.infer.latency_samples import Samples
from setebench.infer.ticks import Estimate, agree, over_replicates, over_rounds
from setebench.infer.vectors import vector_finding, vector_longer
from setebench.results import Finding

DIFFER_RELATIVE, DIFFER_CYCLES = 0.15, 3.0
"""Up to 15 % or 3 cycles apart (a few targets were pushed out of the level by somebody else) the interval is widened
over both ways; beyond, no value is told."""

RUN_TO_RUN = 0.005
"""Intervals are no narrower than this to either side: ratios of clock and core drift by as much from run to run."""

SHARED_LEVELS = ("l3", "memory")
"""What other cores use as well: how much they do drifts in longer times than a run lasts."""

WALK_TO_WALK = 0.04
"""Of walks behind which a level's lines take the same time but for 4 % (`rungs.AS_SLOW_RATIO`), any may be taken. The
faster ones leave lines in the level before, so the interval reaches up by that much, and down by half of it, as the
slowest of several is so by chance too."""

LEAST_SHARE, ALONE_SHARE = 0.5, 0.98
"""So many single loads must be of one group for any value to be told, and so many for the level to be alone."""

MIXED_RELATIVE, MIXED_CYCLES = 0.1, 1.0
"""A level whose mean may be off by more, because lines from another level are mixed in, is not told."""

ALONE_RELATIVE, ALONE_CYCLES = 0.02, 0.25
"""Up to so much mixed in, a chain is more precise than single loads are; beyond, the fastest lines are told."""

NEXT_LEVEL_RATIO = 1.2
"""A level takes so much longer than the one before it, or it is the same one: no published hierarchy has levels that
are closer."""


def findings(
    samples: dict[str, Samples],
    transfers: list[float],
    hidden_cycles: float = float("inf"),
    searched: Mapping[str, float] | None = None,
) -> Iterable[Finding]:
    """Latencies of all levels, nearest first and memory last, by the two ways and as agreed. `transfers` are cycles of
    a register round trip, one per round. Beyond `hidden_cycles` levels can't be numbered (see `levels_between`).
    `searched` is in how many cycles levels answered when they were looked for."""
    doubt, last = "", 0.0
    memory = over_replicates(samples["memory"].single).value
    singles = [over_replicates(own.single).value for own in samples.values()]
    for (name, own), further in zip(samples.items(), [*singles[1:], 0.0], strict=True):
        mixed_in, nearer_in = (0.0, 0.0) if name == "memory" else _mixed_in_cycles(own, last, further)
        if name not in ("l1", "memory"):
            doubt = doubt or _doubt(name, own, last, memory, hidden_cycles, mixed_in)
            doubt = doubt or _changed(name, own, (searched or {}).get(name, 0.0))
        nearer, last = last, over_replicates(own.single).value
        agreed = _agreed(f"latency.{name}", own, mixed_in)
        if _mixture(own, mixed_in):  # so single loads are told
            room = 0.0 if name in ("l1", "memory") else _nearer_in_group_cycles(own, nearer, nearer_in)
            agreed = _with_nearer_lines(agreed, room)
        elif not own.upwards:  # else the chains' variance comes from lines further out
            agreed = _with_nearer_lines(agreed, nearer_in)
        if doubt and name != "memory":
            agreed = _unresolved(f"latency.{name}", doubt)
        if name in (searched or {}):
            agreed = _walks_apart(agreed)
        yield from _both_ways(name, own)
        yield agreed
        for size in own.longer:
            longer = vector_longer(size, own, samples["l1"], over_replicates(transfers))
            yield vector_finding(f"latency.{name}.vector{size}", agreed, longer)


def _doubt(name: str, own: Samples, last: float, memory: float, hidden_cycles: float, mixed_in_cycles: float) -> str:
    """Why this level, and with it the numbers of those further out, can't be told; empty where nothing speaks against
    it. `last` is the latency of the level before."""
    chain, single = over_replicates(own.chain).value, over_replicates(own.single).value
    everything = over_replicates(own.all_singles).value
    left = mixed_in_cycles - max(everything - single, 0.0)
    if not _parted(own) and left > max(MIXED_RELATIVE * chain, MIXED_CYCLES):
        return f"{name} is a mixture of levels, so the levels after it can't be told apart for sure"
    if min(chain, single) < NEXT_LEVEL_RATIO * last:
        return f"{name} takes {min(chain, single):.1f} cycles, hardly longer than the level before it"
    if max(chain, single) > memory / NEXT_LEVEL_RATIO:
        return f"{name} takes {max(chain, single):.1f} cycles, nearly as long as memory: its lines were pushed out"
    if single > hidden_cycles:
        return f"some lines took {hidden_cycles:.1f} cycles, which may be a level of its own before {name}"
    return ""


def _changed(name: str, own: Samples, searched_cycles: float) -> str:
    """Why a level is not what it was when it was looked for, empty where it is: lines that answer faster now are held
    by the level before, which had less room then (somebody else used it)."""
    single = over_replicates(own.single).value
    if name == "l2" or single > searched_cycles / NEXT_LEVEL_RATIO:
        return ""
    return f"{name} took {searched_cycles:.1f} cycles when it was looked for, {single:.1f} later"


def _walks_apart(agreed: Finding) -> Finding:
    """With room for the walk that the level was measured behind, one of several: how many lines it leaves in the level
    before is the same all through a run, so no spread shows that."""
    if agreed.low is None or agreed.high is None or not isinstance(agreed.value, float):
        return agreed
    room = WALK_TO_WALK * agreed.value
    wide = Estimate(agreed.value, agreed.low - room / 2, agreed.high + room)
    return measured(agreed.parameter, wide, agreed.method or "")


def _both_ways(name: str, own: Samples) -> Iterable[Finding]:
    single, chain = (over_run(each, RUN_TO_RUN, shared=name in SHARED_LEVELS) for each in (own.single, own.chain))
    method = f"{len(own.single)} rounds of dithered single loads, the largest group"
    yield measured(f"latency.{name}.sete", single, method)
    yield measured(f"latency.{name}.chase", chain, "chains of different length")


def _agreed(parameter: str, own: Samples, mixed_in_cycles: float) -> Finding:
    """The level's latency: the chase's where its lines answer alike, else that of the single loads' largest group."""
    single, everything, chain, all_chains = (
        over_run(each, RUN_TO_RUN, shared=parameter == "latency.memory")
        for each in (own.single, own.all_singles, own.chain, own.all_chains)
    )
    if np.mean(own.share) < LEAST_SHARE:
        return _unresolved(parameter, f"only {np.mean(own.share):.0%} of single loads answer alike")
    if not _support_each_other(own):
        why = f"single loads take {single.value:.1f} cycles, a step of a chase {chain.value:.1f}"
        return _unresolved(parameter, f"{why}, too noisy to support each other")
    if not _mixture(own, mixed_in_cycles):
        pure = Estimate(chain.value, chain.low - mixed_in_cycles, chain.high)
        if single.high - single.low < 0.5 * (chain.high - chain.low):
            return _compared(parameter, single, single, pure, "single loads")  # a chain has more lines to go astray
        return _compared(parameter, pure, single, pure, "chase")
    if own.upwards and not _parted(own) and chain.value < single.value:
        # lines from further out raise both, so the lower one is nearer to the level
        pure = Estimate(chain.value, chain.low - mixed_in_cycles, chain.high)
        return _compared(parameter, pure, single, pure, "chase, raised less by lines from further out")
    # single loads show the level alone, a chain's steps are a mixture, unless the clock parts whole chains
    alone = f"{np.mean(own.share):.0%} of single loads"
    left = max(mixed_in_cycles - max(everything.value - single.value, 0.0), 0.0) if not _parted(own) else 0.0
    told = Estimate(single.value, single.low - left, single.high)
    if agree(single, chain, relative=AGREE_RELATIVE, absolute=AGREE_CYCLES):
        return _compared(parameter, told, single, chain, alone)
    return _compared(parameter, told, everything, all_chains, alone)


def _support_each_other(own: Samples) -> bool:
    """Whether either way says enough for its agreement to mean anything. Without the room for drift (`over_run`): that
    is a guess from a few blocks, and both ways drift together."""
    ways = (over_rounds(own.single), over_rounds(own.chain))
    return all(narrow(each, WIDEST_RELATIVE, WIDEST_CYCLES) for each in ways)


def _compared(parameter: str, told: Estimate, single: Estimate, chain: Estimate, method: str) -> Finding:
    """What is to be told, if single loads and chains support each other."""
    why = f"single loads take {single.value:.1f} cycles, a step of a chase {chain.value:.1f}"
    if agree(single, chain, relative=AGREE_RELATIVE, absolute=AGREE_CYCLES):
        held = told
        if told is chain or told is single:  # how far either drifts is known badly, so the other's value counts too
            held = _over_both(told, single if told is chain else chain)
        return measured(parameter, held, f"{method}; single loads and chases agree")
    if _differ_little(single, chain):
        apart = abs(single.value - chain.value)
        wide = Estimate(told.value, told.low - apart, told.high + apart)
        return measured(parameter, wide, f"{method}, interval widened: {why}")
    return _unresolved(parameter, why)


def _mixture(own: Samples, mixed_in_cycles: float) -> bool:
    """Whether chains are no measure of the level alone."""
    chain = over_replicates(own.chain).value
    return _parted(own) or mixed_in_cycles > max(ALONE_RELATIVE * chain, ALONE_CYCLES)


def _parted(own: Samples) -> bool:
    """Whether the clock is fine enough to see lines of other levels among the single loads, and some there are."""
    return float(np.mean(own.share)) < ALONE_SHARE


def _unresolved(parameter: str, why: str) -> Finding:
    reason = f"{why}; run again on a quieter machine, or see both values"
    return unresolved(parameter, reason, "chase and single loads")


def _over_both(first: Estimate, second: Estimate) -> Estimate:
    """The first way's estimate, with an interval that holds the other way's value too."""
    return Estimate(first.value, min(first.low, second.value), max(first.high, second.value))


def _mixed_in_cycles(own: Samples, nearer_cycles: float, further_cycles: float) -> tuple[float, float]:
    """By how much lines of further levels raise a chain's steps at most, where the clock can't part them, and by how
    much lines of the level before (`nearer_cycles`) lower them.

    Lines that take d cycles longer, a share p of them, add p d to a step's mean and p d ** 2 to its variance. The next
    level out takes `further_cycles`; where that is in doubt itself, twice as long as this one at least."""
    cycles = over_replicates(own.chain).value
    excess = max(float(np.median(own.excess)), 0.0)
    longer, shorter = max(further_cycles - cycles, cycles), cycles - nearer_cycles
    return excess / longer if longer > 0 else 0.0, excess / shorter if shorter > 0 else 0.0


def _nearer_in_group_cycles(own: Samples, nearer_cycles: float, nearer_in_chains_cycles: float) -> float:
    """By how much lines of the level before (`nearer_cycles`) may lower the single loads' largest group, as far as its
    spread surely is more than the clock's: a jitter as long as what parts the levels hides them in it. A clock that is
    too coarse for that leaves it to the chains of the same lines, where their spread isn't from lines further out."""
    if not any(own.single_excess_cycles2):
        return 0.0 if own.upwards else nearer_in_chains_cycles
    surely = over_replicates(own.single_excess_cycles2).low
    apart = over_replicates(own.single).value - nearer_cycles
    return max(surely, 0.0) / apart if apart > 0 else 0.0


def _with_nearer_lines(agreed: Finding, nearer_in_cycles: float) -> Finding:
    """With room upwards for lines that the level before still held, such as one that replaces at random."""
    if agreed.low is None or agreed.high is None or not isinstance(agreed.value, float):
        return agreed
    wide = Estimate(agreed.value, agreed.low, agreed.high + nearer_in_cycles)
    return measured(agreed.parameter, wide, agreed.method or "")


def _differ_little(first: Estimate, second: Estimate) -> bool:
    apart = abs(first.value - second.value)
    return apart < max(DIFFER_CYCLES, DIFFER_RELATIVE * max(first.value, second.value))

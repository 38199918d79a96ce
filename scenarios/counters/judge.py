"""What an event's readings say of it: whether it counts what its role says, and what else if not.

Lines and instructions: a role's volumes under all workloads are a pattern. The patterns of all roles of the same
direction are candidates for what an event counts; each is fitted with a scale of its own (Molka et al. 2017, future
work: which event tracks which level is found, not looked up). What none explains is untrusted.

Cycles: a chase has one load in flight, always; from a working set that L2 serves to flushed lines a step takes longer
by the difference of two latencies, and every event that counts cycles of a waiting load must grow by just that.
Dependent multiplications lengthen a step without a load that waits (Molka et al. 2017, section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind, Verdict
from setebench.probe import CHASE_WORK
from setebench.stats.candidates import compare
from setebench.stats.estimate import Estimate, over_epochs

from .levels import Levels
from .observe import Numbers, Observations, Observed
from .params import Params
from .workloads import BESIDE, Workload

FAMILIES = (
    ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"),
    ("l2_rfo", "l2_rfo_miss"),
    ("l1d_writeback", "l2_writeback", "mem_write", "home_write"),
    ("load_fb_hit",),
    ("hitm_local",),
)
"""Roles whose events might count each other's lines: those of one direction."""

PRIMARY = {
    "load_fb_hit": "far_pair",
    "hitm_local": "handed_over",
    **dict.fromkeys(("l2_rfo", "l2_rfo_miss", "mem_write", "home_write"), "far_store"),
    "l1d_writeback": "driven_out_l1d",
    "l2_writeback": "driven_out_l2",
}
"""The workload that a role is about; `far_load` for the others."""

PAIRS = {
    "instructions": ("nops_192", "nops_64"),
    "load": ("hot_load_192", "hot_load_64"),
    "store": ("hot_store_192", "hot_store_64"),
    "cycles": ("additions_192", "additions_64"),
}
"""Two sizes of the workload whose difference holds nothing but events of the role."""

FULL = {"fb_full": "full_load", "sq_full": "full_load", "stall_store_buffer": "full_store"}
"""Events of full queues: the workload that fills them, in two sizes."""
ENTRIES = ("fb_full", "sq_full")
"""Those whose queue other limits of a core may keep from being full all the time."""
PURE = ("stall_l1d_miss", "stall_load_any")
"""Events that should not count cycles in which arithmetic waits for arithmetic."""

STREAMED = ("far_ascending", "stream_load")
"""Ascending lines, of which prefetchers bring a part."""
PAST_CACHES = "stream_store_nt"
"""Lines written to memory that no cache gives away."""

NOTHING_RUN = "no workload of known volume could be run on this machine"


@dataclass(frozen=True)
class Evidence:
    """All that is known when an event is judged: its readings, the workloads by name, the tunables, and the levels."""

    observations: Observations
    workloads: Mapping[str, Workload]
    params: Params
    levels: Levels

    def level(self, role: str) -> str:
        """The level whose traffic a role is here: what lies beyond L2 is memory where no third cache was found."""
        level = ROLES[role].level
        return "memory" if level == "l3" and "l3_chase" not in self.workloads else level

    def sure_level(self, role: str) -> str:
        """The same, empty where it rests on a third cache not having been found, which may be there all the same."""
        return self.level(role) if self.levels.numbered or self.level(role) == ROLES[role].level else ""

    def prefetched(self, level: str) -> bool:
        """Whether prefetchers bring lines of an ascending chase into the traffic of a level: a step then takes less
        than half of the way from the level before to this one."""
        steps, levels = self.observations.step_cycles, self.levels
        last = f"far_chase_{self.params.chase_lines[1]}"
        if not {"far_ascending", last} <= set(steps):
            return False
        ticks = steps["far_ascending"] / steps[last] * levels.memory_ticks  # in the ticks that levels were timed in
        between = {"l2": (levels.near_ticks, levels.lost_ticks), "l3": (levels.lost_ticks, levels.next_ticks)}
        before, own = between.get(level, (levels.third_ticks or levels.lost_ticks, levels.memory_ticks))
        return ticks < (before + own) / 2

    def slope(self, role: str, name: str) -> Numbers:
        """Events per repetition of a workload, by epoch; empty where it was not counted."""
        series = self.observations.roles[role].series.get(name)
        return np.empty(0) if series is None else series.slopes()

    def cycles(self, role: str, name: str) -> Numbers:
        """Elapsed cycles per repetition, in the same epochs."""
        series = self.observations.roles[role].series.get(name)
        return np.empty(0) if series is None else series.elapsed()

    def more(self, role: str, larger: str, smaller: str) -> Numbers:
        """Events that the larger of two workloads causes beyond the smaller one, by epoch."""
        return common(self.slope(role, larger), self.slope(role, smaller))

    def more_cycles(self, role: str, larger: str, smaller: str) -> Numbers:
        """Cycles that it takes beyond the smaller one."""
        return common(self.cycles(role, larger), self.cycles(role, smaller))

    def table(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """By role and workload: events per repetition, what it should be (None where that is not known), the spread
        between epochs, and the cycles that it took where they were timed."""
        roles = self.observations.roles
        return {role: {name: self._row(role, name) for name in observed.series} for role, observed in roles.items()}

    def _row(self, role: str, name: str) -> dict[str, float | None]:
        found, volume = self.slope(role, name), self.workloads[name].volumes.get(role)
        if not len(found):
            return {"events": None, "known": volume, "spread": None, "cycles": None}
        cycles = float(self.cycles(role, name).mean())
        return {"events": float(found.mean()), "known": volume, "spread": float(found.std()), "cycles": cycles}


def common(first: Numbers, second: Numbers) -> Numbers:
    """Difference of two series of epochs; of equally many, as an epoch with a wrapped reading may be missing."""
    count = min(len(first), len(second))
    return first[:count] - second[:count]


def judge(role: str, evidence: Evidence) -> Verdict:
    """The verdict on the event of a role."""
    observed = evidence.observations.roles[role]
    early = _unusable(role, observed)
    if early is not None:
        return early
    if role in PAIRS or role == "fp_op":
        return _of_instructions(role, evidence)
    if ROLES[role].quantity in (Quantity.CYCLES, Quantity.OCCUPANCY):
        return _of_cycles(role, evidence)
    return _of_lines(role, evidence)


def _unusable(role: str, observed: Observed) -> Verdict | None:
    """The verdict where readings alone decide: there were none, none was whole, or all are zero."""
    values = [series.counts.ravel() for series in observed.series.values()]
    readings = np.concatenate(values) if values else np.empty(0)
    if observed.missing and np.isnan(readings).all():
        return Verdict(role=role, kinds=(Kind.UNAVAILABLE,), reason=observed.missing)
    if not len(readings):
        return Verdict(role=role, reason=NOTHING_RUN)
    if observed.shared and np.nansum(readings) == 0:
        return Verdict(role=role, kinds=(Kind.ZERO,))
    if observed.shared:
        of = f"{observed.shared} of {observed.readings} readings"
        return Verdict(role=role, kinds=(Kind.MULTIPLEXED,), reason=f"the counter ran for a part of the time in {of}")
    return None


# -- lines ------------------------------------------------------------------------------------------------------------


def _of_lines(role: str, evidence: Evidence) -> Verdict:
    """Of an event that counts lines, or loads by where their line was."""
    used = [work for work in evidence.workloads.values() if _decides(role, work, evidence)]
    steps = evidence.observations.step_cycles
    one_at_a_time = role == "load_fb_hit" and steps.get("burst_8", 0.0) >= 4 * steps.get("burst_1", np.inf)
    if not any(work.volumes.get(role) for work in used) or one_at_a_time:
        return Verdict(role=role, reason=NOTHING_RUN)
    if evidence.observations.roles[role].silent:
        return _found(role, evidence, {Kind.ZERO})
    chosen, others, fits = _candidate(role, evidence, used)
    scale = _scale(role, chosen, evidence, used)
    primaries = {PRIMARY.get(each, "far_load") for each in (chosen, *others)}
    if background(role, evidence, scale.value):
        return _untrusted(role, evidence, "events come while nothing happens: of other users, or noise")
    if not fits:
        return _untrusted(role, evidence, "no level's traffic explains its counts")
    if all(_bent(role, evidence, name) for name in primaries):
        return _untrusted(role, evidence, "twice the work doesn't bring twice the events")
    if chosen != role and (chosen == "load_l1_miss" or evidence.level(chosen) == evidence.level(role)):
        if chosen != "load_l1_miss" and not (evidence.sure_level(chosen) and evidence.sure_level(role)):
            return Verdict(role=role, reason=f"it counts what {chosen} should; no cache was found between the two")
        why = "lines of stores are not counted" if chosen == "load_l1_miss" else f"it counts what {chosen} should"
        return _untrusted(role, evidence, why)
    if any(evidence.level(other) != evidence.level(chosen) for other in others):
        return Verdict(role=role, reason=f"it may as well count {' or '.join(others)}")
    includes = _includes_prefetch(role, evidence, scale, chosen)
    kinds = {Kind.OTHER_LEVEL} if chosen != role else set()
    kinds |= {Kind.MISSES_PREFETCHES} if includes is False else set()
    name = PRIMARY.get(chosen, "far_load")
    beside = evidence.slope(role, name), evidence.slope(role, name + BESIDE)
    verdict = _scaled(role, evidence, scale, kinds, beside)
    levels = {evidence.sure_level(name) for name in (chosen, *others)}
    if not verdict.kinds:
        return verdict
    level = levels.pop() if len(levels) == 1 else ""
    return msgspec.structs.replace(verdict, level=level, includes_prefetch=includes)


def _decides(role: str, work: Workload, evidence: Evidence) -> bool:
    """Whether a workload is one that a candidate must explain: those with prefetched lines are judged apart."""
    streams = work.name.startswith("stream_") and not (ROLES[role].writes and work.name == PAST_CACHES)
    if streams or work.name in STREAMED or work.name.endswith(BESIDE):
        return False
    return role in {*work.volumes, *work.unknown} and len(evidence.slope(role, work.name)) > 0


def _scale(role: str, counted: str, evidence: Evidence, used: list[Workload]) -> Estimate:
    """Counts of a role's event per event of the role `counted`, over epochs, from workloads whose volumes are exact."""
    having = [work for work in used if work.volumes.get(counted, 0.0)]
    exact = [work for work in having if counted not in work.loose] or having
    series = [evidence.slope(role, work.name) / work.volumes[counted] for work in exact]
    return _over_all(series, evidence.params)


def _over_all(series: list[Numbers], params: Params) -> Estimate:
    """The mean of several series, over the epochs that all have, with the doubt of known volumes."""
    epochs = min((len(each) for each in series), default=0)
    found = over_epochs(np.mean([each[:epochs] for each in series], axis=0) if epochs else [])
    return found.doubted(params.exactness / 2)


def _candidate(role: str, evidence: Evidence, used: list[Workload]) -> tuple[str, tuple[str, ...], bool]:
    """The role whose lines the event counts (its own where others explain as much), the roles that explain its counts
    about as well, and whether it explains all that was counted. Where a volume is not known, half of the most that it
    could be is predicted."""
    family = next(each for each in FAMILIES if role in each)
    observed = np.array([_counted(role, evidence, work) for work in used])
    predicted = {name: np.array([work.volumes.get(name, _most(work) / 2) for work in used]) for name in family}
    predicted = {name: each for name, each in predicted.items() if each.any()}
    comparison = compare(observed, {name: _errors(role, name, evidence, used) for name in predicted}, predicted)
    names = list(dict.fromkeys((comparison.best, *comparison.equals(evidence.params.even_odds))))
    chosen = role if role in names else names[0]
    fits = comparison.fits[chosen].fits >= evidence.params.least_fit
    return chosen, tuple(name for name in names if name != chosen), fits


def _most(work: Workload) -> float:
    """The most lines that any role counts, per repetition; one where none counts any."""
    return max((*(volume for role, volume in work.volumes.items() if ROLES[role].unit == "lines"), 1.0))


def _counted(role: str, evidence: Evidence, work: Workload) -> float:
    """Mean counts per repetition. Where a level serves a working set, lines that prefetchers bring beside those in use
    come on top; that there are some is what counts."""
    counted = float(np.mean(evidence.slope(role, work.name)))
    if role not in work.loose or not ROLES[role].prefetch:
        return counted
    most = _most(work) * float(np.mean(evidence.slope(role, "far_load")))
    return min(counted, most) if most > 0 else counted


def _errors(role: str, candidate: str, evidence: Evidence, used: list[Workload]) -> Numbers:
    """Standard error of each workload's counts per repetition: between epochs, and of the candidate's volume, in parts
    of the most that it could be."""
    size = [_most(work) for work in used]
    means = [abs(float(np.mean(evidence.slope(role, work.name)))) / n for work, n in zip(used, size, strict=True)]
    # counts of a line, where the candidate has some: elsewhere a stray event would stand for all of them
    own = [
        mean
        for mean, work in zip(means, used, strict=True)
        if work.volumes.get(candidate) and candidate not in work.loose
    ]
    level = max(own, default=0.0) or max(means)
    errors = []
    for work, most in zip(used, size, strict=True):
        doubt = work.loose.get(candidate, evidence.params.exactness) if candidate in work.volumes else 0.5
        known, spread = level * most * doubt, over_epochs(evidence.slope(role, work.name)).error
        errors.append(np.hypot(spread if np.isfinite(spread) else known, known))
    return np.array(errors)


def _includes_prefetch(role: str, evidence: Evidence, scale: Estimate, chosen: str) -> bool | None:
    """Whether prefetched lines are counted: False where lines of a stream are missing, True where none is although
    prefetchers bring some into the traffic that is counted, None where they bring none."""
    if not ROLES[role].prefetch:
        return None
    volumes = {name: work.volumes.get(chosen, np.nan) for name, work in evidence.workloads.items() if name in STREAMED}
    each = [over_epochs(evidence.slope(role, name) / volume / scale.value) for name, volume in volumes.items()]
    counted = [one for one in each if np.isfinite(one.value)]
    if any(one.high < 1 - evidence.params.prefetch_loss for one in counted):
        return False
    return True if counted and evidence.prefetched(ROLES[chosen].level) else None


# -- instructions -----------------------------------------------------------------------------------------------------


def _of_instructions(role: str, evidence: Evidence) -> Verdict:
    """Of an event whose number is known by the program alone."""
    works = evidence.workloads
    if role in PAIRS:
        larger, smaller = PAIRS[role]
        series = [evidence.more(role, larger, smaller) / _difference(works, role, larger, smaller)]
        beside = evidence.more(role, larger, smaller), evidence.more(role, larger + BESIDE, smaller + BESIDE)
    else:
        names = [name for name in works if name.startswith("arithmetic_") and name[-1].isdigit()]
        larger = names[0] if names else ""
        series = [evidence.slope(role, name) / works[name].volumes[role] for name in names]
        beside = evidence.slope(role, larger), evidence.slope(role, larger + BESIDE)
    if not any(len(each) for each in series):
        return Verdict(role=role, reason=NOTHING_RUN)
    if not any(each.any() for each in series):
        return _found(role, evidence, {Kind.ZERO})
    scale = _over_all(series, evidence.params)
    if background(role, evidence, scale.value) or _by_time(role, evidence, series[0]):
        return _untrusted(role, evidence, "events come while nothing happens: of other users, or noise")
    if _bent(role, evidence, larger):
        return _untrusted(role, evidence, "twice the work doesn't bring twice the events")
    verdict = _scaled(role, evidence, scale, set(), beside)
    return msgspec.structs.replace(verdict, level=evidence.sure_level(role)) if verdict.kinds else verdict


def _difference(works: Mapping[str, Workload], role: str, larger: str, smaller: str) -> float:
    return works[larger].volumes[role] - works[smaller].volumes[role]


def _by_time(role: str, evidence: Evidence, quick: Numbers) -> bool:
    """Whether as many instructions count more where they take longer: events come with time, then."""
    if role != "instructions":
        return False
    names = "multiplications_192", "multiplications_64"
    slow = evidence.more(role, *names) / _difference(evidence.workloads, role, *names)
    return over_epochs(common(slow, quick)).low > evidence.params.background


# -- cycles -----------------------------------------------------------------------------------------------------------


def _of_cycles(role: str, evidence: Evidence) -> Verdict:
    """Of an event that counts cycles, or a sum over cycles: its counts over those that a perfect event would count."""
    counts, cycles = _compared(role, evidence)
    if not len(counts):
        return Verdict(role=role, reason="no two levels were found whose latencies could be compared")
    if evidence.observations.roles[role].silent:
        if role in FULL:
            why = "counted nothing, but no workload is known to fill its queue on this machine"
            return Verdict(role=role, reason=why)
        return _found(role, evidence, {Kind.ZERO})
    scale = _over_all([counts / cycles], evidence.params)
    noisy = background(role, evidence, max(scale.value, 1 / 4)) or _while_executing(role, evidence)
    floored = not noisy and role == "l1d_inflight_sum" and _floored(evidence)
    # of a floor the burst of most misses counts in every cycle
    full = f"{FULL.get(role)}_{evidence.params.full_lines[1]}"
    if noisy or _bent(role, evidence, "burst_8" if floored else full if role in FULL else "far_chase_16"):
        return _untrusted(role, evidence, "counts are no line over the work")
    if floored:
        return _found(role, evidence, {Kind.FLOOR_PER_CYCLE})
    if role in ENTRIES and scale.high < 1 - evidence.params.trust:
        why = f"counts {scale.value:.3f} a cycle: its queue may not be full all the time"
        return _undecided(role, scale, why)
    kinds = {Kind.INCLUDES_OTHER_STALLS} if role in PURE and _includes_other(role, evidence, scale) else set()
    # what a busy sibling adds to every step (a load that waits for its turn) is in both workloads that are compared
    counts_beside, cycles_beside = _compared(role, evidence, BESIDE)
    return _scaled(role, evidence, scale, kinds, (counts / cycles, counts_beside / cycles_beside))


def _while_executing(role: str, evidence: Evidence) -> bool:
    """Whether cycles without execution are counted in a chain of additions, where an instruction begins in each."""
    if role != "no_execute":
        return False
    names = PAIRS["cycles"]
    return (
        over_epochs(evidence.more(role, *names) / evidence.more_cycles(role, *names)).low > evidence.params.background
    )


def _compared(role: str, evidence: Evidence, suffix: str = "") -> tuple[Numbers, Numbers]:
    """What two workloads differ by, in events and in the cycles that a perfect event would count, by epoch."""
    near = evidence.workloads.get(f"l2_chase{suffix}")
    if role in FULL:  # twice as many requests as queues hold, beyond as many; while a store enters, it isn't full
        fewer, more = evidence.params.full_lines
        names = f"{FULL[role]}_{more}{suffix}", f"{FULL[role]}_{fewer}{suffix}"
        entering = (more - fewer) * _entering(evidence) if role == "stall_store_buffer" else 0.0
        return evidence.more(role, *names), evidence.more_cycles(role, *names) - entering
    if near is None:
        return np.empty(0), np.empty(0)
    if role == "no_execute":  # for dependent multiplications: all that they take but one cycle each
        names = f"{near.name}_chained", near.name
        return evidence.more(role, *names), evidence.more_cycles(role, *names) - near.steps * CHASE_WORK
    few, many = evidence.params.chase_lines  # a step over flushed lines beyond one that L2 serves
    names = f"far_chase_{many}{suffix}", f"far_chase_{few}{suffix}"
    counts = common(evidence.more(role, *names) / (many - few), evidence.slope(role, near.name) / near.steps)
    cycles = common(evidence.more_cycles(role, *names) / (many - few), evidence.cycles(role, near.name) / near.steps)
    return counts, cycles


def _entering(evidence: Evidence) -> float:
    """Cycles that an instruction takes to enter the core, from no-operations; 0 where these were not timed."""
    steps, names = evidence.observations.step_cycles, PAIRS["instructions"]
    if names[0] not in steps:
        return 0.0
    return (steps[names[0]] - steps[names[1]]) / _difference(evidence.workloads, "instructions", *names)


def _includes_other(role: str, evidence: Evidence, scale: Estimate) -> bool:
    """Whether dependent multiplications are counted."""
    name = f"far_chase_{evidence.params.chase_lines[1]}"
    added = evidence.more(role, f"{name}_chained", name) / evidence.more_cycles(role, f"{name}_chained", name)
    return over_epochs(added / scale.value).low > evidence.params.stall_fraction


def _floored(evidence: Evidence) -> bool:
    """Whether a quarter of what is in flight, rounded down, explains bursts better than what is in flight does. The
    unit of such a count is no scale that could be distinguished from it."""
    numbers = np.array(evidence.params.burst_lines, dtype=np.float64)
    found = [over_epochs(evidence.slope("l1d_inflight_sum", f"burst_{int(number)}")) for number in numbers]
    counts = np.array([each.value for each in found])
    if np.isnan(counts).any():
        return False
    errors = np.full(len(numbers), 0.1 * max(float(np.abs(counts).max()), 1e-9))
    candidates = {"all": numbers, "quarters": np.floor(numbers / 4)}
    return compare(counts, dict.fromkeys(candidates, errors), candidates).best == "quarters"


# -- what all have in common ------------------------------------------------------------------------------------------


def background(role: str, evidence: Evidence, scale: float) -> bool:
    """Whether events come while nothing happens: more, in the time of a line from memory, than a part of one."""
    idle, params = evidence.slope(role, "idle"), evidence.params
    if not len(idle) or evidence.workloads["idle"].volumes.get(role) != 0:
        return False
    return over_epochs(idle / params.work_cycles * params.line_cycles).low > params.background * scale


def _bent(role: str, evidence: Evidence, name: str) -> bool:
    """Whether twice the work doesn't bring twice the events."""
    series = evidence.observations.roles[role].series.get(name)
    values = np.empty(0) if series is None else series.bends()
    return over_epochs(values[~np.isnan(values)]).outside(-2 * evidence.params.trust, 2 * evidence.params.trust)


def _scaled(
    role: str, evidence: Evidence, scale: Estimate, kinds: set[Kind], beside: tuple[Numbers, Numbers]
) -> Verdict:
    """The verdict of these kinds on an event of this scale (counts per event), trusted where it is 1 and nothing else
    holds; undecided where its interval is too wide. `beside`: by epoch what is counted alone, and beside a busy
    sibling."""
    params = evidence.params
    if scale.outside(1 - params.trust, 1 + params.trust) and scale.low > 0:
        kinds = kinds | {Kind.SCALED}
    elif not scale.within(1 - params.trust, 1 + params.trust):
        interval = f"[{scale.low:.3f}, {scale.high:.3f}]"
        why = f"counts {scale.value:.3f} per event, {interval}: neither within {params.trust:.0%} of one nor off it"
        return _undecided(role, scale, why)
    count = min(map(len, beside))
    alone, crowded = (each[:count] for each in beside)
    if count and alone.all() and over_epochs(crowded / alone).high < 1 - params.smt_loss:
        kinds = kinds | {Kind.UNDERCOUNTS_SMT}
    return _per_count(_found(role, evidence, kinds), scale)


def _undecided(role: str, scale: Estimate, reason: str) -> Verdict:
    """An event whose scale's interval is too wide for a verdict; more epochs may make it narrower."""
    return _per_count(Verdict(role=role, reason=reason), scale) if scale.low > 0 else Verdict(role=role, reason=reason)


def _untrusted(role: str, evidence: Evidence, reason: str) -> Verdict:
    return _found(role, evidence, {Kind.UNTRUSTED}, reason)


def _found(role: str, evidence: Evidence, kinds: Iterable[Kind], reason: str = "") -> Verdict:
    """The verdict of these kinds in their order, and whether readings wrapped; trusted where there is none."""
    own = {*kinds, *({Kind.WRAPS} if evidence.observations.roles[role].wrapped else ())}
    return Verdict(role=role, kinds=tuple(kind for kind in Kind if kind in own) or (Kind.TRUSTED,), reason=reason)


def _per_count(verdict: Verdict, scale: Estimate) -> Verdict:
    """With what one count stands for: the scale is counts per event."""
    low, high = sorted((1 / scale.low, 1 / scale.high))
    return msgspec.structs.replace(verdict, scale=1 / scale.value, scale_low=low, scale_high=high)

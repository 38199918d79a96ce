"""What an event's readings say of it: whether it counts what its role says, and what else if not.

Lines and instructions: a role's events under all workloads are a pattern. The patterns of all roles of the same
direction are candidates for what an event counts; each is fitted with a scale of its own (Molka et al. 2017, future
work: which event tracks which level is found, not looked up). What none explains is untrusted.

Cycles: a chase has one load in flight, always; from a working set that L2 serves to flushed lines a step takes longer
by the difference of two latencies, and every event that counts cycles of a waiting load must grow by just that.
Dependent multiplications lengthen a step without a load that waits (Molka et al. 2017, section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind, Verdict
from setebench.probe import CHASE_WORK
from setebench.stats.candidates import compare
from setebench.stats.estimate import Estimate, over_epochs

from .observe import Evidence, Numbers
from .workloads import BESIDE, BURSTS, IDLE_CYCLES, Workload

FAMILIES = (
    ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"),
    ("l2_rfo", "l2_rfo_miss"),
    ("l1d_writeback", "l2_writeback", "mem_write", "home_write"),
)
"""Roles whose events might count each other's lines: those of one direction. All others are alone."""

PRIMARY = {
    **{"load_fb_hit": "far_pair", "hitm_local": "handed_over", "instructions": "nops", "cycles": "additions"},
    **{"load": "hot_load", "store": "hot_store"},
    **dict.fromkeys(("l2_rfo", "l2_rfo_miss", "mem_write", "home_write"), "far_store"),
    **dict.fromkeys(("l1d_writeback", "l2_writeback"), "beyond_store"),
}
"""The workload that a role is about; `far_load` for the others."""

ENTRIES = ("fb_full", "sq_full")
"""Events whose queue other limits of a core may keep from being full all the time."""
PURE = ("stall_l1d_miss", "stall_load_any")
"""Events that should not count cycles in which arithmetic waits for arithmetic."""
GROWTH = {
    **dict.fromkeys(ENTRIES, ("full_load", "")),
    "stall_store_buffer": ("full_store", ""),
    "no_execute": ("l2_chase_chained", "l2_chase"),
}
"""Workloads whose difference in elapsed cycles a role must count; a flushed chase and one in L2 for the others."""
UNFOUND = "no workload of known volume could be run on this machine"


def minus(first: Numbers, second: Numbers) -> Numbers:
    """Difference of two series of epochs; of equally many, as an epoch with a wrapped reading may be missing."""
    count = min(len(first), len(second))
    return first[:count] - second[:count]


def judge(role: str, evidence: Evidence) -> Verdict:
    """The verdict on the event of a role: by readings alone where there were none, none was whole, or all are zero."""
    observed = evidence.roles[role]
    values = [series.counts.ravel() for series in observed.series.values()]
    readings = np.concatenate(values) if values else np.empty(0)
    if observed.missing and np.isnan(readings).all():
        return Verdict(role=role, kinds=(Kind.UNAVAILABLE,), reason=observed.missing)
    if not len(readings):
        return Verdict(role=role, reason=UNFOUND)
    if observed.shared and np.nansum(readings) == 0:
        return Verdict(role=role, kinds=(Kind.ZERO,))
    if observed.shared:
        of = f"{observed.shared} of {observed.readings} readings"
        return Verdict(role=role, kinds=(Kind.MULTIPLEXED,), reason=f"the counter ran for a part of the time in {of}")
    cycles = ROLES[role].quantity in (Quantity.CYCLES, Quantity.OCCUPANCY) and role != "cycles"
    return (_of_cycles if cycles else _of_pattern)(role, evidence)


# -- lines and instructions -------------------------------------------------------------------------------------------


def _of_pattern(role: str, evidence: Evidence) -> Verdict:
    used = [work for work in evidence.workloads.values() if _decides(role, work, evidence)]
    steps = evidence.step_cycles
    # a core that serves one load at a time never has a load that waits for a line on its way
    one_at_a_time = role == "load_fb_hit" and steps.get("burst_8", 0.0) >= 4 * steps.get("burst_1", np.inf)
    if not any(work.expected.get(role) for work in used) or one_at_a_time:
        return Verdict(role=role, reason=UNFOUND)
    if evidence.roles[role].silent:
        return _found(role, evidence, {Kind.ZERO})
    chosen, others, fits = _candidate(role, evidence, used)
    scale = _scale(role, chosen, evidence, used)
    if _background(role, evidence, scale.value):
        return _untrusted(role, evidence, "events come while nothing happens: of other users, or noise")
    if not fits:
        return _untrusted(role, evidence, "no level's traffic explains its counts")
    if all(_bent(role, evidence, _primary(each, used)) for each in (chosen, *others)):
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
    name = _primary(chosen, used)
    verdict = _scaled(role, evidence, scale, kinds, (evidence.events(role, name), evidence.events(role, name + BESIDE)))
    if not verdict.kinds:
        return verdict
    levels = {evidence.sure_level(name) for name in (chosen, *others)}
    level = levels.pop() if len(levels) == 1 else ""
    return msgspec.structs.replace(verdict, level=level, includes_prefetch=includes)


def _primary(role: str, used: list[Workload]) -> str:
    """The workload that a role is about, of those that decide."""
    usual = PRIMARY.get(role, "far_load")
    return usual if any(work.name == usual for work in used) else next(w.name for w in used if w.expected.get(role))


def _decides(role: str, work: Workload, evidence: Evidence) -> bool:
    """Whether a workload is one that a candidate must explain: the one with prefetched lines is judged apart."""
    apart = work.name == "far_ascending" or work.name.endswith(BESIDE)
    return not apart and role in work.expected and len(evidence.events(role, work.name)) > 0


def _scale(role: str, counted: str, evidence: Evidence, used: list[Workload]) -> Estimate:
    """Counts of a role's event per event of the role `counted`, over epochs, from workloads whose volumes are exact."""
    having = [work for work in used if work.expected.get(counted, 0.0)]
    exact = [work for work in having if counted not in work.tolerance]
    series = [evidence.events(role, work.name) / work.expected[counted] for work in exact or having]
    epochs = min((len(each) for each in series), default=0)
    doubt = evidence.params.exactness / 2 if exact else evidence.params.looseness
    return over_epochs(np.mean([each[:epochs] for each in series], axis=0) if epochs else []).doubted(doubt)


def _candidate(role: str, evidence: Evidence, used: list[Workload]) -> tuple[str, tuple[str, ...], bool]:
    """The role whose lines the event counts (its own where others explain as much), the roles that explain its counts
    about as well, and whether it explains all that was counted. Where a volume is not known, half of the most that it
    could be is predicted."""
    family = next((each for each in FAMILIES if role in each), (role,))
    observed = np.array([_counted(role, evidence, work) for work in used])
    predicted = {name: np.array([work.expected.get(name, _most(work) / 2) for work in used]) for name in family}
    predicted = {name: each for name, each in predicted.items() if each.any()}
    comparison = compare(observed, {name: _errors(role, name, evidence, used) for name in predicted}, predicted)
    names = list(dict.fromkeys((comparison.best, *comparison.equals(evidence.params.even_odds))))
    chosen = role if role in names else names[0]
    fits = comparison.fits[chosen].fits >= evidence.params.least_fit
    return chosen, tuple(name for name in names if name != chosen), fits


def _most(work: Workload) -> float:
    """The most lines that any role counts, per piece of work; one where none counts any."""
    return max((*(volume for role, volume in work.expected.items() if ROLES[role].unit == "lines"), 1.0))


def _counted(role: str, evidence: Evidence, work: Workload) -> float:
    """Mean counts per piece of work. Where a level serves a working set, lines that prefetchers bring beside those in
    use come on top; that there are some is what counts."""
    counted = float(np.mean(evidence.events(role, work.name)))
    if role not in work.tolerance or not ROLES[role].prefetch:
        return counted
    most = _most(work) * float(np.mean(evidence.events(role, "far_load")))
    return min(counted, most) if most > 0 else counted


def _errors(role: str, candidate: str, evidence: Evidence, used: list[Workload]) -> Numbers:
    """Standard error of each workload's counts per piece of work: between epochs, and of the candidate's volume, in
    parts of the most that it could be."""
    means = [abs(float(np.mean(evidence.events(role, work.name)))) / _most(work) for work in used]
    # counts of a line, where the candidate has some: elsewhere a stray event would stand for all of them
    own = [m for m, w in zip(means, used, strict=True) if w.expected.get(candidate) and candidate not in w.tolerance]
    level = max(own, default=0.0) or max(means)
    errors = []
    for work in used:
        doubt = work.tolerance.get(candidate, evidence.params.exactness) if candidate in work.expected else 0.5
        known, spread = level * _most(work) * doubt, over_epochs(evidence.events(role, work.name)).error
        errors.append(np.hypot(spread if np.isfinite(spread) else known, known))
    return np.array(errors)


def _includes_prefetch(role: str, evidence: Evidence, scale: Estimate, chosen: str) -> bool | None:
    """Whether prefetched lines are counted: False where lines of an ascending chase are missing, True where none is
    although prefetchers bring some into the traffic that is counted, None where they bring none."""
    if not ROLES[role].prefetch:
        return None
    counted = over_epochs(evidence.events(role, "far_ascending") / scale.value)
    if counted.high < 1 - evidence.params.loss:
        return False
    return True if np.isfinite(counted.value) and evidence.prefetched(ROLES[chosen].level) else None


# -- cycles -----------------------------------------------------------------------------------------------------------


def _of_cycles(role: str, evidence: Evidence) -> Verdict:
    """Of an event that counts cycles, or a sum over cycles: its counts over those that a perfect event would count."""
    params = evidence.params
    counts, cycles = _growth(role, evidence)
    if not len(counts):
        return Verdict(role=role, reason="no two levels were found whose latencies could be compared")
    queue = role in (*ENTRIES, "stall_store_buffer")
    if evidence.roles[role].silent:
        why = "counted nothing, but no workload is known to fill its queue on this machine"
        return Verdict(role=role, reason=why) if queue else _found(role, evidence, {Kind.ZERO})
    scale = over_epochs(counts / cycles).doubted(params.exactness / 2)
    noisy = _background(role, evidence, max(scale.value, 1 / 4)) or _while_executing(role, evidence)
    floored = not noisy and role == "l1d_inflight_sum" and _floored(evidence)
    # of a floor the burst of most misses counts in every cycle
    if noisy or _bent(role, evidence, "burst_8" if floored else GROWTH.get(role, ("far_chase",))[0]):
        return _untrusted(role, evidence, "counts are no line over the work")
    if floored:
        return _found(role, evidence, {Kind.FLOOR_PER_CYCLE})
    if role in ENTRIES and scale.high < 1 - params.trust:
        return _undecided(role, scale, f"counts {scale.value:.3f} a cycle: its queue may not be full all the time")
    kinds = set()
    if role in PURE:  # whether dependent multiplications are counted
        added = [
            minus(of(role, "far_chase_chained"), of(role, "far_chase")) for of in (evidence.events, evidence.cycles)
        ]
        if over_epochs(added[0] / added[1] / scale.value).low > params.stall_fraction:
            kinds = {Kind.INCLUDES_OTHER_STALLS}
    # what a busy sibling adds to every step (a load that waits for its turn) is in both workloads that are compared
    counts_beside, cycles_beside = _growth(role, evidence, BESIDE)
    return _scaled(role, evidence, scale, kinds, (counts / cycles, counts_beside / cycles_beside))


def _growth(role: str, evidence: Evidence, suffix: str = "") -> tuple[Numbers, Numbers]:
    """What one workload causes beyond another, in events and in the cycles that a perfect event would count."""
    larger, smaller = GROWTH.get(role, ("far_chase", "l2_chase"))
    counts, cycles = (of(role, larger + suffix) for of in (evidence.events, evidence.cycles))
    if smaller:
        counts, cycles = (
            minus(each, of(role, smaller + suffix))
            for each, of in ((counts, evidence.events), (cycles, evidence.cycles))
        )
    if role == "no_execute":  # dependent multiplications begin one a cycle
        cycles = cycles - CHASE_WORK
    if role == "stall_store_buffer":  # while a store enters, the buffer isn't full
        cycles = cycles - evidence.step_cycles.get("nops", 0.0)
    return counts, cycles


def _while_executing(role: str, evidence: Evidence) -> bool:
    """Whether cycles without execution are counted in a chain of additions, where an instruction begins in each."""
    counted = evidence.events(role, "additions") / evidence.cycles(role, "additions")
    return role == "no_execute" and over_epochs(counted).low > evidence.params.background


def _floored(evidence: Evidence) -> bool:
    """Whether a quarter of what is in flight, rounded down, explains bursts better than what is in flight does. The
    unit of such a count is no scale that could be distinguished from it."""
    numbers = np.array(BURSTS, dtype=np.float64)
    counts = np.array([over_epochs(evidence.events("l1d_inflight_sum", f"burst_{n}")).value for n in BURSTS])
    if np.isnan(counts).any():
        return False
    errors = np.full(len(numbers), 0.1 * max(float(np.abs(counts).max()), 1e-9))
    candidates = {"all": numbers, "quarters": np.floor(numbers / 4)}
    return compare(counts, dict.fromkeys(candidates, errors), candidates).best == "quarters"


# -- what all have in common ------------------------------------------------------------------------------------------


def _background(role: str, evidence: Evidence, scale: float) -> bool:
    """Whether events come while nothing happens: more, in the time of a line from memory, than a part of one."""
    idle, params = evidence.events(role, "idle"), evidence.params
    return over_epochs(idle / IDLE_CYCLES * params.line_cycles).low > params.background * scale


def _bent(role: str, evidence: Evidence, name: str) -> bool:
    """Whether twice the work doesn't bring twice the events."""
    series = evidence.roles[role].series.get(name)
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
    if count and alone.all() and over_epochs(crowded / alone).high < 1 - params.loss:
        kinds = kinds | {Kind.UNDERCOUNTS_SMT}
    return _per_count(_found(role, evidence, kinds), scale)


def _undecided(role: str, scale: Estimate, reason: str) -> Verdict:
    """An event whose scale's interval is too wide for a verdict; more epochs may make it narrower."""
    verdict = Verdict(role=role, reason=reason)
    return _per_count(verdict, scale) if scale.low > 0 else verdict


def _untrusted(role: str, evidence: Evidence, reason: str) -> Verdict:
    return _found(role, evidence, {Kind.UNTRUSTED}, reason)


def _found(role: str, evidence: Evidence, kinds: Iterable[Kind], reason: str = "") -> Verdict:
    """The verdict of these kinds in their order, and whether readings wrapped; trusted where there is none."""
    own = {*kinds, *({Kind.WRAPS} if evidence.roles[role].wrapped else ())}
    return Verdict(role=role, kinds=tuple(kind for kind in Kind if kind in own) or (Kind.TRUSTED,), reason=reason)


def _per_count(verdict: Verdict, scale: Estimate) -> Verdict:
    """With what one count stands for: the scale is counts per event."""
    low, high = sorted((1 / scale.low, 1 / scale.high))
    return msgspec.structs.replace(verdict, scale=1 / scale.value, scale_low=low, scale_high=high)

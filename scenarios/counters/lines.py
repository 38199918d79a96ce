"""Events of lines and instructions: whether they count what their role says, and what else if not.

A role's volumes under all workloads are a pattern. The patterns of all roles of the same direction are candidates for
what an event counts; each is fitted with a scale of its own (Molka et al. 2017, future work: which event tracks which
level is found, not looked up). What none explains is untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from setebench.counters.roles import ROLES
from setebench.counters.verdicts import Kind, Verdict
from setebench.stats.candidates import compare
from setebench.stats.estimate import Estimate, over_epochs

from .params import Params
from .readings import (
    Evidence,
    Numbers,
    background,
    bent,
    common,
    decided,
    found,
    lost,
    scaled,
    undecided,
    undercounts,
)
from .workloads import BESIDE, REMOTE, Workload

PRIMARY = {
    "load_fb_hit": "far_pair",
    "hitm_local": "handed_over",
    "l2_rfo": "far_store",
    "l2_rfo_miss": "far_store",
    "mem_write": "far_store",
    "home_write": "far_store",
    "l1d_writeback": "driven_out_l1d",
    "l2_writeback": "driven_out_l2",
    **dict.fromkeys(REMOTE, "remote_load"),
}
"""The workload that a role is about; `far_load` for the others."""

PAIRS = {
    "instructions": ("nops_192", "nops_64"),
    "load": ("hot_load_192", "hot_load_64"),
    "store": ("hot_store_192", "hot_store_64"),
    "cycles": ("additions_192", "additions_64"),
}
"""Two sizes of the workload whose difference holds nothing but events of the role."""

STREAMED = ("far_ascending", "stream_load", "remote_ascending")
"""Ascending lines, of which prefetchers bring a part."""

PAST_CACHES = "stream_store_nt"
"""Lines written to memory that no cache gives away."""


def judge_line_event(role: str, evidence: Evidence) -> Verdict:
    """The verdict on an event that counts lines, or loads by where their line was."""
    used = [work for work in evidence.workloads.values() if _decides(role, work, evidence)]
    if not any(work.volumes.get(role) for work in used) or (role == "load_fb_hit" and not _overlap(evidence)):
        return Verdict(role=role, reason=_lacking(role))
    if evidence.observations.roles[role].silent:
        return found(role, {Kind.ZERO})
    candidate = _candidate(role, evidence, used)
    return _of_candidate(role, evidence, candidate, _scale(role, candidate.counted, evidence, used))


def _lacking(role: str) -> str:
    """Why nothing was run that the event should count."""
    if role in REMOTE:
        return "there is no further memory node on which memory could be had"
    return "no workload of known volume could be run on this machine"


@dataclass(frozen=True)
class Candidate:
    """The role whose lines an event counts, the roles that explain its counts about as well, and whether it explains
    all that was counted."""

    counted: str
    others: tuple[str, ...]
    fits: bool


def _of_candidate(role: str, evidence: Evidence, candidate: Candidate, scale: Estimate) -> Verdict:
    chosen, kinds = candidate.counted, evidence.kinds(role)
    primary = PRIMARY.get(chosen, "far_load")
    if not candidate.fits or background(role, evidence, scale.value) or _bent(role, evidence, candidate):
        reason = _why(role, evidence, scale, candidate.fits)
        return found(role, kinds | {Kind.UNTRUSTED}, reason)
    if chosen != role and evidence.level(chosen) == evidence.level(role):
        if not (evidence.sure_level(chosen) and evidence.sure_level(role)):
            return Verdict(role=role, reason=f"it counts what {chosen} should; no cache was found between the two")
        return found(role, kinds | {Kind.UNTRUSTED}, f"it counts what {chosen} should")
    if chosen == "load_l1_miss" and chosen != role:
        return found(role, kinds | {Kind.UNTRUSTED}, "lines of stores are not counted")
    if _ambiguous(evidence, candidate):
        return Verdict(role=role, reason=f"it may as well count {' or '.join(candidate.others)}")
    kinds_of_scale, reason = scaled(scale, evidence.params)
    if kinds_of_scale is None:
        return undecided(role, scale, reason)
    includes = _includes_prefetch(role, evidence, scale, chosen)
    kinds |= set(kinds_of_scale)
    kinds |= {Kind.OTHER_LEVEL} if chosen != role else set()
    kinds |= {Kind.MISSES_PREFETCHES} if includes is False else set()
    kinds |= {Kind.UNDERCOUNTS_SMT} if undercounts(role, evidence, primary) else set()
    levels = {evidence.sure_level(name) for name in (chosen, *candidate.others)}
    level = levels.pop() if len(levels) == 1 else ""
    return msgspec.structs.replace(decided(role, kinds, scale), level=level, includes_prefetch=includes)


def _bent(role: str, evidence: Evidence, candidate: Candidate) -> bool:
    """Whether twice the work doesn't bring twice the events, whatever they are: lines that leave one level with the
    work may leave the next one later."""
    names = {PRIMARY.get(each, "far_load") for each in (candidate.counted, *candidate.others)}
    return all(bent(role, evidence, name) for name in names)


def _ambiguous(evidence: Evidence, candidate: Candidate) -> bool:
    """Whether lines of another level than those that the event seems to count explain its counts about as well."""
    own = evidence.level(candidate.counted)
    return any(evidence.level(other) != own for other in candidate.others)


def _overlap(evidence: Evidence) -> bool:
    """Whether a second load is issued while the first one misses: else no line is found on its way."""
    steps = evidence.observations.step_cycles
    return "burst_8" not in steps or steps["burst_8"] < 4 * steps["burst_1"]


def _decides(role: str, work: Workload, evidence: Evidence) -> bool:
    """Whether a workload is one that a candidate must explain: those with prefetched lines come later."""
    streams = work.name.startswith("stream_") and not (ROLES[role].writes and work.name == PAST_CACHES)
    apart = streams or work.name in STREAMED or work.name.endswith(BESIDE)
    if apart or (role in work.loose and not _served(work.name, evidence)):
        return False
    return role in {*work.volumes, *work.unknown} and len(evidence.slope(role, work.name)) > 0


def _served(name: str, evidence: Evidence) -> bool:
    """Whether the lines of a working set were where they should be while they were counted: a step over it then takes
    clearly less than one over flushed lines, where both were timed."""
    steps = evidence.observations.step_cycles
    chase, far = name.replace("_store", "_chase"), f"far_chase_{evidence.params.chase_lines[1]}"
    if not chase.endswith("_chase") or not {chase, far} <= set(steps):
        return True
    return steps[chase] < evidence.params.before_memory * steps[far]


def _scale(role: str, counted: str, evidence: Evidence, used: list[Workload]) -> Estimate:
    """Counts of a role's event per event of the role `counted`, over epochs, from workloads whose volumes are exact."""
    having = [work for work in used if work.volumes.get(counted, 0.0)]
    exact = [work for work in having if counted not in work.loose] or having
    series = [evidence.slope(role, work.name) / work.volumes[counted] for work in exact]
    epochs = min((len(each) for each in series), default=0)
    scale = over_epochs(np.mean([each[:epochs] for each in series], axis=0) if epochs else [])
    return scale.doubted(evidence.params.exactness / 2)


def _candidate(role: str, evidence: Evidence, used: list[Workload]) -> Candidate:
    """The role whose lines the event counts; its own where others explain as much."""
    family = next(each for each in evidence.params.families if role in each)
    observed = np.array([_counted(role, evidence, work) for work in used])
    predicted = _predicted(family, used)
    comparison = compare(observed, {name: _errors(role, name, evidence, used) for name in predicted}, predicted)
    names = list(dict.fromkeys((comparison.best, *comparison.equals(evidence.params.even_odds))))
    chosen = role if role in names else names[0]
    others = tuple(name for name in names if name != chosen)
    return Candidate(chosen, others, comparison.fits[chosen].fits >= evidence.params.least_fit)


def _predicted(family: tuple[str, ...], used: list[Workload]) -> dict[str, Numbers]:
    """Events per repetition of each workload, by candidate; half of the most it could be where that is not known."""
    predicted = {name: np.array([work.volumes.get(name, _most(work) / 2) for work in used]) for name in family}
    return {name: each for name, each in predicted.items() if each.any()}


def _most(work: Workload) -> float:
    """The most lines that any role counts, per repetition; one where none counts any."""
    return max((*_known(work).values(), 1.0))


def _counted(role: str, evidence: Evidence, work: Workload) -> float:
    """Mean counts per repetition. Where a level serves a working set, lines that prefetchers bring beside those in use
    come on top; that there are some is what counts."""
    counted = float(np.mean(evidence.slope(role, work.name)))
    if role not in work.loose or not ROLES[role].prefetch:
        return counted
    most = max(_known(work).values()) * float(np.mean(evidence.slope(role, "far_load")))
    return min(counted, most) if most > 0 else counted


def _errors(role: str, candidate: str, evidence: Evidence, used: list[Workload]) -> Numbers:
    """Standard error of each workload's counts per repetition: between epochs, and of the candidate's volume."""
    params = evidence.params
    spread = [over_epochs(evidence.slope(role, work.name)).error for work in used]
    size = [_most(work) for work in used]
    means = [abs(float(np.mean(evidence.slope(role, work.name)))) / n for work, n in zip(used, size, strict=True)]
    # counts of a line, where the candidate has some: elsewhere a stray event would stand for all of them
    own = [
        (mean, candidate in work.loose) for mean, work in zip(means, used, strict=True) if work.volumes.get(candidate)
    ]
    level = max((mean for mean, loose in own if not loose), default=0.0) or max(means)
    doubt = [_doubt(candidate, work, params) for work in used]
    known = [level * n * each for n, each in zip(size, doubt, strict=True)]
    finite = [each if np.isfinite(each) else known[at] for at, each in enumerate(spread)]
    return np.hypot(finite, known)


def _doubt(candidate: str, work: Workload, params: Params) -> float:
    """How well a volume is known, in parts of the most that it could be."""
    if candidate not in work.volumes:
        return 0.5
    return work.loose.get(candidate, params.exactness)


def _known(work: Workload) -> Mapping[str, float]:
    """What is known of a workload's lines, in lines."""
    return {role: volume for role, volume in work.volumes.items() if ROLES[role].unit == "lines"}


def _includes_prefetch(role: str, evidence: Evidence, scale: Estimate, chosen: str) -> bool | None:
    """Whether prefetched lines are counted: False where lines of a stream are missing, True where none is although
    prefetchers bring some into the traffic that is counted, None where they bring none."""
    if not ROLES[role].prefetch:
        return None
    counted = [over_epochs(_streamed(role, evidence, name, chosen) / scale.value) for name in STREAMED]
    counted = [each for each in counted if np.isfinite(each.value)]
    if any(each.high < 1 - evidence.params.prefetch_loss for each in counted):
        return False
    return True if counted and ROLES[chosen].level in evidence.prefetched else None


def _streamed(role: str, evidence: Evidence, name: str, chosen: str) -> Numbers:
    volume = evidence.workloads[name].volumes.get(chosen, np.nan) if name in evidence.workloads else np.nan
    return evidence.slope(role, name) / volume


def _why(role: str, evidence: Evidence, scale: Estimate, fits: bool) -> str:
    if background(role, evidence, scale.value):
        return "events come while nothing happens: of other users, or noise"
    if not fits:
        return "no level's traffic explains its counts"
    return "twice the work doesn't bring twice the events"


def judge_instruction_event(role: str, evidence: Evidence) -> Verdict:
    """The verdict on an event whose number is known by the program alone."""
    larger, values = _per_event(role, evidence)
    if not len(values):
        return Verdict(role=role, reason="no workload of known volume could be run on this machine")
    if not values.any():
        return found(role, {Kind.ZERO})
    kinds, scale = evidence.kinds(role), over_epochs(values).doubted(evidence.params.exactness / 2)
    if background(role, evidence, scale.value) or _by_time(role, evidence) or bent(role, evidence, larger):
        return found(role, kinds | {Kind.UNTRUSTED}, _why(role, evidence, scale, True))
    kinds_of_scale, reason = scaled(scale, evidence.params)
    if kinds_of_scale is None:
        return undecided(role, scale, reason)
    kinds |= set(kinds_of_scale)
    kinds |= {Kind.UNDERCOUNTS_SMT} if _loses(role, evidence, larger) else set()
    return msgspec.structs.replace(decided(role, kinds, scale), level=evidence.sure_level(role))


def _loses(role: str, evidence: Evidence, larger: str) -> bool:
    """Whether events are lost beside a busy sibling, whose own are in both sizes of the workload alike."""
    if role not in PAIRS:
        return undercounts(role, evidence, larger)
    alone = evidence.difference(role, *PAIRS[role])
    beside = evidence.difference(role, *(name + BESIDE for name in PAIRS[role]))
    return lost(alone, beside, evidence.params)


def _by_time(role: str, evidence: Evidence) -> bool:
    """Whether as many instructions count more where they take longer: events come with time, then."""
    if role != "instructions":
        return False
    volume = [evidence.workloads[f"multiplications_{few}"].volumes[role] for few in (192, 64)]
    slow = evidence.difference(role, "multiplications_192", "multiplications_64") / (volume[0] - volume[1])
    return over_epochs(common(slow, _per_event(role, evidence)[1])).low > evidence.params.background


def _per_event(role: str, evidence: Evidence) -> tuple[str, Numbers]:
    """The larger workload's name, and counts per event by epoch."""
    if role in PAIRS:
        larger, smaller = PAIRS[role]
        volume = evidence.workloads[larger].volumes[role] - evidence.workloads[smaller].volumes[role]
        return larger, evidence.difference(role, larger, smaller) / volume
    names = [name for name in evidence.workloads if name.startswith("arithmetic_") and name[-1].isdigit()]
    series = [evidence.slope(role, name) / evidence.workloads[name].volumes[role] for name in names]
    epochs = min((len(each) for each in series), default=0)
    return names[0] if names else "", np.mean([each[:epochs] for each in series], axis=0) if epochs else np.empty(0)

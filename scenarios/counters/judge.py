"""What an event's readings say of it: whether it counts what its role says, and what else if not.

Everything that is known of an event is a list of rows: what was counted, and what each explanation expects there. For
lines and instructions a row is a workload, and the roles of the same direction are the explanations (Molka et al. 2017,
future work: which event tracks which level is found, not looked up). For cycles a row is what one workload takes beyond
another: a chase has one load in flight, always, and from a working set that L2 serves to flushed lines a step takes
longer by the difference of two latencies, by which every event that counts cycles of a waiting load must grow;
dependent multiplications lengthen a step without a load that waits (section 4.3). Each explanation is fitted with a
scale of its own. What none explains is untrusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind
from setebench.probe import CHASE_WORK
from setebench.stats.candidates import likeliest
from setebench.stats.estimate import Estimate, Interval, over_epochs

from .observe import Evidence, Numbers
from .workloads import BESIDE, BURSTS, FULL_LINES, GIVEN_AWAY, IDLE_CYCLES, IN_MEMORY, OWNED, READS

FAMILIES = (READS, OWNED, (*GIVEN_AWAY, *IN_MEMORY))
"""Roles whose events might count each other's lines: those of one direction. All others are alone."""

PRIMARY = {
    **{"load_fb_hit": "far_pair", "load": "hot_load", "store": "hot_store"},
    **dict.fromkeys((*OWNED, *IN_MEMORY), "far_store"),
    **dict.fromkeys(GIVEN_AWAY, "beyond_store"),
}
"""The workload beside a busy sibling that a role is about; `far_load` for the others."""

QUEUES = {"fb_full": "full_load", "sq_full": "full_load", "stall_store_buffer": "full_store"}
"""Events of full queues, and the workload that fills them. Other limits of a core may prevent that."""
PURE = ("stall_l1d_miss", "stall_load_any")
"""Events that should not count cycles in which arithmetic waits for arithmetic."""
OTHER_STALLS, FLOOR = Kind.INCLUDES_OTHER_STALLS.value, Kind.FLOOR_PER_CYCLE.value
"""Explanations of cycles beside the role: with those cycles too, and a quarter of what is in flight, rounded down."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the event of one role. No `kinds`: it could not be decided; `reason` says why.

    `scale`: what one count stands for over what the role says. `level`: whose traffic it tracks. `includes_prefetch`:
    None where that is not known."""

    role: str
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    scale: Interval | None = None
    level: str = ""
    includes_prefetch: bool | None = None


class Row(NamedTuple):
    """Counts of a workload per piece of work, shape (epochs,), and the count that each explanation, by name, expects,
    within its `tolerance` or exactly. An explanation that isn't in `expected` allows any count."""

    name: str
    counted: Numbers
    expected: Mapping[str, float]
    tolerance: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean count over epochs."""
        return float(np.mean(self.counted))

    @property
    def most(self) -> float:
        """The largest count that any explanation of the event expects, or 1 where all expect less."""
        return max(*self.expected.values(), 1.0)


def judge(role: str, evidence: Evidence) -> Verdict:
    """The verdict on the event of a role: by readings alone where there were none, or all are zero."""
    observed = evidence.roles[role]
    if observed.readings and all(count.value is None for count in observed.readings):
        return _verdict(role, Kind.UNAVAILABLE, reason=observed.readings[-1].reason)
    if shared := sum(count.shared for count in observed.readings):
        of = f"{shared} of {len(observed.readings)} readings"
        why = f"the counter ran for a part of the time in {of}"
        return _verdict(role, Kind.ZERO) if observed.silent else _verdict(role, Kind.MULTIPLEXED, reason=why)
    cycles = ROLES[role].quantity in (Quantity.CYCLES, Quantity.OCCUPANCY) and role != "cycles"
    rows = [row for row in (_of_cycles if cycles else _of_work)(role, evidence) if len(row.counted)]
    if not any(row.expected.get(role) for row in rows):
        return Verdict(role=role, reason="no workload of known volume could be run on this machine")
    if observed.silent and role in QUEUES:
        return Verdict(role=role, reason="counted nothing, but no workload is known to fill its queue on this machine")
    return _verdict(role, Kind.ZERO) if observed.silent else _explained(role, rows, evidence)


def _of_work(role: str, evidence: Evidence) -> Iterator[Row]:
    """A row for each workload that an explanation must fit; the one with prefetched lines is judged apart, and in steps
    that a level serves, lines that prefetchers bring beside those in use come on top: that there are some counts."""
    steps = evidence.step_cycles
    # a core that serves one load at a time never has a load that waits for a line on its way
    if role == "load_fb_hit" and steps.get("burst_8", 0.0) >= 2 * steps.get("burst_2", np.inf):
        return
    line = evidence.events(role, "far_load")
    for work in evidence.workloads.values():
        if role in work.expected and work.name != "far_ascending" and not work.name.endswith(BESIDE):
            counted = evidence.events(role, work.name)
            if role in work.tolerance and ROLES[role].prefetch and len(line) and line.mean() > 0:
                counted = np.minimum(counted, line.mean())
            if work.name == "idle":  # the events of as long as a line from memory takes
                counted = counted * evidence.params.line_cycles / IDLE_CYCLES
            yield Row(work.name, counted, work.expected, work.tolerance)


def _of_cycles(role: str, evidence: Evidence) -> Iterator[Row]:
    """Counts over the cycles that a perfect event would count, and in which it should count none."""
    larger, smaller = "far_chase", "l2_chase"
    if role in QUEUES:
        larger, smaller = QUEUES[role], f"{QUEUES[role]}_half"
    if role == "no_execute":
        larger, smaller = "l2_chase_chained", "l2_chase"
    counts, cycles = _growth(role, evidence, larger, smaller)
    if not len(counts):  # no two levels were found whose latencies could be compared
        return
    if role == "no_execute":  # dependent multiplications begin one a cycle
        cycles = cycles - CHASE_WORK
    if role == "stall_store_buffer":  # while a store enters, the buffer isn't full
        cycles = cycles - FULL_LINES * evidence.step_cycles.get("nops", 0.0)
    yield Row("growth", counts / cycles, {role: 1.0, OTHER_STALLS: 1.0, FLOOR: 0.0}, {})
    idle, params = evidence.workloads["idle"].expected, evidence.params
    if role in idle:
        counted = evidence.events(role, "idle") * params.line_cycles / IDLE_CYCLES
        yield Row("idle", counted, {**idle, OTHER_STALLS: 0.0, FLOOR: 0.0}, {})
    if role == "no_execute":  # an instruction begins in each cycle of a chain of additions
        counted = evidence.events(role, "additions") / evidence.cycles(role, "additions")
        yield Row("additions", counted, {role: 0.0}, {role: params.background})
    if role in PURE:
        counts, cycles = _growth(role, evidence, "far_chase_chained", "far_chase")
        tolerance = {role: 0.1, OTHER_STALLS: params.stall_fraction}
        yield Row("far_chase_chained", counts / cycles, {role: 0.0, OTHER_STALLS: 1.0}, tolerance)
    for number in BURSTS if role == "l1d_inflight_sum" else ():
        counted = evidence.events(role, f"burst_{number}") / evidence.step_cycles["far_chase"]
        expected = {role: float(number), FLOOR: float(number // 4)}
        yield Row(f"burst_{number}", counted, expected, dict.fromkeys(expected, 0.1 * BURSTS[-1]))


def _growth(role: str, evidence: Evidence, larger: str, smaller: str) -> tuple[Numbers, Numbers]:
    """What one workload causes beyond another, in events and cycles, by epoch."""
    counts, fewer = evidence.events(role, larger), evidence.events(role, smaller)
    count = min(len(counts), len(fewer))
    cycles = evidence.cycles(role, larger)[:count] - evidence.cycles(role, smaller)[:count]
    return counts[:count] - fewer[:count], cycles


def _explained(role: str, rows: Sequence[Row], evidence: Evidence) -> Verdict:
    """The verdict of the explanation that fits best."""
    chosen, others, fits = _best(role, rows, evidence)
    if not fits:
        why = "no explanation fits its counts: they grow with time, or lack some lines"
        return _verdict(role, Kind.UNTRUSTED, reason=why)
    if chosen == FLOOR:  # the unit of such a count is no scale that could be distinguished from it
        return _verdict(role, Kind.FLOOR_PER_CYCLE)
    scale = _scale(chosen, rows, evidence)
    if chosen == OTHER_STALLS:
        return _scaled(role, evidence, scale, {Kind.INCLUDES_OTHER_STALLS})
    if chosen != role and (chosen == "load_l1_miss" or evidence.level(chosen) == evidence.level(role)):
        return _verdict(role, Kind.UNTRUSTED, reason=f"it counts what {chosen} should")
    if any(other not in ROLES or evidence.level(other) != evidence.level(chosen) for other in others):
        return Verdict(role=role, reason=f"it may as well count {' or '.join(others)}")
    if role in QUEUES and scale.outside(1 - evidence.params.trust, 1 + evidence.params.trust):
        return _per_count(Verdict(role=role, reason="its queue may not be full all the time"), scale)
    kinds = set() if chosen == role else {Kind.OTHER_LEVEL}
    if rows[0].name == "growth":
        return _scaled(role, evidence, scale, kinds)
    includes = _includes_prefetch(role, evidence, scale, chosen)
    kinds |= {Kind.MISSES_PREFETCHES} if includes is False else set()
    if _undercounts(role, evidence, PRIMARY.get(chosen, "far_load")):
        kinds.add(Kind.UNDERCOUNTS_SMT)
    verdict = _scaled(role, evidence, scale, kinds)
    known = {"level": evidence.level(chosen), "includes_prefetch": includes} if verdict.kinds else {}
    return msgspec.structs.replace(verdict, **known)


def _scaled(role: str, evidence: Evidence, scale: Estimate, kinds: set[Kind]) -> Verdict:
    """The verdict of these kinds on an event of this scale (counts per event), trusted where it is 1 and nothing else
    holds; undecided where its interval is too wide."""
    trust = evidence.params.trust
    if scale.outside(1 - trust, 1 + trust) and scale.low > 0:
        kinds = {*kinds, Kind.SCALED}
    elif not scale.within(1 - trust, 1 + trust):
        interval = f"[{scale.low:.3f}, {scale.high:.3f}]"
        why = f"counts {scale.value:.3f} per event, {interval}: neither within {trust:.0%} of one nor off it"
        verdict = Verdict(role=role, reason=why)
        return _per_count(verdict, scale) if scale.low > 0 else verdict
    return _per_count(_verdict(role, *kinds), scale)


def _undercounts(role: str, evidence: Evidence, primary: str) -> bool:
    """Whether events are lost beside a busy sibling thread."""
    alone, crowded = (evidence.events(role, primary + suffix) for suffix in ("", BESIDE))
    count = min(len(alone), len(crowded))
    if not count or not alone[:count].all():
        return False
    return over_epochs(crowded[:count] / alone[:count]).high < 1 - evidence.params.loss


def _best(role: str, rows: Sequence[Row], evidence: Evidence) -> tuple[str, tuple[str, ...], bool]:
    """The explanation of what was counted (its own role where others explain as much), those that explain it about as
    well, and whether it explains all. Where nothing is expected, half of the most that it could be is predicted."""
    family: tuple[str, ...] = next((each for each in FAMILIES if role in each), (role,))
    family += (OTHER_STALLS,) if role in PURE else (FLOOR,) if role == "l1d_inflight_sum" else ()
    observed = np.array([row.mean for row in rows])
    predicted = {name: np.array([row.expected.get(name, row.most / 2) for row in rows]) for name in family}
    predicted = {name: each for name, each in predicted.items() if each.any()}
    errors = {name: _errors(name, rows, evidence) for name in predicted}
    found = likeliest(observed, errors, predicted, evidence.params.even_odds)
    chosen = role if role in found else next(iter(found))
    return chosen, tuple(name for name in found if name != chosen), found[chosen] >= evidence.params.least_fit


def _errors(name: str, rows: Sequence[Row], evidence: Evidence) -> Numbers:
    """Standard error of each row's counts: between epochs, and of what the explanation expects."""
    # counts of a line, where the explanation has some: elsewhere a stray event would stand for all of them
    own = [abs(row.mean) / row.most for row in rows if row.expected.get(name) and name not in row.tolerance]
    level = max(own, default=0.0) or max(abs(row.mean) / row.most for row in rows)
    errors = []
    for row in rows:
        doubt = row.tolerance.get(name, evidence.params.exactness) if name in row.expected else 0.5 * row.most
        known, spread = level * doubt, over_epochs(row.counted).error
        errors.append(np.hypot(spread if np.isfinite(spread) else known, known))
    return np.array(errors)


def _scale(name: str, rows: Sequence[Row], evidence: Evidence) -> Estimate:
    """Counts per event of an explanation, over epochs, from the rows whose volumes are exact."""
    having = [row for row in rows if row.expected.get(name)]
    exact = [row for row in having if name not in row.tolerance]
    series = [row.counted / row.expected[name] for row in exact or having]
    epochs = min((len(each) for each in series), default=0)
    doubt = evidence.params.exactness / 2 if exact else evidence.params.looseness
    return over_epochs(np.mean([each[:epochs] for each in series], axis=0) if epochs else []).doubted(doubt)


def _includes_prefetch(role: str, evidence: Evidence, scale: Estimate, chosen: str) -> bool | None:
    """Whether prefetched lines are counted: False where lines of an ascending chase are missing, True where none is
    although prefetchers bring some into the traffic that is counted, None where they bring none."""
    if not ROLES[role].prefetch:
        return None
    counted = over_epochs(evidence.events(role, "far_ascending") / scale.value)
    if counted.high < 1 - evidence.params.loss:
        return False
    return True if np.isfinite(counted.value) and evidence.prefetched(ROLES[chosen].level) else None


def _verdict(role: str, *kinds: Kind, reason: str = "") -> Verdict:
    """The verdict of these kinds in their order; trusted where there is none."""
    return Verdict(role=role, kinds=tuple(kind for kind in Kind if kind in kinds) or (Kind.TRUSTED,), reason=reason)


def _per_count(verdict: Verdict, scale: Estimate) -> Verdict:
    """With what one count stands for: the scale is counts per event."""
    low, high = sorted((1 / scale.low, 1 / scale.high))
    return msgspec.structs.replace(verdict, scale=Interval(1 / scale.value, low, high))

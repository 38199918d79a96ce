"""Verdicts on events: whether an event counts what its role says, and which other explanation fits its counts if not.

Each event gets a list of rows, with the counts of a workload and the number that each explanation expects. For lines
and instructions, the explanations are the roles of the same direction, so the level that an event tracks is found and
not looked up (Molka et al. 2017, future work). For cycles, a row is the difference of two workloads: a chase always has
one load in flight, and over flushed lines each step takes longer than over lines in L2 by the difference of the
latencies, which every event of cycles with a waiting load must count. Dependent multiplications lengthen a step without
a waiting load (section 4.3). Each explanation has a scale of its own; an event that none fits is untrusted.
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
"""Groups of roles whose traffic has the same direction, so that events might count each other's lines."""

PRIMARY = {
    **{"load_fb_hit": "far_pair", "load": "hot_load", "store": "hot_store"},
    **dict.fromkeys((*OWNED, *IN_MEMORY), "far_store"),
    **dict.fromkeys(GIVEN_AWAY, "beyond_store"),
}
"""The workload that shows by role whether events are lost beside a busy sibling thread; `far_load` for other roles."""

QUEUES = {"fb_full": "full_load", "sq_full": "full_load", "stall_store_buffer": "full_store"}
"""Roles of cycles with a full queue, and the workload that fills it, unless another limit of a core prevents it."""
PURE = ("stall_l1d_miss", "stall_load_any")
"""Roles of stall cycles that should not count cycles in which arithmetic waits for arithmetic."""
OTHER_STALLS, FLOOR = Kind.INCLUDES_OTHER_STALLS.value, Kind.FLOOR_PER_CYCLE.value
"""Further explanations of cycles: other stalls count as well; a quarter of the loads in flight counts, rounded down."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the event of one `role`: the `kinds` (see `Kind`) that hold; if none do, `reason` says why.

    `scale` is the number of the role's events that one count stands for, `level` the cache level whose traffic the
    event tracks, and `includes_prefetch` says whether prefetched lines are counted (None if unknown)."""

    role: str
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    scale: Interval | None = None
    level: str = ""
    includes_prefetch: bool | None = None


class Row(NamedTuple):
    """Counts per piece of work, shape (epochs,), of a workload or of the difference of two. An explanation is a role
    that the event may count. `expected` has, by explanation, the count that it expects, and `tolerance` how far the
    count may be off: not at all without an entry. An explanation that is missing in `expected` allows any count."""

    name: str
    counted: Numbers
    expected: Mapping[str, float]
    tolerance: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean count per piece of work, over epochs."""
        return float(np.mean(self.counted))

    @property
    def most(self) -> float:
        """The largest count that any explanation of the event expects, or 1 where all expect less."""
        return max(*self.expected.values(), 1.0)


def judge(role: str, evidence: Evidence) -> Verdict:
    """Return the verdict on the event of `role`, by `evidence`: from its readings if they failed or are all 0,
    otherwise from the explanation that best fits its counts under all workloads."""
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
    """Yield a row for each workload with a known number of lines or instructions, but not those with prefetched lines
    or a busy sibling. Where timing found the level that serves the lines, counts are capped at a memory line's."""
    steps = evidence.step_cycles
    # on a core that serves one load at a time, no load ever waits for a line on its way
    if role == "load_fb_hit" and steps.get("burst_8", 0.0) >= 2 * steps.get("burst_2", np.inf):
        return
    line = evidence.events(role, "far_load")
    for work in evidence.workloads.values():
        if role in work.expected and work.name != "far_ascending" and not work.name.endswith(BESIDE):
            counted = evidence.events(role, work.name)
            if role in work.tolerance and ROLES[role].prefetch and len(line) and line.mean() > 0:
                counted = np.minimum(counted, line.mean())
            if work.name == "idle":  # events in the time of one line from memory
                counted = counted * evidence.params.line_cycles / IDLE_CYCLES
            yield Row(work.name, counted, work.expected, work.tolerance)


def _of_cycles(role: str, evidence: Evidence) -> Iterator[Row]:
    """Yield rows of a role of cycles: counts per cycle that an ideal event counts, and counts that should be 0."""
    larger, smaller = "far_chase", "l2_chase"
    if role in QUEUES:
        larger, smaller = QUEUES[role], f"{QUEUES[role]}_half"
    if role == "no_execute":
        larger, smaller = "l2_chase_chained", "l2_chase"
    counts, cycles = _growth(role, evidence, larger, smaller)
    if not len(counts):  # too few levels were found to compare their latencies
        return
    if role == "no_execute":  # one dependent multiplication begins per cycle
        cycles = cycles - CHASE_WORK
    if role == "stall_store_buffer":  # the buffer isn't full in the cycle in which a store enters
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
    """Return how many more events and cycles the `larger` workload causes than the `smaller`, shape (epochs,) each."""
    counts, fewer = evidence.events(role, larger), evidence.events(role, smaller)
    count = min(len(counts), len(fewer))
    cycles = evidence.cycles(role, larger)[:count] - evidence.cycles(role, smaller)[:count]
    return counts[:count] - fewer[:count], cycles


def _explained(role: str, rows: Sequence[Row], evidence: Evidence) -> Verdict:
    """Return the verdict on a role's event that follows from the explanation that fits its rows best."""
    chosen, others, fits = _best(role, rows, evidence)
    if not fits:
        why = "no explanation fits its counts: they grow with time, or lack some lines"
        return _verdict(role, Kind.UNTRUSTED, reason=why)
    if chosen == FLOOR:  # its unit can't be distinguished from a scale
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
    """Return a verdict of these `kinds` on an event with this `scale` (counts per event): also scaled if the scale
    isn't 1, trusted if it is 1 and there are no kinds, undecided if its interval is too wide."""
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
    """Whether the event counts less in the `primary` workload when a sibling thread of the core is busy."""
    alone, crowded = (evidence.events(role, primary + suffix) for suffix in ("", BESIDE))
    count = min(len(alone), len(crowded))
    if not count or not alone[:count].all():
        return False
    return over_epochs(crowded[:count] / alone[:count]).high < 1 - evidence.params.loss


def _best(role: str, rows: Sequence[Row], evidence: Evidence) -> tuple[str, tuple[str, ...], bool]:
    """Return the explanation that fits best (the role itself if it fits as well), the others that fit about as well,
    and whether the best one fits all rows. One that allows any count of a row predicts half of the row's largest."""
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
    """Return each row's standard error under one explanation, shape (rows,): spread of epochs and tolerance."""
    # the event's counts per expected one: rows without an expectation would add stray events
    own = [abs(row.mean) / row.most for row in rows if row.expected.get(name) and name not in row.tolerance]
    level = max(own, default=0.0) or max(abs(row.mean) / row.most for row in rows)
    errors = []
    for row in rows:
        doubt = row.tolerance.get(name, evidence.params.exactness) if name in row.expected else 0.5 * row.most
        known, spread = level * doubt, over_epochs(row.counted).error
        errors.append(np.hypot(spread if np.isfinite(spread) else known, known))
    return np.array(errors)


def _scale(name: str, rows: Sequence[Row], evidence: Evidence) -> Estimate:
    """Return the counts per event of an explanation over epochs, from rows with exact volumes where there are any."""
    having = [row for row in rows if row.expected.get(name)]
    exact = [row for row in having if name not in row.tolerance]
    series = [row.counted / row.expected[name] for row in exact or having]
    epochs = min((len(each) for each in series), default=0)
    doubt = evidence.params.exactness / 2 if exact else evidence.params.looseness
    return over_epochs(np.mean([each[:epochs] for each in series], axis=0) if epochs else []).doubted(doubt)


def _includes_prefetch(role: str, evidence: Evidence, scale: Estimate, chosen: str) -> bool | None:
    """Whether the event counts prefetched lines: False if lines of an ascending chase are missing, True if all are
    there and prefetchers do bring lines into this traffic, None if they don't or the role has no prefetches."""
    if not ROLES[role].prefetch:
        return None
    counted = over_epochs(evidence.events(role, "far_ascending") / scale.value)
    if counted.high < 1 - evidence.params.loss:
        return False
    return True if np.isfinite(counted.value) and evidence.prefetched(ROLES[chosen].level) else None


def _verdict(role: str, *kinds: Kind, reason: str = "") -> Verdict:
    """Return a decided verdict on a role's event with these kinds, in the order of `Kind`; trusted if none is given."""
    return Verdict(role=role, kinds=tuple(kind for kind in Kind if kind in kinds) or (Kind.TRUSTED,), reason=reason)


def _per_count(verdict: Verdict, scale: Estimate) -> Verdict:
    """Return the verdict with its scale set: events per count, the inverse of `scale` (counts per event)."""
    low, high = sorted((1 / scale.low, 1 / scale.high))
    return msgspec.structs.replace(verdict, scale=Interval(1 / scale.value, low, high))

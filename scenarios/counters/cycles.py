"""Events of cycles and of what is in flight: whether they grow by as much as the time does that they are about.

A chase has one load in flight, always; from a working set that L2 serves to flushed lines a step takes longer by the
difference of two latencies, and every event that counts cycles of a waiting load must grow by just that. What comes
beside it in a step (looking L1 up, the instructions of the loop) is the same in both and drops out. Dependent
multiplications lengthen a step without a load that waits (Molka et al. 2017, section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.counters.verdicts import Kind, Verdict
from setebench.probe import CHASE_WORK
from setebench.stats.candidates import compare
from setebench.stats.estimate import Estimate, over_epochs

from .lines import PAIRS
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
)
from .workloads import BESIDE

FULL = {"fb_full": "full_load", "sq_full": "full_load", "stall_store_buffer": "full_store"}
"""Events of full queues: the workload that fills them, in two sizes."""

ENTRIES = ("fb_full", "sq_full")
"""Those whose queue other limits of a core may keep from being full all the time."""

PURE = ("stall_l1d_miss", "stall_load_any")
"""Events that should not count cycles in which arithmetic waits for arithmetic."""


MOST_AT_ONCE = "burst_8"
"""The burst of most misses: even a count that is rounded down in each cycle counts in it."""


@dataclass(frozen=True)
class Compared:
    """What two workloads differ by, in events and in the cycles that a perfect event would count, shape (epochs,)."""

    counts: Numbers
    cycles: Numbers

    def scale(self, exactness: float) -> Estimate:
        """Events per cycle, with the doubt of known volumes (`Params.exactness`)."""
        return over_epochs(self.counts / self.cycles).doubted(exactness / 2)


def judge_cycle_event(role: str, evidence: Evidence) -> Verdict:
    """The verdict on an event that counts cycles, or a sum over cycles."""
    compared = _compared(role, evidence)
    if not len(compared.counts):
        return Verdict(role=role, reason="no two levels were found whose latencies could be compared")
    kinds = evidence.kinds(role)
    if evidence.observations.roles[role].silent:
        return _nothing(role, kinds)
    scale = compared.scale(evidence.params.exactness)
    noisy = background(role, evidence, max(scale.value, 1 / 4)) or _while_executing(role, evidence)
    floored = not noisy and role == "l1d_inflight_sum" and _floored(evidence)
    if noisy or bent(role, evidence, MOST_AT_ONCE if floored else _primary(role, evidence)):
        return found(role, kinds | {Kind.UNTRUSTED}, "counts are no line over the work")
    return found(role, kinds | {Kind.FLOOR_PER_CYCLE}) if floored else _of_scale(role, evidence, kinds, scale)


def _while_executing(role: str, evidence: Evidence) -> bool:
    """Whether cycles without execution are counted in a chain of additions, where an instruction begins in each."""
    if role != "no_execute":
        return False
    larger, smaller = PAIRS["cycles"]
    cycles = common(evidence.cycles(role, larger), evidence.cycles(role, smaller))
    return over_epochs(evidence.difference(role, larger, smaller) / cycles).low > evidence.params.background


def _of_scale(role: str, evidence: Evidence, kinds: set[Kind], scale: Estimate) -> Verdict:
    kinds_of_scale, reason = scaled(scale, evidence.params)
    if role in ENTRIES and kinds_of_scale and scale.high < 1:
        kinds_of_scale, reason = None, f"counts {scale.value:.3f} a cycle: its queue may not be full all the time"
    if kinds_of_scale is None:
        return undecided(role, scale, reason)
    kinds |= set(kinds_of_scale)
    kinds |= {Kind.INCLUDES_OTHER_STALLS} if role in PURE and _includes_other(role, evidence, scale) else set()
    kinds |= {Kind.UNDERCOUNTS_SMT} if _undercounts(role, evidence) else set()
    return decided(role, kinds, scale)


def _nothing(role: str, kinds: set[Kind]) -> Verdict:
    """An event that never counted: silent, or its queue never filled."""
    if role in FULL:
        return Verdict(role=role, reason="counted nothing, but no workload is known to fill its queue on this machine")
    return found(role, kinds | {Kind.ZERO})


def _primary(role: str, evidence: Evidence) -> str:
    return f"{FULL[role]}_{evidence.params.full_lines[1]}" if role in FULL else "far_chase_16"


def _compared(role: str, evidence: Evidence) -> Compared:
    if role in FULL:
        return _full(role, evidence)
    return _waiting(role, evidence) if role == "no_execute" else _longer(role, evidence)


def _waiting(role: str, evidence: Evidence) -> Compared:
    """Cycles in which nothing began to execute, for dependent multiplications: all that they take but one each."""
    near = evidence.workloads.get("l2_chase")
    if near is None:
        return Compared(np.empty(0), np.empty(0))
    work = near.steps * CHASE_WORK
    cycles = common(evidence.cycles(role, "l2_chase_chained"), evidence.cycles(role, "l2_chase")) - work
    return Compared(evidence.difference(role, "l2_chase_chained", "l2_chase"), cycles)


def _undercounts(role: str, evidence: Evidence) -> bool:
    """Whether fewer of the cycles that are to be counted are while the core's other thread is busy. What that adds to
    every step (a load that waits for its turn) is no such cycle, and is in both workloads that are compared."""
    compare_both = _full if role in FULL else _longer
    alone, beside = (compare_both(role, evidence, suffix) for suffix in ("", BESIDE))
    return lost(alone.counts / alone.cycles, beside.counts / beside.cycles, evidence.params)


def _full(role: str, evidence: Evidence, suffix: str = "") -> Compared:
    """Events, and cycles, of twice as many requests as queues hold, beyond those of as many. While a store enters the
    buffer, it is not full."""
    fewer, more = evidence.params.full_lines
    few, many = (f"{FULL[role]}_{count}{suffix}" for count in (fewer, more))
    cycles = common(evidence.cycles(role, many), evidence.cycles(role, few))
    entering = (more - fewer) * _entering(evidence) if role == "stall_store_buffer" else 0.0
    return Compared(evidence.difference(role, many, few), cycles - entering)


def _entering(evidence: Evidence) -> float:
    """Cycles that an instruction takes to enter the core, from no-operations; 0 where these were not timed."""
    steps = evidence.observations.step_cycles
    larger, smaller = PAIRS["instructions"]
    if larger not in steps:
        return 0.0
    instructions = [evidence.workloads[name].volumes["instructions"] for name in (larger, smaller)]
    return (steps[larger] - steps[smaller]) / (instructions[0] - instructions[1])


def _longer(role: str, evidence: Evidence, suffix: str = "") -> Compared:
    """Events, and cycles, of a step over flushed lines beyond those of a step that L2 serves."""
    few, many = (f"far_chase_{count}{suffix}" for count in evidence.params.chase_lines)
    steps = evidence.params.chase_lines[1] - evidence.params.chase_lines[0]
    near = evidence.workloads.get(f"l2_chase{suffix}")
    if near is None:
        return Compared(np.empty(0), np.empty(0))
    far = evidence.difference(role, many, few) / steps
    far_cycles = common(evidence.cycles(role, many), evidence.cycles(role, few)) / steps
    counts = common(far, evidence.slope(role, near.name) / near.steps)
    return Compared(counts, common(far_cycles, evidence.cycles(role, near.name) / near.steps))


def _includes_other(role: str, evidence: Evidence, scale: Estimate) -> bool:
    """Whether dependent multiplications are counted."""
    name = f"far_chase_{evidence.params.chase_lines[1]}"
    counts = evidence.difference(role, f"{name}_chained", name)
    cycles = common(evidence.cycles(role, f"{name}_chained"), evidence.cycles(role, name))
    return over_epochs(counts / cycles / scale.value).low > evidence.params.stall_fraction


def _burst_counts(evidence: Evidence) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of misses at once, counts per repetition, and their errors, relative to the largest."""
    numbers = np.array(evidence.params.burst_lines, dtype=np.float64)
    found = [over_epochs(evidence.slope("l1d_inflight_sum", f"burst_{int(number)}")) for number in numbers]
    counts = np.array([each.value for each in found])
    return numbers, counts, np.full(len(numbers), 0.1 * max(float(np.nanmax(np.abs(counts))), 1e-9))


def _floored(evidence: Evidence) -> bool:
    """Whether a quarter of what is in flight, rounded down, explains bursts better than what is in flight does. The
    unit of such a count is no scale that could be distinguished from it."""
    numbers, counts, errors = _burst_counts(evidence)
    if np.isnan(counts).any():
        return False
    candidates = {"all": numbers, "quarters": np.floor(numbers / 4)}
    comparison = compare(counts, dict.fromkeys(candidates, errors), candidates)
    return comparison.best == "quarters"

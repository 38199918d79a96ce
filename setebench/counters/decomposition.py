"""Where the cycles of a program went: useful work, waiting for memory by latency or by bandwidth, other waiting.

Molka et al. 2017, section 4.3 and Figure 10. The four parts add up to all cycles. Cycles in which the store buffer was
full are inside both maxima that the memory parts are made of, so they are reported beside the parts and never added.

What it can't see (the same section): cycles spent on a mispredicted path count as productive, waiting for instructions
as other, and phases that wait for loads and phases that wait for stores within one measurement as memory bound for the
longer of the two only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from setebench.counters.metrics import Measurement, first_objection

SOURCE = "Molka et al. 2017, Figure 10"
ROLES_NEEDED = ("cycles", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full")

CONTRADICTION = 0.04
"""By how much of all cycles a part may exceed the whole that holds it, before its counts are said to contradict each
other. Two trusted events may err by 2 % each, in opposite directions (`setebench counters validate`)."""


class Decomposition(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the cycles in percent. `productive`, `other_stalls`, `memory_latency` and `memory_bandwidth` add up to
    100; `store_buffer` lies within the two memory parts."""

    productive: float
    other_stalls: float
    memory_latency: float
    memory_bandwidth: float
    store_buffer: float

    @property
    def memory(self) -> float:
        """Cycles that wait for memory, in percent of all."""
        return self.memory_latency + self.memory_bandwidth


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """Why cycles couldn't be decomposed, one line."""

    reason: str


def decompose(measurement: Measurement) -> Decomposition | Undecided:
    """The decomposition of a measurement that counted `ROLES_NEEDED`, or why there is none."""
    objection = first_objection(ROLES_NEEDED, measurement)
    if objection:
        return Undecided(reason=objection)
    cycles = measurement.value("cycles")
    if not cycles:
        return Undecided(reason="no cycle was counted")
    return of_fractions({role: measurement.value(role) / cycles for role in ROLES_NEEDED})


def of_fractions(fraction: Mapping[str, float]) -> Decomposition | Undecided:
    """The same from counts per cycle: of roles that couldn't all be counted at once, each over its own time."""
    stalls = fraction["no_execute"]
    if stalls > 1 + CONTRADICTION:
        return Undecided(reason=f"no_execute is {stalls:.2f} of all cycles, so one of the two counts is wrong")
    # a part never exceeds its whole: full buffers are counted in cycles that execute something, too
    stalls = min(stalls, 1.0)
    store_buffer = fraction["stall_store_buffer"]
    memory = min(max(fraction["stall_l1d_miss"], store_buffer), stalls)
    bandwidth = min(max(fraction["fb_full"] + fraction["sq_full"], store_buffer), memory)
    return Decomposition(
        productive=100 * (1 - stalls),
        other_stalls=100 * (stalls - memory),
        memory_latency=100 * (memory - bandwidth),
        memory_bandwidth=100 * bandwidth,
        store_buffer=100 * store_buffer,
    )

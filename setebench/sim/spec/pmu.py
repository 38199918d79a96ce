"""The schema of a machine file's `[pmu]`: which events a simulated machine counts, and what is wrong with them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from setebench.counters.roles import ROLES, Quantity
from setebench.sim.spec.table import Table, between, says, several

FaultKind = Literal[
    "zero",
    "scaled",
    "floor_per_cycle",
    "other_level",
    "multiplexed",
    "misses_prefetches",
    "includes_other_stalls",
    "undercounts_smt",
    "background",
    "no_counter",
]
ELSEWHERE = ("load_l1_miss_any", "remote_read", "link_flit", "hitm_remote")
"""Roles of what the simulator has not: other sockets, and misses that it doesn't tell apart."""

SIMULATED_ROLES = tuple(
    name for name, role in ROLES.items() if role.quantity is not Quantity.SYSTEM and name not in ELSEWHERE
)
"""Roles of which the simulator counts the ideal event."""


class Fault(Table, frozen=True, kw_only=True):
    """What an event of a PMU does wrong.

    `zero`: it counts nothing. `scaled`: `amount` times what it should. `floor_per_cycle`: one for every four misses in
    flight in a cycle, so nothing below four. `other_level`: the lines of another `role`. `multiplexed`: it has a
    register for `amount` of the time. `misses_prefetches`: lines that hardware prefetchers bring are left out.
    `includes_other_stalls`: cycles without execution in which instructions wait for each other are counted as well.
    `undercounts_smt`: it loses `amount` of what happens while a sibling thread runs. `background`: it counts `amount`
    events a cycle whatever happens. `no_counter`: there is never a register for it.
    """

    kind: Annotated[FaultKind, says("what is wrong")]
    amount: Annotated[float, between(0, 1000, "see above; 0 for kinds that need none")] = 0.0
    role: Annotated[str, says("what `other_level` counts")] = ""


class Pmu(Table, frozen=True, kw_only=True):
    """The performance monitoring unit. An empty table is a perfect one: every role, without any fault."""

    registers: Annotated[int, between(1, 64, "events that can be counted at once; more of them take turns")] = 8
    events: Annotated[
        dict[str, Annotated[tuple[Fault, ...], several(0, 1, "the fault of the event")]],
        says("the roles that it has an event for, each with the fault of that event, if it has one"),
    ] = msgspec.field(default_factory=lambda: dict.fromkeys(SIMULATED_ROLES, ()))

"""Roles of recorded processors: which events play them, what fits at once, and why not."""

from __future__ import annotations

import pytest
from recorded_pmus import tree

from setebench.counters.roles import ROLES
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver
from setebench.native.perf.tables import CYCLES_COUNTER, EventSpec, fits, grouped, load_tables

# -- what recorded machines offer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["haswell_ep", "zen5", "guest"])
def test_every_role_has_an_event_or_a_reason(machine: str) -> None:
    resolver = Resolver(tree(machine))
    found = {name: resolver.of_role(name) for name in ROLES}
    assert all(bool(each.terms) != bool(each.reason) for each in found.values())
    assert all(found[name].terms and found[name].event for name in SYSTEM_ROLES)
    reasons = {each.reason for name, each in found.items() if name not in SYSTEM_ROLES}
    if machine == "guest":
        assert len(reasons) == 1 and "PMU" in reasons.pop()


# -- sets of events that fit at once ---------------------------------------------------------------------------------


HASWELL = load_tables()["haswell-ep"].roles


def spec(counters: tuple[int, ...], **more: object) -> EventSpec:
    return EventSpec(event=1, counters=counters, sources={}, status="documented", **more)  # type: ignore[arg-type]


def test_a_counter_that_another_program_has_is_not_used() -> None:
    four = [spec((0, 1, 2, 3)) for _ in range(4)]
    assert fits([*four, HASWELL["cycles"]]) and not fits([*four, HASWELL["cycles"]], {CYCLES_COUNTER})
    assert not fits(four, {3})
    assert fits([spec((0, 1, 2, 3), pmu="uncore_imc") for _ in range(4)], {3})


def test_every_table_fits_in_few_sets() -> None:
    for table in load_tables().values():
        found = grouped(table.roles)
        assert sorted(role for group in found for role in group) == sorted(table.roles)
        assert all(fits([table.roles[role] for role in group]) for group in found if len(group) > 1)
        assert len(found) <= 9

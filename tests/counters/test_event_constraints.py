"""Sets of events that fit at once: rules of the counters, and the fewest sets, against trying everything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from setebench.native.perf.constraints import FIRST_FIXED, Registers, fits, grouped
from setebench.native.perf.tables import EventSpec, Status, load_tables

HASWELL = load_tables()["haswell-ep"].roles


def spec(counters: tuple[int, ...], **more: object) -> EventSpec:
    return EventSpec(event=1, counters=counters, sources={}, status=Status.DOCUMENTED, **more)  # type: ignore[arg-type]


def test_the_three_of_haswell_that_only_counter_2_holds_are_pairwise_apart() -> None:
    three = ["l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss"]
    assert all(HASWELL[role].counters == (2,) for role in three)
    assert not any(fits([HASWELL[one], HASWELL[two]]) for one in three for two in three if one != two)
    assert len(grouped({role: HASWELL[role] for role in three}).groups) == 3


def test_a_counter_that_another_program_has_is_not_used() -> None:
    four = [spec((0, 1, 2, 3)) for _ in range(4)]
    assert not fits([*four, HASWELL["cycles"]], Registers(taken={"cpu": frozenset({FIRST_FIXED + 1})}))
    assert not fits(four, Registers(taken={"cpu": frozenset({3})}))
    assert fits(four, Registers(taken={"uncore_imc": frozenset({3})}))
    alone = grouped({"cycles": spec((0,))}, Registers(taken={"cpu": frozenset({0})}))
    assert alone.groups == () and "more than are free" in alone.unfit["cycles"]


def test_roles_that_every_set_is_to_have() -> None:
    found = grouped(HASWELL, always=("cycles",))
    assert found.unfit == {}
    assert all("cycles" in group for group in found.groups)
    assert sorted({role for group in found.groups for role in group}) == sorted(HASWELL)
    assert grouped({"cycles": HASWELL["cycles"]}, always=("cycles",)).groups == (("cycles",),)
    assert grouped({}).groups == ()


def test_every_table_fits_in_few_sets() -> None:
    for table in load_tables().values():
        found = grouped(table.roles)
        placed = [role for group in found.groups for role in group]
        assert sorted([*placed, *found.unfit]) == sorted(table.roles)
        assert all(fits([table.roles[role] for role in group]) for group in found.groups)


# -- against trying everything ---------------------------------------------------------------------------------------

SLOTS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]
SPECS = st.builds(
    lambda counters, fixed, offcore, pmu: spec(counters, fixed=fixed, offcore_rsp=offcore, pmu=pmu),
    st.sampled_from(SLOTS),
    st.sampled_from([None, None, 0, 1]),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.sampled_from(["cpu", "cpu", "uncore_imc"]),
)
WIDE = st.builds(lambda counters: spec(counters, width=2), st.sampled_from([(0,), (0, 2), (2,)]))


def tried(specs: list[EventSpec]) -> bool:
    """Whether they fit, by all assignments."""
    offcore = {one.offcore_rsp for one in specs if one.offcore_rsp}
    ways = [
        [*((first, one.width) for first in one.counters), *([] if one.fixed is None else [(100 + one.fixed, 1)])]
        for one in specs
    ]
    for choice in product(*ways):
        used = [
            (one.pmu, first + step) for one, (first, width) in zip(specs, choice, strict=True) for step in range(width)
        ]
        if len(set(used)) == len(used):
            return len(offcore) <= 2
    return False


def partitions(items: list[str]) -> Iterator[list[list[str]]]:
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for at, group in enumerate(rest):
            yield [*rest[:at], [items[0], *group], *rest[at + 1 :]]


@given(st.lists(st.one_of(SPECS, WIDE), max_size=5))
def test_what_fits_is_what_some_assignment_allows(specs: list[EventSpec]) -> None:
    assert fits(specs) == tried(specs)


@settings(max_examples=40)
@given(st.lists(st.one_of(SPECS, WIDE), max_size=5))
def test_no_partition_into_fewer_sets_fits(specs: list[EventSpec]) -> None:
    roles = {f"r{number}": one for number, one in enumerate(specs)}
    found = grouped(roles)
    assert found.unfit == {}
    fewest = min(
        len(groups)
        for groups in partitions(list(roles))
        if all(tried([roles[role] for role in group]) for group in groups)
    )
    assert len(found.groups) == fewest
    assert sorted(role for group in found.groups for role in group) == sorted(roles)
    assert all(tried([roles[role] for role in group]) for group in found.groups)

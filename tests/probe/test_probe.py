"""Probes as data: what each method appends, how probes join, placements, and every request that makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from setebench.errors import ProbeError, UsageError
from setebench.probe import (
    COLUMNS,
    IP_SPAN_BITS,
    Base,
    Kind,
    Probe,
    placement_table,
)

A, B, C = Base("a"), Base("b"), Base("c")


def columns(probe: Probe, row: int = -1) -> dict[str, int]:
    """One row by column name."""
    return dict(zip(COLUMNS, (int(value) for value in probe.rows[row]), strict=True))


# ---- after= -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "row"), [(-1, 3), (-2, 1), (-3, 0), (0, 0), (1, 1), (2, 3)])
def test_after_counts_loads_and_chases(after: int, row: int) -> None:
    probe = Probe().load(A).chase(A, 4).flush(A).load(B).fence()
    assert columns(probe.load(A, after=after))["after"] == row


# ---- joins --------------------------------------------------------------------------------------------------------


STEPS: list[Callable[[Probe], Probe]] = [
    lambda p: p.load(A),
    lambda p: p.load(B + 64, 16),
    lambda p: p.load(C, ip="x"),
    lambda p: p.store(A, ip="y"),
    lambda p: p.load(A, after=-1) if Kind.LOAD in p.rows[:, 0] else p.load(A),
    lambda p: p.flush(B),
    lambda p: p.prefetch(C, "t1", ip="z"),
    lambda p: p.fence(),
    lambda p: p.wait(10),
    lambda p: p.repeat(3, Probe().load(C).load(A, ip="y2"), advance=64),
]
built = st.lists(st.sampled_from(STEPS), max_size=8).map(lambda steps: _build(steps))


def _build(steps: list[Callable[[Probe], Probe]]) -> Probe:
    probe = Probe()
    for step in steps:
        probe = step(probe)
    return probe


@given(built, built)
def test_a_join_keeps_the_operations_of_both(left: Probe, right: Probe) -> None:
    joined = list((left + right).operations)
    shifted = [replace(op, after=None if op.after is None else op.after + len(left)) for op in right.operations]
    assert joined == [*left.operations, *shifted]


# ---- intervals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (Probe().start(), "one start and then one stop"),
        (Probe().start(1).stop(1), "numbered 0, 1, 2"),
        (Probe().stop(), "one start and then one stop"),
        (Probe().start().start().stop().stop(), "one start and then one stop"),
        (Probe().start(bracket="rdtscp").stop(), "different brackets"),
    ],
)
def test_intervals_that_make_no_sense(probe: Probe, message: str) -> None:
    with pytest.raises(ProbeError, match=message):
        _ = probe.intervals


# ---- every other error --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Probe().load(A, 4), "8, 16, 32 or 64 bytes, not 4"),
        (lambda: Probe().prefetch(A, "t3"), "unknown prefetch hint 't3'; one of t0, t1, t2, nta, w"),
        (lambda: Probe().start(-1), "numbered 0 to 63, not -1"),
        (lambda: Probe().wait(0), "wait takes a count from 1 to 1000000000, not 0"),
        (lambda: Probe().chase(A, 3, work="divide"), "unknown work of a chase 'divide'"),
        (lambda: Probe().chase(A, 3, 16, work="free"), "a chase with work loads 8 bytes, not 16"),
        (lambda: Probe().repeat(2, Probe().barrier()), "can't hold another repeat, a start, a stop or a barrier"),
        (lambda: Probe().load(A).load(A, after=-2), "after=-2: the probe has 1 loads"),
        (lambda: Probe().load(A + 2**31), "offset 2147483648 of a does not fit 32 bits"),
        (lambda: Probe().load(A, ip="x", ip_bits=2**IP_SPAN_BITS), "ip_bits must lie in 0 to"),
        (lambda: Probe().load(A, ip="x", ip_bits=0).load(A, ip="x", ip_bits=64), "placed twice"),
    ],
)
def test_requests_that_make_no_sense(build: Callable[[], Probe], message: str) -> None:
    with pytest.raises(ProbeError, match=message) as caught:
        build()
    assert isinstance(caught.value, UsageError)
    assert "\n" not in str(caught.value)


# -- placement tables ------------------------------------------------------------------------------------------------


BOTH = Probe().load(A).load(B)


@pytest.mark.parametrize(
    ("probe", "placements", "message"),
    [
        (BOTH, 3, "no placement for a, b"),
        (BOTH, {A: [1]}, "no placement for b"),
        (BOTH, {A: [1, 2], B: [1]}, r"placements differ in length: \[1, 2\]"),
        (Probe().load(A), {A: [[1, 2], [3, 4]]}, "one address per repetition"),
        (Probe().load(A), {A: [1.5]}, "address"),
    ],
)
def test_placements_that_make_no_sense(probe: Probe, placements: Any, message: str) -> None:
    with pytest.raises(ProbeError, match=message) as caught:
        placement_table(probe, placements)
    assert "\n" not in str(caught.value)

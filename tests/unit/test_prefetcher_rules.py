"""What is asked before a number or a footprint of a prefetcher is believed."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.footprint import Footprint
from setebench.infer.mixture import Shares
from setebench.prefetcher_map.builder import UNWATCH_IP
from setebench.prefetcher_map.table_size import bisect, others_first
from setebench.prefetcher_map.visit import fresh


def test_a_table_holds_as_many_as_were_followed() -> None:
    assert bisect(lambda number: number <= 14, 60) == 14


@pytest.mark.parametrize(
    "followed",
    [
        lambda number: number <= 14 and number != 12,  # forgets now and then
        lambda number: number <= 14 or number == 17,
        lambda number: number <= 58,  # nothing could be asked beyond
        lambda number: True,
        lambda number: None if number == 7 else number <= 7,
    ],
)
def test_no_size_is_told_where_an_edge_is_none(followed: object) -> None:
    assert bisect(followed, 60) is None  # type: ignore[arg-type]


def test_an_edge_that_is_not_plain_is_no_size() -> None:
    assert bisect(lambda number: number <= 14, 60, lambda number: number <= 14) == 14
    assert bisect(lambda number: number <= 14, 60, lambda number: None) is None
    assert bisect(lambda number: number <= 14, 60, lambda number: number <= 15) is None


@pytest.mark.parametrize(("repetitions", "brought"), [(12, None), (240, True)])
def test_a_few_repetitions_answer_only_what_is_plain(repetitions: int, brought: bool | None) -> None:
    def shares(memory: float) -> Shares:
        value = np.array([[1 - memory, memory]])
        return Shares(("l1", "memory"), value, value, value, np.array([100]))

    assert Footprint((5,), shares(0.25), shares(1.0), repetitions).brought(5) is brought


@pytest.mark.parametrize("runs", [1, 8, 17, 60])
def test_instructions_before_the_runs_overlap_with_none_and_look_like_none(runs: int) -> None:
    own = [fresh(run) for run in range(runs)]
    others = [access.ip for access in others_first(runs, 0) if access.ip is not None]
    assert len(others) > runs
    assert not {ip % 64 for ip in own} & {ip % 64 for ip in others}
    # as far apart as accesses that a person's CPU runs: one of them takes up to 64 bytes
    assert np.diff(sorted([*own, *others, UNWATCH_IP])).min() >= 64

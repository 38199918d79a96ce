"""The truth and the map of the paper's two machines say what the paper's tables say of their prefetchers.

The third level of the one that has one is made small: no prefetcher fills it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from setebench.scenarios.prefetcher_map import SCENARIO
from small_presets import small

from setebench.scenario import Context
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.parameters import truth

pytestmark = pytest.mark.long(32)

TABLES_IV_AND_V: dict[str, Any] = {
    "l2.stream.present": True,
    "l2.stream.trained_by": ["load", "store"],
    "l2.stream.trigger": 3,
    "l2.stream.trigger_at_page_edge": [1, 2, 2, 1],
    "l2.stream.directions": "both",
    "l2.stream.degree": 4,
    "l2.stream.max_distance": 16,
    "l2.stream.streams": 16,
    "l2.stream.streams_per_page": 1,
    "l2.stream.shared_by_smt": True,
    "l2.stream.crosses_4k": False,
    "l2.stream.crosses_4k_in_2m": False,
}

TABLE_VI: dict[str, Any] = {
    "l1.next_line.present": True,
    "l1.next_line.trigger": 3,
    "l1.next_line.trained_by": ["load"],
    "l1.next_line.streams": 8,
    "l1.stride.present": True,
    "l1.stride.trained_by": ["load"],
    "l1.stride.indexed_by": "ip",
    "l1.stride.degree": 1,
    "l1.stride.directions": "both",
    "l1.stride.max_stride": 2048,
    "l1.stride.streams": 8,
    "l2.pair.present": True,
    "l2.stream.present": True,
    "l2.stream.trigger": 5,
    "l2.stream.trigger_by_l1_prefetcher": 1,
    "l2.stream.trained_by": ["load", "store", "prefetch"],
    "l2.stream.degree": 2,
    "l2.stream.max_distance": 20,
    "l2.stream.directions": "both",
    "l2.stream.streams": 32,
    "l2.stream.streams_per_page": 2,
    **{f"{name}.crosses_4k": False for name in ("l1.next_line", "l1.stride", "l2.stream")},
}

FIGURE_7 = [0, 0, 2, 4, 7, 10, 13, 16, 15, 18, 17, 16, 15, 18, 17, 16]
"""Lines ahead of a run off the page's ends after each access: batches of 2, 3 and 4 lines, then 4 at a time."""


def surveyed(name: str) -> dict[str, Any]:
    """Findings by name without the prefix."""
    with closing(open_machine_file(small(name), 3)) as machine:
        found = list(SCENARIO.answer(Context(machine=machine, seed=3)))
    return {finding.parameter.removeprefix("prefetcher."): finding.value for finding in found}


def true(name: str) -> dict[str, Any]:
    return {finding.parameter.removeprefix("prefetcher."): finding.value for finding in truth(small(name))}


both = pytest.mark.parametrize("of", [true, surveyed])


@both
def test_xeon_phi_has_the_prefetcher_of_tables_iv_and_v(of: Callable[[str], dict[str, Any]]) -> None:
    reported = of("knc")
    assert {name: reported.get(name) for name in TABLES_IV_AND_V} == TABLES_IV_AND_V
    assert {name for name, value in reported.items() if name.endswith(".present") and value} == {"l2.stream.present"}
    assert reported["l2.stream.lead"] == FIGURE_7


@both
def test_sandy_bridge_has_the_prefetchers_of_table_vi(of: Callable[[str], dict[str, Any]]) -> None:
    reported = of("sandybridge")
    assert {name: reported.get(name) for name in TABLE_VI} == TABLE_VI
    present = {name.removesuffix(".present") for name, value in reported.items() if name.endswith(".present") and value}
    assert present == {"l1.next_line", "l1.stride", "l2.pair", "l2.stream"}

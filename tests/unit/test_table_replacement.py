"""Which entry a full table gives up, distinguished from which runs go on: against models of tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from setebench.scenarios.prefetcher_map.report import Report
from setebench.scenarios.prefetcher_map.tables import (
    BITS,
    History,
    others_first,
    replacement,
    report_replacement,
)

from setebench.experiments.visits import LAYOUT, instruction
from setebench.results import Outcome

LOW, MOST_PAGES = 1 << BITS.distinct, LAYOUT.block_pages - 2

Victim = Callable[[list[int], dict[int, int]], int]
"""From the runs in the table, oldest first, and when each was used last, to the one that is given up."""


def oldest(table: list[int], _used: dict[int, int]) -> int:
    return table[0]


def least_recent(table: list[int], used: dict[int, int]) -> int:
    return min(table, key=lambda run: used[run])


def most_recent(table: list[int], used: dict[int, int]) -> int:
    return max(table, key=lambda run: used[run])


def at_random(table: list[int], _used: dict[int, int]) -> int:
    return int(np.random.default_rng(len(_used)).choice(table))


def table_of(size: int, victim: Victim, *, notices_use: bool = True) -> Callable[[History], bool | None]:
    """A table that goes through a history: whether it still has the run that is asked for."""

    def goes_on(history: History) -> bool:
        table: list[int] = []
        used: dict[int, int] = {}
        for now, run in enumerate([*range(history.entries), *(-1 - run for run in range(history.again))]):
            if run < 0:
                used[-1 - run] = now if notices_use else used[-1 - run]
                continue
            table.append(run)
            used[run] = now
        for run in range(history.entries, history.entries + history.new):
            if len(table) == size:
                table.remove(victim(table, used))
            table.append(run)
            used[run] = 1000 + run
        return history.asked in table and (history.asked >= history.again or notices_use)

    return goes_on


@pytest.mark.parametrize("size", [2, 3, 4, 8, 14, 32])
@pytest.mark.parametrize(("victim", "name"), [(least_recent, "lru"), (oldest, "fifo")])
def test_the_two_rules_are_reported(size: int, victim: Victim, name: str) -> None:
    assert replacement(table_of(size, victim), size, MOST_PAGES) == name


@pytest.mark.parametrize("victim", [most_recent, at_random])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_another_rule_is_neither(size: int, victim: Victim) -> None:
    assert replacement(table_of(size, victim), size, MOST_PAGES) is None


def test_uses_that_the_table_does_not_notice_make_it_no_queue() -> None:
    assert replacement(table_of(8, least_recent, notices_use=False), 8, MOST_PAGES) is None


def test_a_larger_table_than_was_reported_is_neither() -> None:
    assert replacement(table_of(12, oldest), 8, MOST_PAGES) is None
    assert replacement(table_of(12, least_recent), 8, MOST_PAGES) is None


def test_what_stays_unclear_and_what_has_no_room_is_not_reported() -> None:
    assert replacement(lambda history: None, 8, MOST_PAGES) is None
    assert replacement(table_of(8, oldest), 8, 9) is None


@pytest.mark.parametrize(
    ("entries", "reason"), [(None, "how many runs the table holds is not known"), (1, "a table of one run")]
)
def test_a_table_of_no_known_size_or_of_one_has_no_rule(entries: int | None, reason: str) -> None:
    reported = Report("l1.stride")
    report_replacement(table_of(4, oldest), entries, reported, MOST_PAGES)
    (finding,) = reported.findings
    assert finding.outcome is Outcome.UNRESOLVED
    assert finding.reason is not None
    assert finding.reason.startswith(reason)


@pytest.mark.parametrize("runs", [1, 8, 17, 60, 62])
def test_other_instructions_fill_any_table_and_are_none_of_the_runs(runs: int) -> None:
    """A few runs too: a larger table would keep what the same instructions did before."""
    others = others_first(runs, 192)
    addresses = {access.ip for access in others if access.ip is not None}
    assert len(addresses) == len(others) >= 64
    free = LOW - len({instruction(run) % LOW for run in range(runs)})
    assert len({ip % (4 * LOW) for ip in addresses}) == min(64, 4 * free)  # to a table that goes by eight bits
    assert min(np.diff(sorted(addresses))) >= 2 * LOW  # no two instructions overlap
    own = [instruction(run) for run in range(runs)]
    assert not {ip % LOW for ip in addresses} & {ip % LOW for ip in own}
    # as far apart as accesses that a person's CPU runs: one of them takes up to 64 bytes
    assert min(np.diff(sorted([*own, *addresses, LAYOUT.unwatch_ip]))) >= 64
    assert {access.page for access in others} == set(range(runs + 1, runs + 65))
    assert max(access.page for access in others) < LAYOUT.block_pages

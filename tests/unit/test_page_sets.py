"""What groups of whole pages tell of a cache's ways."""

from __future__ import annotations

import pytest

from setebench.infer.page_sets import AGREEING, CLEAR_LINES, LEFT_LINES, Group, same_ways


def test_one_page_less_than_a_group_is_what_sets_hold() -> None:
    assert same_ways([Group(9, 80.0, 5.0)] * AGREEING) == 8


@pytest.mark.parametrize("sizes", [(9,), (9, 9), (9, 9, 8), (9, 10, 9)])
def test_too_few_groups_or_different_ones_tell_nothing(sizes: tuple[int, ...]) -> None:
    assert same_ways([Group(pages, 80.0, 5.0) for pages in sizes]) is None


@pytest.mark.parametrize(
    ("missing", "left", "clear"),
    [
        (CLEAR_LINES + 1, LEFT_LINES - 1, True),
        (CLEAR_LINES - 1, LEFT_LINES - 1, False),  # some of the sets only
        (CLEAR_LINES + 1, LEFT_LINES + 1, False),  # one page less is too many too, somewhere
    ],
)
def test_a_group_is_clear_where_every_page_of_it_is_needed(missing: float, left: float, clear: bool) -> None:
    assert Group(9, missing, left).clear is clear


def test_a_page_beside_another_is_no_group() -> None:
    assert not Group(2, 80.0, 0.0).clear

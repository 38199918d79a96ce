"""What a page in use tells of inclusion while others of its sets pass."""

from __future__ import annotations

import pytest

from setebench.infer.page_inclusion import InUse, included


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        ([InUse(48.0, 130.0, 0.0)] * 3, True),
        ([InUse(9.0, 70.0, 0.5)] * 2, True),
        ([InUse(48.0, 130.0, 0.0)], None),  # one group alone
        ([InUse(0.0, 0.0, 0.0)] * 2, None),  # groups that may be one page too small
        ([InUse(-40.0, -60.0, 0.0)] * 3, None),  # somebody else beside the control
        ([InUse(0.0, 0.0, 0.0, 40.0)] * 3, None),  # the others don't even find room beside a page of other sets
        ([InUse(0.1, 0.5, 0.0)] * 3, False),  # the page is gone from the outer cache, all others have room
        ([InUse(0.0, 9.0, 0.0)] * 3, False),  # replacement at random moves lines about
        ([InUse(0.1, 64.0, 0.0)] * 3, None),  # the outer cache spares what is in use
        ([InUse(48.0, 130.0, 0.0), InUse(0.0, 0.0, 0.0)], None),  # groups that contradict each other
        ([InUse(60.0, 130.0, 8.0)] * 3, None),  # the inner cache gives it up by itself
        ([], None),
    ],
)
def test_a_page_in_use_tells_inclusion(found: list[InUse], answer: bool | None) -> None:
    told, reason = included(found)
    assert told is answer
    assert bool(reason) is (answer is None)

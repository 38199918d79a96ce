"""Where the lines of a burst lie, which decides what may limit it."""

from __future__ import annotations

import numpy as np
from quiet_machines import HUGE, LINE, quiet

from setebench.experiments.bursts.bursts import Bursts
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.scenario import Context


def test_any_part_of_a_burst_has_as_many_odd_as_even_lines_each_in_a_page_of_its_own() -> None:
    """A core that keeps the miss entries of odd and of even lines apart showed half of them to bursts on even lines:
    8 of 16, in the time of each kind of request."""
    machine = quiet()
    bursts = Bursts(Context(machine=machine), machine.allocate(HUGE, HUGE), np.random.default_rng(3))
    for count in (1, 2, 15, 16, 100):
        place = bursts.spread(count)
        targets = np.array(place.targets)
        assert np.abs(np.cumsum(1 - 2 * (targets // LINE % 2))).max() <= 1
        assert len(set(targets // TLB_PAGE_BYTES)) == count
        assert set(np.abs(np.array(place.beside) - targets)) == {LINE}

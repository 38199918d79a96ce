"""Misses in flight on this CPU: time that grows with them.

How many there are at most is no test of this CPU: on some cores the limit itself moves by a few entries from one
minute to the next. `tests/sim/test_burst_lines.py` holds the search against limits that are known.
"""

from __future__ import annotations

import numpy as np

from setebench.experiments.bursts.bursts import Bursts
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.scenario import Context
from setebench.stats.jump import calm_level


def test_more_misses_take_longer(native: NativeMachine, region: Region) -> None:
    bursts = Bursts(Context(machine=native), region, np.random.default_rng(1))
    times = {count: [bursts.loads(count) for _ in range(12)] for count in (1, 64, 256)}
    one, many, most = (calm_level(np.stack(own)) for own in times.values())
    assert one < many < most
    assert many < 0.7 * 64 * one  # and overlap

"""Misses in flight on this CPU: a number that any CPU may have, or an honest outcome; and time that grows with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from native_fixture import setebench

from setebench.core.native import NativeMachine
from setebench.infer.steps import calm_level
from setebench.machine import Region
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.store import load
from setebench.volley import Volleys


def test_the_limit_of_loads_is_plausible_or_not_told(tmp_path: Path) -> None:
    result = setebench("mshr", "--level", "L2", "--format", "json", "--quiet", "-o", str(tmp_path / "mshr.json"))
    assert result.returncode == 0, result.stderr
    told = {finding.parameter: finding for finding in load(tmp_path / "mshr.json").findings}["mshr.l2.demand"]
    if told.outcome is Outcome.MEASURED:
        assert told.low is not None and told.high is not None and isinstance(told.value, int | float)
        assert 4 <= told.low <= told.value <= told.high <= 512
    else:
        assert told.outcome in (Outcome.AT_LEAST, Outcome.UNRESOLVED) and told.reason


def test_more_misses_take_longer(native: NativeMachine, region: Region) -> None:
    volleys = Volleys(Context(machine=native), region, np.random.default_rng(1))
    times = {count: [volleys.loads(count) for _ in range(12)] for count in (1, 64, 256)}
    one, many, most = (calm_level(np.stack(own)) for own in times.values())
    assert one < many < most
    assert many < 0.7 * 64 * one  # and overlap

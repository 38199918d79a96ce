"""Everything asked of this CPU once, end to end, and held against absolute sense: cycles that a core can have."""

from __future__ import annotations

import math
import re
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from native_fixture import LINE, command

from setebench.campaign import steps_of
from setebench.native.machine import NativeMachine
from setebench.probe import Probe
from setebench.registry import catalogue
from setebench.results import Document, Outcome
from setebench.store import load

pytestmark = pytest.mark.long(60)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Document:
    path = tmp_path_factory.mktemp("characterize") / "all.json"
    asked = ["characterize", "--fast", "--quiet", "--no-raw", "--no-msr", "-o", str(path)]
    done = command([sys.executable, "-m", "setebench", *asked], timeout=300)
    assert done.returncode == 0, done.stderr
    return load(path)


def test_every_question_is_answered_or_says_why_not(found: Document) -> None:
    steps = {step.scenario: step for step in steps_of(found)}
    assert {"latency", "hierarchy", "mshr", "software-prefetch", "prefetcher-map"} <= set(steps) <= set(catalogue())
    assert {name: step.reason for name, step in steps.items() if step.state != "done"} == {}
    assert all(step.reported for step in steps.values())
    for finding in found.findings:
        if finding.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
            assert finding.reason, finding.parameter
        elif finding.low is not None and finding.high is not None and isinstance(finding.value, int | float):
            assert finding.low <= finding.value <= finding.high, finding.parameter


def test_levels_are_in_order(found: Document) -> None:
    """Intervals, not values: what a noisy neighbour widened may overlap, but no level is surely faster than an inner
    one. Of levels that are known to be some."""
    reported = {each.parameter: each for each in found.findings if each.outcome is Outcome.MEASURED}
    levels = [level for level in ("l1", "l2", "l3", "memory") if f"latency.{level}" in reported]
    for way in ("", ".chase", ".sete"):
        names = [f"latency.{level}{way}" for level in levels]
        for inner, outer in pairwise(reported[name] for name in names if name in reported):
            assert inner.low is not None and outer.high is not None
            assert inner.low <= outer.high, (inner.parameter, outer.parameter)


def test_a_limit_of_loads_in_flight_is_one_that_a_core_can_have(found: Document) -> None:
    limits = [each for each in found.findings if re.fullmatch(r"mshr\.l\d\.demand", each.parameter)]
    assert limits
    for each in limits:
        if each.outcome is Outcome.MEASURED:
            assert each.low is not None and each.high is not None and isinstance(each.value, int | float)
            assert 4 <= each.low <= each.value <= each.high <= 512


def test_cycles_per_tick_agree_with_the_kernels_clock(native: NativeMachine, found: Document) -> None:
    """Dependent additions take one cycle each; how many pass in a second of the kernel's clock is the core's frequency.
    Others take the CPU now and then: the shortest of many runs, each far shorter than a time slice, counts."""
    short, long = Probe().start().add(1000).stop(), Probe().start().add(9000).stop()
    repetitions = {LINE: np.zeros(100, dtype=np.int64)}
    seconds, ticks = {short: math.inf, long: math.inf}, {short: math.inf, long: math.inf}
    for _ in range(200):
        for probe in (short, long):
            begun = time.perf_counter()
            taken = native.run(probe, repetitions)
            seconds[probe] = min(seconds[probe], time.perf_counter() - begun)
            ticks[probe] = min(ticks[probe], float(taken.mean()))
    by_kernel = 8000 * 100 / (seconds[long] - seconds[short])
    per_tick = 8000 / (ticks[long] - ticks[short])
    assert per_tick * native.facts.ticks_per_second == pytest.approx(by_kernel, rel=0.25)
    assert 5e8 < by_kernel < 1e10
    reported = found["clock.cycles_per_tick"]
    assert isinstance(reported.value, float) and reported.value == pytest.approx(per_tick, rel=0.25)

"""Reference work on this CPU: chained register additions take one cycle each, and no core shortens them."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.native.machine import NativeMachine
from setebench.probe import REFERENCE_CYCLES, Probe
from setebench.stats.pairs import Paired, located


def cycles(native: NativeMachine, *questions: Probe) -> list[float]:
    """Core cycles of each question in the samples of one run."""
    ticks = native.run(Probe().paired(*questions), 200, warmup=2)
    paired = Paired(ticks=ticks, step_ticks=native.step_ticks, reference_cycles=REFERENCE_CYCLES, accesses=64)
    return [located(paired, number) for number in range(len(questions))]


def repeated(native: NativeMachine, *questions: Probe) -> list[float]:
    """Medians of some runs: a neighbour may be there in one of them."""
    return [float(value) for value in np.nanmedian([cycles(native, *questions) for _ in range(5)], axis=0)]


def additions(count: int) -> Probe:
    return Probe().repeat(count // 100, Probe().add(100))


def test_twice_as_many_additions_take_twice_as_long(native: NativeMachine) -> None:
    some, twice = repeated(native, additions(3000), additions(6000))
    assert twice / some == pytest.approx(2.0, rel=0.01)
    assert some == pytest.approx(3000, rel=0.01)


def test_straight_and_looped_additions_agree(native: NativeMachine) -> None:
    looped, straight = repeated(native, additions(3000), Probe().add(3000))
    assert straight == pytest.approx(looped, rel=0.01)


def test_a_multiplication_that_needs_the_one_before_takes_a_whole_number_of_additions(native: NativeMachine) -> None:
    some, more = repeated(native, *(Probe().repeat(count // 100, Probe().multiply(100)) for count in (1000, 2000)))
    assert round(some / 1000) in (3, 4, 5)
    assert [some / 1000, more / 2000] == pytest.approx([round(some / 1000)] * 2, rel=0.01)

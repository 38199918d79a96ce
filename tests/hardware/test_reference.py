"""Reference work on this CPU: chained multiplications, each of a whole number of chained additions, of a cycle each."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.experiments.calibrate import reference
from setebench.experiments.paired import run_paired
from setebench.native.machine import NativeMachine
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.pairs import located


def repeated(native: NativeMachine, *questions: Probe) -> list[float]:
    """Core cycles of each question, medians of some runs: a neighbour may be there in one of them."""
    context = Context(machine=native)
    runs = [
        run_paired(context, Probe().paired(reference(context).work, *questions), 200, accesses=64) for _ in range(5)
    ]
    return [float(np.nanmedian([located(run, number) for run in runs])) for number in range(len(questions))]


def additions(count: int) -> Probe:
    return Probe().repeat(count // 100, Probe().add(100))


def test_twice_as_many_additions_take_twice_as_long(native: NativeMachine) -> None:
    some, twice = repeated(native, additions(3000), additions(6000))
    assert twice / some == pytest.approx(2.0, rel=0.02)
    assert some == pytest.approx(3000, rel=0.02)


def test_a_multiplication_that_needs_the_one_before_takes_a_whole_number_of_cycles(native: NativeMachine) -> None:
    each = reference(Context(machine=native)).cycles / 1000
    assert each in (3, 4, 5)
    (twice,) = repeated(native, Probe().repeat(20, Probe().multiply(100)))
    assert twice / 2000 == pytest.approx(each, rel=0.01)

"""Sweeps of working sets: what disturbs a point is taken off."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from setebench.stats.plateaus import rising


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40))
def test_rising_never_falls_and_stays_below(values: list[float]) -> None:
    given_values = np.array(values)
    smooth = rising(given_values)
    assert smooth.shape == given_values.shape
    assert (np.diff(smooth) >= -1e-9).all()
    assert (smooth <= given_values).all()
    assert smooth[-1] == given_values[-1]


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40))
def test_rising_leaves_alone_what_rises(values: list[float]) -> None:
    assert rising(np.sort(values)).tolist() == sorted(values)

"""Plateaus in synthetic sweeps whose hierarchy is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from setebench.stats.plateaus import plateaus, rising

KIB, MIB = 1024.0, 1024.0**2
HIERARCHIES = {
    "one": ([32 * KIB], [4.0, 300.0]),
    "two": ([32 * KIB, 1 * MIB], [4.0, 14.0, 350.0]),
    "three": ([32 * KIB, 512 * KIB, 16 * MIB], [4.0, 14.0, 50.0, 400.0]),
    "three, large and close": ([48 * KIB, 2 * MIB, 24 * MIB], [5.0, 15.0, 70.0, 280.0]),
}


def sweep(
    ends: list[float], cycles: list[float], blur_octaves: float, noise: float, seed: int = 0, largest: float = 128 * MIB
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes half an octave apart, and the cycles per load there: a level's share falls from 1 to 0 over
    `blur_octaves` around its end."""
    sizes = 4096 * 2 ** np.arange(0, np.log2(largest / 4096) + 0.01, 0.5)
    latency = np.full(len(sizes), cycles[0])
    for end, below, above in zip(ends, cycles, cycles[1:], strict=False):
        share = np.clip(np.log2(sizes / end) / max(blur_octaves, 0.01) + 0.5, 0, 1)
        latency += share * (above - below)
    rng = np.random.default_rng(seed)
    return sizes, latency * (1 + noise * rng.standard_normal(len(sizes)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("blur", [0.0, 1.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_every_level_is_found(name: str, blur: float, noise: float, seed: int) -> None:
    ends, cycles = HIERARCHIES[name]
    found = plateaus(*sweep(ends, cycles, blur, noise, seed))
    assert [each.cycles for each in found] == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize(
    ("blur", "largest", "levels", "rel"),
    [(2.0, 128 * MIB, 4, 0.15), (1.0, 8 * MIB, 3, 0.1)],
    ids=["a gradual transition is no level", "a sweep that ends inside the last cache shows no memory"],
)
def test_what_is_no_level(blur: float, largest: int, levels: int, rel: float) -> None:
    ends, cycles = HIERARCHIES["three"]
    found = plateaus(*sweep(ends, cycles, blur, 0.01, largest=largest))
    assert [each.cycles for each in found] == pytest.approx(cycles[:levels], rel=rel)


def test_a_flat_sweep_is_one_level() -> None:
    found = plateaus(*sweep([], [4.0], 0.0, 0.02))
    assert len(found) == 1
    assert found[0].middle_bytes == pytest.approx((4096 * 128 * MIB) ** 0.5)


def test_the_last_points_count_however_few_they_are() -> None:
    sizes, latency = sweep([64 * MIB], [14.0, 300.0], 0.0, 0.0)
    assert [each.cycles for each in plateaus(sizes, latency)] == [14.0, 300.0]


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

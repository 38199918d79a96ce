"""How many entries fit, from synthetic curves of known truth."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.capacity import capacity, twice


def stepped(at: int, height: float = 1.0, noise: float = 0.0, seed: int = 1):  # type: ignore[no-untyped-def]
    """A curve that is flat up to `at` and `height` above."""
    rng = np.random.default_rng(seed)
    return lambda n: float(height * (n > at) + noise * rng.standard_normal())


@pytest.mark.parametrize("at", [2, 3, 4, 8, 12, 13, 64, 72, 96, 255, 256])
def test_a_step_is_found_to_the_entry(at: int) -> None:
    found = capacity(stepped(at), 2, 400, 0.3)
    assert found is not None
    assert (found.fits, found.spills, found.exact) == (at, at + 1, True)


def test_a_ramp_is_found_where_it_begins() -> None:
    found = capacity(lambda n: max(0, n - 64) * 0.3, 2, 400, 0.2)
    assert found is not None
    assert found.fits == 64


def test_noise_below_the_threshold_moves_nothing() -> None:
    found = [capacity(stepped(72, noise=0.05, seed=seed), 2, 400, 0.3) for seed in range(40)]
    assert {each.fits for each in found if each is not None} == {72}


def test_without_a_step_all_that_was_tried_fits() -> None:
    found = capacity(lambda _n: 0.0, 2, 100, 0.3)
    assert found is not None
    assert (found.fits, found.spills, found.exact) == (100, None, False)


def test_a_start_that_does_not_fit_is_no_capacity() -> None:
    assert capacity(lambda _n: 1.0, 2, 100, 0.3) is None


def test_a_step_that_moves_between_measurements_is_not_exact() -> None:
    rng = np.random.default_rng(3)
    found = capacity(lambda n: float(n > 60 + rng.integers(0, 9)), 2, 400, 0.3)
    assert found is not None
    assert not found.exact
    assert found.fits < found.spills if found.spills else False


def test_twice_believes_the_lower_value() -> None:
    values = iter([5.0, 0.1, 0.0, 6.0, 7.0])
    lower = twice(lambda _n: next(values), 0.3)
    assert [lower(1), lower(1), lower(1)] == [0.1, 0.0, 6.0]

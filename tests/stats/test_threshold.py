"""Posteriors of a threshold: their bounds, and what several epochs say together."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.threshold import Posterior, over_epochs


def epoch(value: int, *, sure: float = 0.999, none: float = 0.0) -> Posterior:
    """A posterior over 1 to 40 with its probability at one number."""
    probability = np.full(40, (1 - sure) / 39)
    probability[value - 1] = sure
    return Posterior(numbers=np.arange(1, 41), probability=probability * (1 - none), none=none)


@pytest.mark.parametrize(
    ("values", "value", "decided"),
    [
        ((20, 20, 20), 20, True),
        ((20, 20, 18), 20, True),
        ((18, 20, 20), 20, True),
        ((20, 18, 18), 18, False),
        ((20, 18), 20, False),
        ((20,), 20, False),
    ],
)
def test_epochs_in_which_entries_are_taken_do_not_move_the_threshold(
    values: tuple[int, ...], value: int, decided: bool
) -> None:
    together = over_epochs([epoch(each) for each in values])
    assert (together.certainty > 0.95) is decided
    assert together.interval(0.95)[1] >= 20 and (not decided or together.value == value)


def test_an_epoch_without_any_threshold_leaves_one_that_others_show() -> None:
    together = over_epochs([epoch(20), epoch(20), epoch(20, none=1.0)])
    assert together.value == 20 and together.certainty > 0.9


def test_bounds_and_intervals_of_a_posterior() -> None:
    own = Posterior(numbers=np.array([4, 8, 16]), probability=np.array([0.01, 0.29, 0.7]))
    assert (own.value, own.interval(0.95), own.beyond) == (16, (8, 16), pytest.approx(0.7))

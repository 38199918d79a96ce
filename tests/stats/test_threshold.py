"""One search for thresholds, on answers made up from a known one: right numbers, honest intervals, few questions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from setebench.stats.threshold import Found, Posterior, SearchParams, Trials, over_epochs, search

BATCH = 16


def found(threshold: int, *, width: float, stray: float, lapse: float, seed: int) -> Found:
    """The search among 0 to 300 where so many fit, with batches of trials as `Trials` describes them."""
    rng = np.random.default_rng(seed)

    def ask(number: int) -> tuple[int, int]:
        behind = 1 - math.exp(-max(number - threshold, 0) / max(width * threshold, 1e-9))
        return int(rng.binomial(BATCH, stray + (1 - stray - lapse) * behind)), BATCH

    return search(ask, Trials(range(301)), SearchParams())


def thresholds(count: int) -> list[int]:
    """Spread over 1 to 256 as scales are."""
    return [int(math.exp(each)) for each in np.random.default_rng(1).uniform(0, math.log(256), count)]


@pytest.mark.parametrize(("stray", "lapse"), [(0.0, 0.0), (0.05, 0.05), (0.2, 0.1)])
def test_sharp_thresholds_are_found_in_few_questions(stray: float, lapse: float) -> None:
    every = {t: found(t, width=0.0, stray=stray, lapse=lapse, seed=t) for t in thresholds(15)}
    assert all(each.decided and each.posterior.value == t for t, each in every.items())
    assert np.mean([each.questions for each in every.values()]) < 12


def test_gradual_thresholds_are_right_or_inside_their_interval() -> None:
    """Of 15 intervals of 95 % three miss less than once in a thousand times."""
    inside = 0
    for t in thresholds(15):
        low, high = found(t, width=0.3, stray=0.03, lapse=0.03, seed=t).posterior.interval(0.95)
        inside += low <= t <= high
    assert inside >= 13


def test_a_limit_beyond_the_range_is_a_bound() -> None:
    rng = np.random.default_rng(3)
    ended = search(lambda _: (int(rng.binomial(BATCH, 0.05)), BATCH), Trials(range(65)), SearchParams())
    assert ended.decided and ended.posterior.beyond > 0.95 and ended.posterior.numbers[-1] == 64


def test_answers_that_do_not_depend_on_the_number_decide_nothing() -> None:
    rng = np.random.default_rng(4)
    ended = search(lambda _: (int(rng.binomial(BATCH, 0.5)), BATCH), Trials(range(65)), SearchParams(most=20))
    assert ended.posterior.certainty < 0.95 and ended.posterior.beyond < 0.95


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
    assert (own.value, own.at_least(0.95), own.interval(0.95), own.beyond) == (16, 8, (8, 16), pytest.approx(0.7))

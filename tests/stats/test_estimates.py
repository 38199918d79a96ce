"""Statistics on samples of known truth: coverage, choice between candidates."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.results import Outcome
from setebench.stats import decide
from setebench.stats.candidates import likeliest
from setebench.stats.estimate import Interval, over_epochs


@pytest.mark.parametrize("epochs", [4, 8])
def test_intervals_over_epochs_hold_the_truth_in_95_percent(epochs: int) -> None:
    """Measured: within three binomial errors of 95 % over 4,000 samples, not more often either."""
    rng = np.random.default_rng(epochs)
    samples = rng.normal(10.0, 2.0, (4000, epochs))
    held = np.mean([not over_epochs(sample).outside(10.0, 10.0) for sample in samples])
    assert abs(held - 0.95) < 3 * (0.95 * 0.05 / 4000) ** 0.5


def test_one_epoch_says_nothing_of_its_error() -> None:
    alone = over_epochs([3.0])
    assert alone.value == 3.0 and not alone.within(-1e9, 1e9)
    finding = decide.measured("latency.l1", alone, "cycles")
    assert finding.outcome is Outcome.UNRESOLVED and finding.value is None and finding.reason


@pytest.mark.parametrize("value", [1.0, 3.0, 9.0], ids=["below its ends", "between them", "above them"])
def test_an_interval_holds_its_number_whatever_its_ends_were_found_from(value: float) -> None:
    several = (
        decide.measured("latency.l2", Interval(value, 2.0, 4.0), "cycles"),
        decide.within(decide.at_least("cache.l3.size", value, "bytes", "others use it"), 2.0, 4.0),
    )
    for found in several:
        assert (found.low, found.value, found.high) == (min(value, 2.0), value, max(value, 4.0))


def test_the_candidate_that_made_the_data_is_found_at_any_scale() -> None:
    rng = np.random.default_rng(5)
    candidates = {"near": np.array([1.0, 1.0, 1.0]), "far": np.array([0.0, 1.0, 1.0])}
    errors = np.full(3, 0.05)
    for name, predicted in candidates.items():
        observed = 4.0 * predicted + rng.normal(0, errors)
        found = likeliest(observed, dict.fromkeys(candidates, errors), candidates, 100.0)
        assert list(found) == [name] and found[name] > 1e-4


def test_what_no_candidate_predicts_fits_none() -> None:
    candidates = {"near": np.array([1.0, 1.0, 1.0]), "far": np.array([0.0, 1.0, 1.0])}
    found = likeliest(np.array([0.0, 1.0, 3.0]), dict.fromkeys(candidates, np.full(3, 0.05)), candidates, np.inf)
    assert len(found) == 2 and max(found.values()) < 1e-6

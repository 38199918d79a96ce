"""The knee and the saturation of curves that are known."""

from __future__ import annotations

import pytest

from setebench.stats.saturation import Load, Params, knee_bandwidth, saturated

IDLE, PARAMS = 100.0, Params()


def queue(rate: float, peak: float) -> float:
    """Latency of a queue that saturates at `peak`."""
    return IDLE * (1 + 0.2 * rate / peak / (1.0001 - rate / peak))


def test_the_knee_of_a_queue_is_where_it_was_put() -> None:
    rates = [1.0 + n for n in range(39)]
    loads = [Load(4, 40 - n, rate, queue(rate, 40.0)) for n, rate in enumerate(rates)]
    found = knee_bandwidth(loads, IDLE, PARAMS)
    assert found is not None
    assert queue(found, 40.0) == pytest.approx(PARAMS.knee * IDLE, rel=0.05)


def test_one_point_that_was_disturbed_is_no_knee() -> None:
    loads = [Load(1, 9 - n, float(n), 100.0) for n in range(9)]
    loads[3] = Load(1, 6, 3.0, 400.0)
    assert knee_bandwidth(loads, IDLE, PARAMS) is None


def test_a_curve_that_is_high_from_the_start_shows_its_lowest_load() -> None:
    assert knee_bandwidth([Load(1, 0, 5.0, 300.0), Load(1, 9, 2.0, 200.0)], IDLE, PARAMS) == 2.0


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (Load(3, 0, 39.8, 300.0), Load(4, 0, 40.0, 380.0), True),
        (Load(3, 0, 30.0, 300.0), Load(4, 0, 40.0, 380.0), False),  # the last thread still brought something
        (Load(3, 0, 39.8, 110.0), Load(4, 0, 40.0, 120.0), False),  # nobody waits: the threads are the limit
        (Load(2, 0, 39.8, 300.0), Load(4, 0, 40.0, 380.0), False),  # not known what one thread more brings
        (Load(3, 8, 39.8, 300.0), Load(4, 0, 40.0, 380.0), False),  # another delay
    ],
)
def test_saturation_is_reported_only_where_it_was_seen(before: Load, after: Load, seen: bool) -> None:
    assert saturated([before, after], IDLE, PARAMS) is seen

"""What is asked before a number or a rule of a prefetcher is believed."""

from __future__ import annotations

import pytest
from setebench.scenarios.prefetcher_map.models import BATCH, NEW_LINE, Seen, StreamRule, fit_stream, next_line_lead
from setebench.scenarios.prefetcher_map.tables import size


@pytest.mark.parametrize(
    "followed",
    [
        lambda number: number <= 14 and number != 12,  # forgets now and then
        lambda number: number <= 14 or number == 17,
        lambda number: number <= 58,  # nothing could be asked beyond
        lambda number: True,
        lambda number: None if number == 7 else number <= 7,
    ],
)
def test_no_size_is_reported_where_an_edge_is_none(followed: object) -> None:
    assert size(followed, 60) is None


def test_a_table_holds_as_many_as_were_followed_up_to_a_plain_edge() -> None:
    assert size(lambda number: number <= 14, 60) == 14
    assert size(lambda number: number <= 14, 60, lambda number: number <= 14) == 14
    assert size(lambda number: number <= 14, 60, lambda number: None) is None
    assert size(lambda number: number <= 14, 60, lambda number: number <= 15) is None


RUN = tuple(range(4, 20))


def seen_of(rule: StreamRule, run: tuple[int, ...]) -> Seen:
    counts = {}
    for number, fetched in enumerate(rule.fetched(run, 64), 1):
        counts[number] = sum(line in fetched for line in range(run[number - 1] + 1, 64))
    return Seen(run, counts)


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("distance", [8, 12, 17])
@pytest.mark.parametrize("ramped", [False, True])
def test_a_stream_of_batches_is_found_by_how_far_ahead_it_was(degree: int, distance: int, ramped: bool) -> None:
    ramp = tuple(range(1, degree)) if ramped else ()
    rule = StreamRule(trigger=3, degree=degree, distance=distance, leads_by=BATCH, ramp=ramp)
    fit = fit_stream([seen_of(rule, RUN), seen_of(rule, (4, 5, 6, *[7] * 16))], 64, [3])
    assert fit.fits
    assert fit.values("degree") == [degree]
    assert distance in fit.values("distance")
    assert BATCH in fit.values("leads_by")
    assert max(abs(int(each) - distance) for each in fit.values("distance")) <= 1


def test_a_stream_that_never_reaches_its_limit_has_a_bound() -> None:
    """One line with each new line stays one line ahead, whatever its limit."""
    rule = StreamRule(trigger=3, degree=1, distance=12, leads_by=NEW_LINE)
    fit = fit_stream([seen_of(rule, RUN), seen_of(rule, (4, 5, 6, *[7] * 16))], 64, [3])
    assert fit.values("degree") == [1] and min(fit.values("distance")) == 1
    assert fit.lead(RUN, 64) == [0, 0, *[1] * 14]


def test_what_no_rule_explains_fits_none() -> None:
    counts = {number: number * number % 7 for number in range(1, 17)}
    assert not fit_stream([Seen(RUN, counts)], 64, [3]).fits


def test_next_lines_of_misses_alone_are_used_up_before_more_come() -> None:
    assert next_line_lead(3, True, 9) == [3, 2, 1, 0, 3, 2, 1, 0, 3]
    assert next_line_lead(3, False, 3) == [3, 3, 3]

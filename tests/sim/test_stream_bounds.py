"""What is reported of how far streams run ahead, whatever makes them fetch on."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quiet_machines import levels, quiet
from setebench.scenarios.prefetcher_map.found import Found
from setebench.scenarios.prefetcher_map.kinds.stream_report import report_reach
from setebench.scenarios.prefetcher_map.kinds.streams import Rules, find_l2_stream
from setebench.scenarios.prefetcher_map.lab import Lab
from setebench.scenarios.prefetcher_map.report import Report
from test_prefetcher_map import SHAPE, laboratory

from setebench.judge import Verdict, judge
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.truth.parameters import truth

pytestmark = pytest.mark.long(8)

STREAMERS = st.builds(
    spec.Streamer,
    level=st.just(2),
    trigger=st.integers(2, 4),
    degree=st.integers(1, 4),
    max_distance=st.integers(4, 24),
    leads_by=st.sampled_from(["batch", "new_line", "access"]),
)


def reach_of(lab: Lab) -> list[Finding]:
    """Degree and distance of the only prefetcher that there is."""
    for identity in ("l1.next_line", "l1.stream", "l2.next_line", "l2.up_down", "l2.pair"):
        lab.known.finds[identity] = Found(False)
    reported = Report("l2.stream")
    report_reach(Rules(lab, find_l2_stream(lab), False), reported)
    return list(reported)


@settings(max_examples=4, deadline=None)
@given(streamer=STREAMERS)
def test_neither_degree_nor_distance_is_wrong_by_any_rule_of_fetching_on(streamer: spec.Streamer) -> None:
    with closing(quiet(prefetchers=(streamer,), **SHAPE)) as machine:
        reported = reach_of(laboratory(machine))
    file = spec.Machine(name="quiet", levels=levels(**SHAPE), prefetchers=(streamer,))
    names = frozenset(finding.parameter for finding in reported)
    assert {name.rpartition(".")[2] for name in names} == {"degree", "max_distance", "leads_by", "lead"}
    true = [finding for finding in truth(file) if finding.parameter in names]
    assert [each for each in judge("quiet", reported, true, names) if each.verdict is Verdict.WRONG] == []


@settings(max_examples=2, deadline=None)
@given(degree=st.integers(2, 4), distance=st.integers(10, 20))
def test_a_limit_that_holds_back_batches_is_measured(degree: int, distance: int) -> None:
    streamer = spec.Streamer(level=2, trigger=3, degree=degree, max_distance=distance)
    with closing(quiet(prefetchers=(streamer,), **SHAPE)) as machine:
        reported = {finding.parameter: finding for finding in reach_of(laboratory(machine))}
    found = reported["prefetcher.l2.stream.max_distance"]
    assert (found.outcome, found.value) == ("measured", distance)

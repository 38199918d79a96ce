"""Prefetchers that fit no family: the nearest known kind stands for them in a twin."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from setebench.results import Finding, Outcome
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.truth import truth
from setebench.sim.truth_document import truth_document
from setebench.truth.twin import make_twin

KINDS = (
    spec.BestOffset(level=2, fills="l2"),
    spec.LocalDeltas(level=1, fills="l1", trained_by=("load", "store"), degree=8),
    spec.NextPage(level=1, fills="l1"),
    spec.LinePair(level=1, fills="l1"),
)


@pytest.mark.parametrize("prefetcher", KINDS, ids=lambda each: type(each).__name__)
def test_the_nearest_kind_is_taken(prefetcher: spec.AnyPrefetcher) -> None:
    machine = msgspec.structs.replace(load("plain"), prefetchers=(prefetcher,))
    twin = make_twin(truth_document(machine, "x", datetime(2026, 1, 1, tzinfo=UTC)))
    (found,) = twin.machine.prefetchers
    assert type(found) is type(prefetcher) and found.level == prefetcher.level and not twin.set_aside
    assert set(found.trained_by) == set(prefetcher.trained_by) - {"l1_prefetcher"}
    origin = twin.origins["prefetchers", 0, "kind" if ("prefetchers", 0, "kind") in twin.origins else "level"]
    assert origin.parameters


FAR = (
    spec.AccessMap(level=2, degree=4, max_stride=8),
    spec.SignaturePath(level=2, fills="l3", threshold_percent=50, trained_by=("load", "store")),
)


@pytest.mark.parametrize("prefetcher", FAR, ids=lambda each: type(each).__name__)
def test_one_that_is_far_from_its_defaults_does_what_was_described(prefetcher: spec.AnyPrefetcher) -> None:
    """Flags and words of its kind are looked for too, and where its lines land is no part of the kind."""
    machine = msgspec.structs.replace(load("plain"), prefetchers=(prefetcher,))
    twin = make_twin(truth_document(machine, "x", datetime(2026, 1, 1, tzinfo=UTC)))
    found = {each.parameter: each.value for each in truth(twin.machine)}
    described = [each for each in truth(machine) if each.parameter.startswith("prefetcher.")]
    assert {each.parameter: each.value for each in described if found[each.parameter] != each.value} == {}


def test_one_that_was_seen_but_not_described_is_left_out() -> None:
    document = truth_document(load("plain"), "x", datetime(2026, 1, 1, tzinfo=UTC))
    kept = [each for each in document.findings if not each.parameter.startswith("prefetcher.l2.other")]
    seen = [
        Finding(parameter="prefetcher.l2.other.present", value=True, unit="bool"),
        Finding(parameter="prefetcher.l2.other.patterns", unit="list", outcome=Outcome.UNRESOLVED, reason="noisy"),
    ]
    twin = make_twin(msgspec.structs.replace(document, findings=[*kept, *seen]))
    assert twin.machine.prefetchers == ()

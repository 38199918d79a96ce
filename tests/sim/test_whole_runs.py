"""Whole runs on a simulated machine: results agree with another run's, and can be inferred again."""

from __future__ import annotations

from functools import cache

from setebench import campaign
from setebench.compare import Agreement, compare
from setebench.results import Document


@cache
def _run(seed: int) -> Document:
    return campaign.characterize("sim:plain", only=["latency"], seed=seed, fast=True, raw=True)


def test_another_run_agrees() -> None:
    found = compare([_run(1), _run(2)], ["1", "2"])
    assert found.of(Agreement.DIFFERS) == []
    assert len(found.of(Agreement.SAME)) >= 10


def test_inference_is_repeated_without_the_machine() -> None:
    document = _run(1)
    assert campaign.infer(document).findings == document.findings

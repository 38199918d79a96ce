"""Whole runs on a simulated machine: results agree with another run's, and can be inferred again."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import pytest
from small_presets import small_file

from setebench import campaign
from setebench.compare import Agreement, compare
from setebench.experiments.levels import find_walks, working_memory
from setebench.machine import open_machine
from setebench.results import Document
from setebench.scenario import Context

pytestmark = pytest.mark.long(10)


@cache
def _run(seed: int) -> Document:
    return campaign.characterize(f"sim:{small_file('plain')}", only=["latency"], seed=seed, fast=True, raw=True)


def test_another_run_agrees() -> None:
    """Of two honest 95 % intervals 0.5 % are apart, so that one of some dozens may be, and hardly ever two."""
    found = compare([_run(1), _run(2)], ["1", "2"])
    assert len(found.of(Agreement.DIFFERS)) <= 1
    assert len(found.of(Agreement.SAME)) >= 10


def test_inference_is_repeated_without_the_machine() -> None:
    document = _run(1)
    assert campaign.infer(document).findings == document.findings


def test_levels_are_found_once() -> None:
    with closing(open_machine(f"sim:{small_file('plain')}")) as machine:
        first = Context(machine=machine, fast=True)
        region = working_memory(first)
        walks = find_walks(first, region)
    # the machine is closed by now, and any run on it would say so
    second = Context(machine=machine, fast=True, calibration=first.calibration)
    assert find_walks(second, region) == walks
    assert second.evidence["sweep"] == first.evidence["sweep"]

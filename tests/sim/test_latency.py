"""The latency scenario on presets after published machines: one with two levels and a slow clock, one with three, of
which the last is small."""

from __future__ import annotations

from functools import cache

import pytest
from asked import judged
from small_presets import small_file

from setebench import campaign
from setebench.compare import Agreement, compare
from setebench.judge import Judgement, Verdict
from setebench.results import Document

pytestmark = pytest.mark.long(20)


def latencies(machine: str) -> dict[str, Judgement]:
    return judged("latency", small_file(machine), "clock.", "latency.l", "latency.memory")


@pytest.mark.parametrize(
    ("machine", "levels"),
    [("knc", ("l1", "l2", "memory")), ("sandybridge", ("l1", "l2", "l3", "memory"))],
)
def test_levels_are_reported_right_and_nothing_wrong(machine: str, levels: tuple[str, ...]) -> None:
    """Also no third level on a machine that has two. Of vector loads nothing need be reported of the near levels, where
    the way into a vector register may take cycles; in memory it matters little."""
    found = latencies(machine)
    assert [each for each in found.values() if each.verdict is Verdict.WRONG] == []
    vectors = [name for name in found if ".vector" in name]
    assert len(vectors) >= 3
    far = [*(f"latency.{level}" for level in levels), *(name for name in vectors if "memory" in name)]
    assert {name: found[name].verdict for name in far} == dict.fromkeys(far, Verdict.RIGHT)
    asked = [each.covered for each in found.values() if each.covered is not None]
    assert len(asked) >= 6 and sum(asked) >= 0.85 * len(asked)


# -- whole runs on a simulated machine -------------------------------------------------------------------------------


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

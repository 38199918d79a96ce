"""The latency scenario on presets after published machines: one with two levels and a slow clock, one with three, of
which the last is small."""

from __future__ import annotations

import pytest
from asked import judged
from small_presets import small_file

from setebench.judge import Judgement, Verdict

pytestmark = pytest.mark.long(10)


def latencies(machine: str) -> dict[str, Judgement]:
    return judged("latency", small_file(machine), "clock.", "latency.l", "latency.memory")


@pytest.mark.parametrize(
    ("machine", "levels"),
    [("knc", ("l1", "l2", "memory")), ("sandybridge", ("l1", "l2", "l3", "memory"))],
)
def test_levels_are_reported_right(machine: str, levels: tuple[str, ...]) -> None:
    found = latencies(machine)
    assert {level: found[f"latency.{level}"].verdict for level in levels} == dict.fromkeys(levels, Verdict.RIGHT)


@pytest.mark.parametrize("machine", ["knc", "sandybridge"])
def test_vector_loads_are_reported_right_or_not_at_all(machine: str) -> None:
    """Of every size. Where the way into a vector register may take cycles, nothing need be reported of the near levels;
    in memory it matters little."""
    vectors = {name: judgement.verdict for name, judgement in latencies(machine).items() if ".vector" in name}
    assert len(vectors) >= 3
    assert Verdict.WRONG not in vectors.values()
    far = {name: verdict for name, verdict in vectors.items() if "memory" in name}
    assert far == dict.fromkeys(far, Verdict.RIGHT)


@pytest.mark.parametrize("machine", ["knc", "sandybridge"])
def test_nothing_is_reported_wrong(machine: str) -> None:
    """Also no third level on a machine that has two."""
    assert [j for j in latencies(machine).values() if j.verdict is Verdict.WRONG] == []


@pytest.mark.parametrize("machine", ["knc", "sandybridge"])
def test_intervals_hold_the_truth(machine: str) -> None:
    asked = [j.covered for j in latencies(machine).values() if j.covered is not None]
    assert len(asked) >= 6
    assert sum(asked) >= 0.85 * len(asked)

"""What a machine answered `setebench doctor --bundle` is inferred again: latencies that plain C has of the same CPU.

`emerald-rapids-guest.bundle` comes from a KVM guest on an Intel Emerald Rapids (family 6, model 207) whose two virtual
CPUs had two programs to run meanwhile. Plain C says 5.005 cycles of its first level and 15.98 of its second.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from setebench import session
from setebench.results import Finding, Outcome
from setebench.store import load

FILE = Path(__file__).with_name("emerald-rapids-guest.bundle")


@pytest.fixture(scope="module")
def inferred() -> dict[str, Finding]:
    document = load(FILE)
    assert document.machine.environment is not None
    return {finding.parameter: finding for finding in session.infer(document).findings}


@pytest.mark.parametrize(("level", "cycles", "error"), [("l1", 5.0, 0.1), ("l2", 16.0, 0.5)])
def test_near_levels_take_what_plain_c_says(
    inferred: dict[str, Finding], level: str, cycles: float, error: float
) -> None:
    found = inferred[f"latency.{level}"]
    assert found.outcome is Outcome.MEASURED
    assert found.value == pytest.approx(cycles, abs=error)
    assert found.low - 0.05 <= cycles <= found.high + 0.05


def test_the_last_level_and_memory_are_where_this_cpu_has_them(inferred: dict[str, Finding]) -> None:
    """No fourth cache; 85 to 105 cycles, and memory behind it."""
    assert 85.0 <= inferred["latency.l3"].value <= 105.0
    assert "latency.l4" not in inferred
    assert 90.0 <= inferred["latency.memory.ns"].value <= 140.0

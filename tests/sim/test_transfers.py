"""Reads of other cores' lines on simulated machines, against the cycles in their files."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import L1, L2, L3, MEMORY, quiet
from setebench.scenarios.hierarchy.cores import read_lines, transfer_findings

from setebench.calibration import Calibration, Levels
from setebench.results import Finding
from setebench.scenario import Context
from setebench.sim import spec

LEVELS = Levels(cycles={"l1": L1, "l2": L2, "l3": L3, "memory": MEMORY})


def reads(**shape: Any) -> dict[str, Finding]:
    """By the end of the parameter."""
    context = Context(machine=quiet(**shape), calibration=Calibration(levels=LEVELS))
    found = transfer_findings(context, [read_lines(context) for _ in range(3)])
    return {each.parameter.removeprefix("latency.core_to_core."): each for each in found}


def test_lines_cost_what_the_file_says_by_state() -> None:
    coherence = spec.Coherence(modified_cycles=95.0, exclusive_cycles=80.0, shared_cycles=85.0)
    for parameter, finding in reads(core=spec.Core(cores=3), coherence=coherence).items():
        wanted = {"modified": 95.0, "exclusive": 80.0, "shared": 85.0}[parameter.partition(".")[2]]
        assert finding.value == pytest.approx(wanted, abs=0.5), finding

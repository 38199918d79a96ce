"""Limits for single nodes from a comparison, and the ReFrame test that uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import absent, answer, number, put

from setebench import store
from setebench.fleet import comparison as limits
from setebench.fleet.comparison import compare
from setebench.report.fleet import FORMS


def fleet(folder: Path, seed: int = 1, nodes: int = 40) -> Path:
    """The comparison of a made fleet, as JSON."""
    rng = np.random.default_rng(seed)
    for node in range(nodes):
        own = rng.normal(0, 0.1)
        for run in range(3):
            findings = [
                number("latency.l2", 14 + own + rng.normal(0, 0.05), 0.01),
                number("offset", rng.normal(0, 1.0), 0.5),
                answer("mshr.l1.demand", 12),
                absent("p.present"),
            ]
            put(folder / f"in/n{node:02d}.run-{run}.json", findings)
    file = folder / "fleet.json"
    file.write_text(FORMS["json"](compare([folder / "in"])))
    return file


def test_limits_hold_other_healthy_nodes_and_no_sick_one(tmp_path: Path) -> None:
    """One run of each of 2,000 other nodes: none outside, as one of 3,200 would be on average at 5 % for the fleet."""
    usual = limits.read(fleet(tmp_path))
    l2 = usual["latency.l2"]
    rng = np.random.default_rng(5)
    others = 14 + rng.normal(0, 0.1, 2000) + rng.normal(0, 0.05, 2000)
    assert ((others > l2.low) & (others < l2.high)).mean() > 0.999
    assert l2.high < 15.0 and l2.low > 13.0
    assert usual["mshr.l1.demand"].centre == "12" and usual["p.present"].centre == "absent"


def test_what_lies_outside_is_said(tmp_path: Path) -> None:
    usual = limits.read(fleet(tmp_path))
    put(tmp_path / "ok.json", [number("latency.l2", 14.05), answer("mshr.l1.demand", 12), absent("p.present")])
    assert limits.outside(store.load(tmp_path / "ok.json"), usual) == []
    sick = [number("latency.l2", 15.5), answer("mshr.l1.demand", 11), answer("p.present", True), number("new", 1.0)]
    put(tmp_path / "sick.json", sick)
    lines = limits.outside(store.load(tmp_path / "sick.json"), usual)
    assert [line.split()[0] for line in lines] == ["latency.l2", "mshr.l1.demand", "p.present"]
    assert lines[1:] == ["mshr.l1.demand is 11 instead of 12", "p.present is true instead of absent"]


# -- ReFrame ----------------------------------------------------------------------------------------------------------

CHECK = """
import reframe as rfm
from setebench.integrations.reframe import SetebenchTest


@rfm.simple_test
class node_latency(SetebenchTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True
    fleet_file = "fleet.json"
    executable = {executable!r}
"""


def reframed(folder: Path, document: list[dict[str, Any]]) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and output of ReFrame on a test whose command copies that result."""
    put(folder / "answer.json", document)
    program = folder / "fake-setebench"
    program.write_text(f"#!/bin/sh\ncp {folder}/answer.json setebench.json\n")
    program.chmod(0o755)
    (folder / "check.py").write_text(CHECK.format(executable=str(program)))
    command = [sys.executable, "-c", "from reframe.frontend.cli import main; main()", "-c", str(folder / "check.py")]
    command += ["-r", "--prefix", str(folder / "out"), "--report-file", str(folder / "report.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    return ended.returncode, json.loads((folder / "report.json").read_text()), ended.stdout


@pytest.fixture
def checked(tmp_path: Path) -> Path:
    pytest.importorskip("reframe", reason="ReFrame is not installed")
    fleet(tmp_path)
    return tmp_path


HEALTHY = [number("latency.l2", 14.05), number("offset", 0.3), answer("mshr.l1.demand", 12), absent("p.present")]


def test_a_healthy_node_passes_with_performance_variables_and_a_sick_one_fails(checked: Path) -> None:
    status, report, output = reframed(checked, HEALTHY)
    text = json.dumps(report)
    assert status == 0 and "latency.l2" in text and "14.05" in text, output
    status, report, output = reframed(checked, [*HEALTHY[:2], answer("mshr.l1.demand", 11)])
    assert status != 0 and "mshr.l1.demand is 11 instead of 12" in output + json.dumps(report)

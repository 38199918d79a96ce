"""A demonstration of three phases on a simulated machine with a PMU: the diagnosis gives their known answers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import setebench.sim
from setebench import store
from setebench.cli.main import setebench as command_line
from setebench.diagnose.demonstration import INTERVALS, demonstrate
from setebench.diagnose.figures import Basis, Figures
from setebench.machine import open_machine

PRESETS = Path(setebench.sim.__file__).parent / "presets"


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("machine") / "counted.toml"
    path.write_text((PRESETS / "sandybridge.toml").read_text() + "\n[pmu]\n")
    return f"sim:{path}"


def test_each_phase_is_bound_by_what_it_is_made_of(counted: str) -> None:
    with closing(open_machine(counted)) as machine:
        timeline = demonstrate(machine)
    rows = timeline.intervals
    arithmetic, chase, stream = (
        Figures(rows[phase * INTERVALS : (phase + 1) * INTERVALS], Basis()) for phase in range(3)
    )
    assert arithmetic.value("productive") > 90  # type: ignore[operator]
    assert chase.value("memory_latency") > 80 and chase.value("memory_bandwidth") < 5  # type: ignore[operator]
    assert stream.value("memory_bandwidth") > 70  # type: ignore[operator]
    assert chase.value("load_miss_latency") == pytest.approx(200, rel=0.05)
    assert timeline.source == "simulated"


def test_the_command_says_that_counts_are_simulated_and_names_the_phase_that_waits(
    counted: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(command_line, ["diagnose", "--machine", counted, "--plot", str(tmp_path / "p.svg")])
    assert result.exit_code == 0, result.output
    assert "(simulated counts)" in result.stderr and "most of them in chase" in result.stderr
    assert "several chains" in result.stderr
    assert b"simulated" in (tmp_path / "p.svg").read_bytes()
    file = tmp_path / "d.json"
    assert CliRunner().invoke(command_line, ["diagnose", "--machine", counted, "-o", str(file)]).exit_code == 0
    assert store.load(file).machine.kind == "sim"

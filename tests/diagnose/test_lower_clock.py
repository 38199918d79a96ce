"""A lower clock tried on a recorded system: files of limits and energy that a program's run moves as it should."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from setebench.diagnose.lower_clock import ENERGY, TIME, tried
from setebench.errors import UnsupportedError
from setebench.native.clock_limits import Controls
from setebench.results import Outcome


@pytest.fixture
def system(tmp_path: Path) -> Path:
    for cpu in (0, 1):
        place = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        place.mkdir(parents=True)
        (place / "scaling_max_freq").write_text("2500000\n")
        (place / "cpuinfo_min_freq").write_text("1200000\n")
    package = tmp_path / "sys/class/powercap/intel-rapl:0"
    package.mkdir(parents=True)
    (package / "energy_uj").write_text("9000000\n")
    (package / "max_energy_range_uj").write_text("10000000\n")
    return tmp_path


def limit(system: Path) -> int:
    return int((system / "sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq").read_text())


def program(system: Path) -> object:
    """Takes 10 ms whatever the clock is, and 0.4 J, but 0.3 J at a lower one."""
    energy = system / "sys/class/powercap/intel-rapl:0/energy_uj"
    took = 400_000 if limit(system) == 2_500_000 else 300_000
    time.sleep(0.01)
    return energy.write_text(str((int(energy.read_text()) + took) % 10_000_000))


def test_a_program_that_waits_for_memory_takes_less_energy_and_no_more_time(system: Path) -> None:
    took, energy = tried(lambda: program(system), Controls(system), pairs=4)
    assert (
        took.parameter == TIME and took.low is not None and took.high is not None and took.low < 1.5 and took.high > 0.7
    )
    assert energy.parameter == ENERGY and energy.value == pytest.approx(0.75)
    assert limit(system) == 2_500_000


def test_energy_whose_counter_stands_still_is_no_ratio(system: Path) -> None:
    took, energy = tried(lambda: time.sleep(0.01), Controls(system), pairs=4)
    assert took.value is not None
    assert energy.outcome is Outcome.UNAVAILABLE and "stood still" in str(energy.reason)


def test_the_limit_is_restored_whatever_happens_and_is_never_below_the_lowest(system: Path) -> None:
    controls = Controls(system)
    with pytest.raises(ZeroDivisionError), controls.lowered(60):
        assert limit(system) == 1_500_000
        _ = 1 / 0
    assert limit(system) == 2_500_000
    with controls.lowered(10):
        assert limit(system) == 1_200_000


def test_where_either_is_missing_nothing_runs_and_the_reason_is_given(
    system: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (system / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    runs: list[int] = []
    for root in (system, tmp_path_factory.mktemp("guest")):
        for finding in tried(lambda: runs.append(1), Controls(root)):
            assert finding.outcome is Outcome.UNAVAILABLE and "can't be" in str(finding.reason)
    assert not runs
    with pytest.raises(UnsupportedError, match="cpufreq"):
        Controls(tmp_path_factory.mktemp("empty")).clocks()

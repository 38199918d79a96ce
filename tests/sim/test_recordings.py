"""Recordings: what a machine replays is what is recorded of it again; what is no recording is refused in a line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from setebench.errors import UsageError
from setebench.native.disturbance import record
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file

SECONDS = 0.012
BLOCKS = 1200  # of 10 us


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Twelve milliseconds: a tenth slower in every second one, when a co-runner shares the core; a gap of 6 us in every
    300 us; three quarters of the private lines are lost in a millisecond."""
    slow = np.arange(BLOCKS) // 100 % 2 == 1
    path = tmp_path / "drawn.npz"
    np.savez(
        path,
        block_us=10.0,
        pace_unit=0.002,
        pace=np.where(slow, 450, 500).astype(np.uint16),
        gap_unit_us=0.2,
        gap_after=np.full(BLOCKS * 10 // 300, 1500),
        gap_lasts=np.full(BLOCKS * 10 // 300, 30),
        shared_after=np.array([5000] + [10000] * 5),
        shared_lasts=np.full(6, 5000),
        lost=np.full(12, 0.75),
    )
    return path


def test_what_is_replayed_is_recorded_again(drawn: Path, tmp_path: Path) -> None:
    quiet = load("zen-like")
    clock = msgspec.structs.replace(quiet.clock, drift=0.0)
    noise = spec.Noise(recorded=str(drawn), co_runner_issue_share=0.4)
    (tmp_path / "own.toml").write_text(dump(msgspec.structs.replace(quiet, clock=clock, noise=noise)))
    found = record(open_machine_file(load(str(tmp_path / "own.toml")), 3), SECONDS)
    pace = found["pace"] / found["pace"].max()
    slow = np.abs(pace - 0.9) < 0.02
    assert 0.35 < slow.mean() < 0.65 and np.mean(slow | (pace > 0.98)) > 0.95
    time_us = len(pace) * found["block_us"]
    lasts = found["gap_lasts"] * found["gap_unit_us"]
    assert len(lasts) == pytest.approx(time_us / 300, rel=0.25) and np.median(lasts) == pytest.approx(6.0, abs=0.5)
    assert np.sum(found["shared_lasts"]) * found["gap_unit_us"] == pytest.approx(time_us / 2, rel=0.25)
    assert np.mean(found["lost"]) == pytest.approx(0.75, abs=0.12)
    assert np.median(found["last_level_bytes"]) == pytest.approx(quiet.levels[2].lines * 64, rel=0.3)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody-s", "no recording 'nobody-s'"), ("none.npz", "can't be read"), ("text.npz", "no recording of setebench")],
)
def test_what_is_no_recording_is_refused_in_a_line(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.npz").write_text("pace")
    own = msgspec.structs.replace(load("zen-like"), noise=spec.Noise(recorded=name))
    Path("own.toml").write_text(dump(own))
    with pytest.raises(UsageError, match=f"own.toml: noise.recorded: .*{message}") as refused:
        load("own.toml")
    assert "\n" not in str(refused.value)

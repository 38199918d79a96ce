"""Files that a user names are read only where they are files: no command waits for a pipe, or opens a device."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner
from documents import make_document

from setebench import store
from setebench.cli.main import setebench

LIMIT_SECONDS = 30


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError("a command waits for a file that is none")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


COMMANDS = (
    ("show", "FILE"),
    ("report", "FILE"),
    ("compare", "FILE", "FILE"),
    ("infer", "FILE"),
    ("twin", "FILE"),
    ("verify", "FILE"),
    ("verify", "GOOD", "--twin", "FILE"),
    ("characterize", "--resume", "FILE"),
    ("score", "--resume", "FILE"),
    ("sim", "truth", "FILE"),
    ("latency", "--machine", "sim:FILE"),
    ("advise-prefetch", "--machine", "sim:knc", "--result", "FILE"),
    ("advise-prefetch", "--machine", "sim:knc", "--result", "GOOD", "--describe", "FILE"),
    ("fleet", "compare", "FILE"),
    ("fleet", "run", "--hosts", "FILE", "-o", "out"),
)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_no_file_is_refused_in_one_line(
    command: tuple[str, ...], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "a.toml"
    if kind == "folder":
        target.mkdir()
    elif kind == "device":
        target.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe")
        target.symlink_to("pipe")
    store.save(make_document(), tmp_path / "good.json")
    given = [each.replace("FILE", str(target)).replace("GOOD", "good.json") for each in command]
    result = CliRunner().invoke(setebench, given)
    assert result.exit_code in (1, 2) and result.stdout == "", result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1 and "a.toml" in errors[0]


def test_a_fleet_is_compared_without_its_pipes(tmp_path: Path) -> None:
    for number in range(3):
        store.save(make_document(), tmp_path / f"n{number}.json")
    os.mkfifo(tmp_path / "n3.json")
    (tmp_path / "n4.json").symlink_to("/dev/zero")
    result = CliRunner().invoke(setebench, ["fleet", "compare", str(tmp_path)])
    assert "Traceback" not in result.output and "n3" in result.output and "n4" in result.output
    assert "regular file" in result.output

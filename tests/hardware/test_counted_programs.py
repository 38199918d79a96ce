"""Programs counted from outside by `setebench counters stat`: exact counts, and a program that notices nothing."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from counting_commands import STARTING, STAT, Ended, compile_marked, faults, skip_without_events, stat

from setebench.cli.main import setebench

pytestmark = pytest.mark.long(12)
NOBODY = 65534


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    skip_without_events()
    return compile_marked(tmp_path_factory.mktemp("marked"))


@pytest.fixture(scope="module", autouse=True)
def _events() -> None:
    skip_without_events()


# -- what is counted --------------------------------------------------------------------------------------------------


def test_threads_and_processes_that_are_born_later_are_counted(program: str) -> None:
    assert 3000 <= faults(program, "family").count("page_fault") < 3000 + 2 * STARTING


def test_intervals_add_up(program: str) -> None:
    events = ("-e", "page_fault,task_clock", "--format", "json")
    ended = stat(*events, "--interval", "20", "--", "sh", "-c", f"{program} touch=300; sleep 0.1; {program} touch=200")
    rows = ended.run["intervals"]
    assert len(rows) >= 4
    for name in ("page_fault", "task_clock"):
        assert sum(row["counts"][name]["value"] for row in rows) == ended.count(name)
    ends = [row["end_seconds"] for row in rows]
    assert [row["begin_seconds"] for row in rows] == [0.0, *ends[:-1]] and ends == sorted(ends)
    assert ends[-1] == ended.run["elapsed_seconds"]


def test_a_limit_ends_a_program() -> None:
    ended = stat("--duration", "0.2", "--format", "json", "--", "sleep", "30")
    assert ended.status == 0 and ended.run["signal"] == "SIGTERM" and ended.run["elapsed_seconds"] < 5


# -- the program notices nothing --------------------------------------------------------------------------------------


SURROUNDINGS = """
import os, sys
status = open("/proc/self/status").read().splitlines()
print(os.getcwd(), os.getpgrp(), os.getsid(0), sorted(os.listdir("/proc/self/fd")))
print([line for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt", "Threads"))])
print(sorted(name for name in os.environ if name != "SETEBENCH_REGIONS"))
"""


def test_surroundings_are_as_a_shell_would_make_them(tmp_path: Path) -> None:
    """Folder, process group, session, open files, signals and environment: as without us, in the same place."""
    command = [sys.executable, "-c", SURROUNDINGS]
    runs = [
        subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, start_new_session=False, timeout=60)
        for line in (command, [*STAT, "--", *command])
    ]
    assert runs[0].stdout == runs[1].stdout and runs[0].stdout


@pytest.mark.parametrize(
    ("script", "status", "killed", "shell"), [("exit 7", 7, None, 7), ("kill -9 $$", None, "SIGKILL", 137)]
)
def test_its_status_is_recorded_and_only_returned_on_request(
    script: str, status: int | None, killed: str | None, shell: int
) -> None:
    ended = stat("--child-status", "--format", "json", "--", "sh", "-c", script)
    assert (ended.status, ended.run["status"], ended.run["signal"]) == (shell, status, killed)


@pytest.mark.parametrize(("name", "status", "words"), [("no-such", 127, "not found"), ("/etc/passwd", 126, "executed")])
def test_what_can_not_be_started_is_one_line(name: str, status: int, words: str) -> None:
    ended = stat("--", name)
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1) and words in ended.err
    assert stat("--child-status", "--", name).status == status


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[str]]:
    """A program under way, in a session of its own so that signals reach whom they are sent to."""
    script = "trap 'echo got; exit 5' INT; echo ready; sleep 30 >&- 2>&- & wait"
    command = [*STAT, "--format", "json", "--", "sh", "-c", script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as running:
        assert running.stdout and running.stdout.readline() == "ready\n"
        yield running
        with suppress(ProcessLookupError):  # what the shell started
            os.killpg(running.pid, signal.SIGKILL)


def test_an_interrupt_sent_to_us_reaches_the_program_and_is_reported(sleeping: subprocess.Popen[str]) -> None:
    sleeping.send_signal(signal.SIGINT)
    out, err = sleeping.communicate(timeout=30)
    run = json.loads(err)["runs"][0]
    assert (sleeping.returncode, out) == (130, "got\n")
    assert (run["ended_by"], run["status"]) == ("SIGINT", 5)


def test_ctrl_c_on_a_terminal_reaches_the_program_once() -> None:
    script = "n=0; trap 'n=$((n+1))' INT; echo ready; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; echo n=$n"
    child, terminal = pty.fork()
    if child == 0:
        os.execv(STAT[0], [*STAT, "-e", "page_fault", "--", "sh", "-c", script])
    text = _read_until(terminal, "ready")
    os.write(terminal, b"\x03")
    text += _read_until(terminal, "page_fault")
    _read_until(terminal, None)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130 and "n=1" in text


def _read_until(terminal: int, word: str | None) -> str:
    text = ""
    while word is None or word not in text:
        try:
            text += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # how a terminal says that all programs on it have ended
            return text
    return text


# -- where the counts go ----------------------------------------------------------------------------------------------


def test_a_file_gets_the_counts_in_the_form_of_its_name(program: str, tmp_path: Path) -> None:
    target = tmp_path / "counts.json"
    ended = stat("-e", "page_fault,task_clock", "-o", str(target), "--", program, "touch=50", "regions")
    assert (ended.status, ended.err) == (0, "")
    (run,) = json.loads(target.read_text())["runs"]
    assert run["counts"]["page_fault"]["value"] >= 50 and run["counts"]["task_clock"]["value"] > 0
    assert all(each["counts"]["page_fault"]["value"] is not None for each in run["regions"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a program"),
        (("-e", "no_such_role", "--", "true"), "no_such_role"),
        (("-o", "x.md", "--", "true"), "names no form"),
        (("-e", "cpu/event=1", "--", "true"), "no event 'cpu'"),
        (("-e", ",", "--", "true"), "no event"),
    ],
)
def test_bad_use_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(setebench, ["counters", "stat", *arguments])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and words in result.stderr


# -- what can't be counted --------------------------------------------------------------------------------------------

ABSENT = "uncore_no_such_pmu/event=1/"


def test_what_can_not_be_counted_is_null_with_its_reason(program: str) -> None:
    ended = stat("-e", f"page_fault,{ABSENT}", "--format", "json", "--", program, "regions")
    assert ended.status == 0
    for counts in (ended.run["counts"], ended.run["regions"][0]["counts"]):
        assert counts[ABSENT]["value"] is None and "uncore_no_such_pmu" in counts[ABSENT]["reason"]
    table = stat("-e", f"page_fault,{ABSENT}", "--", "true").err
    assert f"{ABSENT}: the kernel shows no PMU" in table


def test_nothing_that_can_be_counted_is_one_line_and_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    ended = stat("-e", ABSENT, "--", "touch", str(mark))
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "can't be counted here" in ended.err and not mark.exists()


UNPRIVILEGED = """
import ctypes, os, sys
from setebench.cli.main import setebench
setebench(["counters", "stat", "-o", "/dev/null", "--format", "json", "--", "true"], standalone_mode=False)
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
os.environ["TMPDIR"] = "/tmp"
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: a process that changed its user may not be looked into otherwise
setebench(["counters", "stat", "--format", "json", "--", *sys.argv[1:]])
"""
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def _as_nobody(*command: str) -> Ended:
    """Modules are loaded before the user changes, who may have no right to read them."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; as this one the other tests run")
    line = [sys.executable, "-c", UNPRIVILEGED.format(nobody=NOBODY), *command]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=60)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_an_ordinary_user_counts_what_is_his() -> None:
    ended = _as_nobody("sh", "-c", "exec 2>&-; sleep 0.01; id -u")
    paranoid = int(PARANOID.read_text())
    if paranoid > 2:
        assert ended.status == 1 and ended.err.count("\n") == 1
        return
    assert (ended.status, ended.out) == (0, f"{NOBODY}\n"), ended.err
    assert ended.count("page_fault") > 0 and ended.count("task_clock") > 0
    switches = ended.run["counts"]["context_switch"]
    if paranoid == 2:
        assert switches["value"] is None and "perf_event_paranoid" in switches["reason"]
    else:
        assert switches["value"] > 0


def test_a_program_with_other_rights_is_refused_and_not_counted_as_zero(program: str) -> None:
    """The kernel takes events from it at its exec; as root it is a program like others."""
    place = Path("/tmp") / f"setebench-test-{os.getpid()}-set-user"
    shutil.copy(program, place)
    try:
        place.chmod(0o4755)
        if os.statvfs(place).f_flag & os.ST_NOSUID:
            pytest.skip("/tmp is mounted so that no program there gets other rights")
        ended = _as_nobody(str(place), "touch=100")
        assert ended.status == 1 and ended.err.count("\n") == 1
        assert "other rights" in ended.err or int(PARANOID.read_text()) > 2
        assert faults(str(place), "touch=100").count("page_fault") >= 100
    finally:
        place.unlink()

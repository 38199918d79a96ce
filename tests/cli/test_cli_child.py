"""A scenario that takes its process with it costs its own rows alone, and whoever ends a run ends all of it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from scenario_files import EARLY, FAILING, LATE, MACHINE, start, write_files

from setebench import store
from setebench.campaign import steps_of

ENDING = FAILING.replace('name="failing"', 'name="{name}"').replace("order=30", "order={order}")

NAMED = ("--machine", MACHINE)
CHOSEN = (*NAMED, "--only", "early", "--only", "late")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "mine", early=EARLY, late=LATE)


def write(folder: Path, name: str, what: str, order: int = 30) -> tuple[str, str]:
    """A scenario that reports one finding and then does `what`; the option that chooses it."""
    write_files(folder, **{name: ENDING.format(name=name, order=order, what=what)})
    return "--only", name


def states(file: Path) -> dict[str, str]:
    return {step.scenario: step.state for step in steps_of(store.load(file))}


@pytest.mark.parametrize("saved", [True, False])
def test_what_ends_the_process_costs_its_own_rows_alone(folder: Path, tmp_path: Path, saved: bool) -> None:
    raising = write(folder, "raising", "import sys; sys.exit(7)", order=20)
    faulting = write(folder, "faulting", "__import__('ctypes').string_at(0)", order=30)
    leaving = write(folder, "leaving", "__import__('os')._exit(0)", order=40)
    killed = write(folder, "killed", "__import__('os').kill(__import__('os').getpid(), 9)", order=45)
    target = ("-o", "out.json") if saved else ()
    process = start(folder, tmp_path, *CHOSEN, *raising, *faulting, *leaving, *killed, *target)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "clock.step" in printed and "mshr.l1.demand" in printed and "blocking.load" in printed
    for name, reason in (
        ("raising", "SystemExit: 7"),
        ("faulting", "it ended its process: SIGSEGV"),
        ("leaving", "it ended its process: exit status 0"),
        ("killed", "it ended its process: SIGKILL"),
    ):
        assert said.count(f"{name} failed: {reason}\n") == 1
        assert f"{name} failed, so blocking.* may be missing: {reason}\n" in printed
    assert said.count("[1/6] early") == said.count("early: ") == 1, "nothing is measured twice"
    if saved:
        found = states(tmp_path / "out.json")
        assert {name for name, state in found.items() if state == "done"} == {"early", "late"}
        assert store.load(tmp_path / "out.json").evidence["scenario.late"]["step_ticks"] is None, (
            "what was known went with it"
        )


WAIT = "print(__import__('os').getpid(), flush=True); __import__('time').sleep(60)"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_who_ends_a_run_ends_all_of_it(folder: Path, tmp_path: Path, ending: signal.Signals) -> None:
    process = start(folder, tmp_path, *CHOSEN, *write(folder, "waiting", WAIT), "-o", "out.json")
    assert process.stdout is not None
    measuring = int(process.stdout.readline())
    assert measuring != process.pid
    process.send_signal(ending)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if ending is signal.SIGINT else -ending) and "failed" not in said
    assert gone(measuring)
    assert states(tmp_path / "out.json") == {"early": "done", "waiting": "pending", "late": "pending"}
    assert list(tmp_path.glob(".setebench-*")) == []


def gone(process: int) -> bool:
    """Whether that process has ended, soon; one that nobody has waited for yet has."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False

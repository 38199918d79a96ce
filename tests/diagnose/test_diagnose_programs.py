"""`setebench diagnose` from outside, on the example programs of benchmarks/programs, whose answers are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from setebench import store
from setebench.diagnose import probing
from setebench.diagnose.run import observe_program
from setebench.host.tree import parse_cpu_list

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def built(name: str, folder: Path) -> str:
    program = folder / name
    if not program.exists():
        source = PROGRAMS / f"{name}.c"
        subprocess.run(["gcc", "-O2", "-g", "-Wall", "-Werror", "-pthread", "-o", program, source], check=True)
    return str(program)


def diagnose(*arguments: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "setebench", "diagnose", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **keywords)


def evidence(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["evidence"]["diagnose"]
    return found


def sampled(found: dict[str, Any]) -> None:
    """Skip where this system gives an ordinary user no samples of time: what is there is tested elsewhere."""
    if found["unsampled"]:
        pytest.skip(found["unsampled"])


def test_a_chase_spends_its_time_in_its_function_and_its_output_is_its_own(folder: Path) -> None:
    done = diagnose("-o", str(folder / "chase.json"), "--", built("pointer_chase", folder), "1000000", "32")
    assert done.returncode == 0 and done.stdout.startswith("1000000 steps") and done.stderr == ""
    found = evidence(folder / "chase.json")
    sampled(found)
    shares = {spot["function"]: spot["fraction"] for spot in found["functions"]}
    assert shares["chase"] == max(shares.values()) and sum(shares.values()) <= 1 + 1e-9
    assert "pointer_chase.c:" in next(spot for spot in found["functions"] if spot["function"] == "chase")["line"]
    seconds = sum(sum(column) for column in found["function_seconds"].values())
    assert seconds == pytest.approx(store.load(folder / "chase.json")["diagnose.cpu_time"].value, rel=0.25)


def test_input_output_and_status_are_the_programs(tmp_path: Path) -> None:
    script = "cat; echo problem >&2; exit 3"
    done = diagnose("-o", str(tmp_path / "d.json"), "--", "sh", "-c", script, input="typed\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "typed\n", "problem\n")
    assert evidence(tmp_path / "d.json")["ending"] == "exit status 3"
    assert diagnose("--child-status", "--", "sh", "-c", script, input="").returncode == 3
    killed = diagnose("--child-status", "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == 137 and "killed by signal 9" in killed.stderr


def test_latency_probed_beside_a_program_is_of_memory_and_leaves_it_all_cpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    monkeypatch.setattr(probing, "idle_core", lambda: cpus[-1])
    script = f"grep Cpus_allowed_list /proc/self/status > {tmp_path / 'cpus'}; sleep 0.5"
    with probing.LatencyProbe() as probe:
        observe_program(("sh", "-c", script), observers=(probe,))
    assert probe.idle_ns is not None and 20 < probe.idle_ns < 5000 and len(probe.points) > 2
    assert parse_cpu_list((tmp_path / "cpus").read_text().split()[1]) == tuple(cpus) == tuple(os.sched_getaffinity(0))


def test_roles_that_do_not_fit_at_once_are_counted_by_turns(folder: Path) -> None:
    """By the kernel's own events, which would fit: what rests counts nothing, and says why."""
    command = ("sh", "-c", "for i in 1 2 3 4 5 6 7; do sleep 0.1; done")
    roles, sets = ("task_clock", "page_fault", "context_switch"), (("page_fault",), ("context_switch",))
    timeline, _ = observe_program(command, roles=roles, sets=sets)
    rows = timeline.intervals[1:]
    for number, row in enumerate(rows):
        rests = ("context_switch", "page_fault")[number % 2]
        assert row.counts[rests].value is None and "other intervals" in row.counts[rests].reason
        assert row.counts["page_fault" if number % 2 == 0 else "context_switch"].value is not None
        assert row.counts["task_clock"].value is not None
    assert len(rows) >= 4

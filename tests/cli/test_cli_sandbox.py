"""Where the system refuses something: what doesn't need it works, and the rest says in one line what lacks."""

from __future__ import annotations

import json
import os

import pytest
from sandbox import error_of, refused, setebench

NO_CODE = ("code",)
PROBE = "load a ip=A ip_bits=0x5c0; start; load a+64; stop"


@pytest.mark.parametrize(
    "arguments", [("sim", "list"), ("sim", "show", "plain"), ("sim", "schema"), ("show-asm", PROBE)]
)
def test_what_runs_no_code_of_its_own_making_does_not_need_it(arguments: tuple[str, ...]) -> None:
    done, usual = setebench(refused(*NO_CODE), *arguments), setebench([], *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, usual.stdout, usual.stderr)
    assert len(done.stdout.splitlines()) > 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("latency", "--fast", "--machine", "sim:plain"),
        ("sim", "truth", "plain"),
        ("score", "--machines", "2", "--no-presets", "--scenario", "latency", "--workers", "2"),
    ],
)
def test_a_simulated_machine_that_may_not_run_says_so(arguments: tuple[str, ...]) -> None:
    line = error_of(setebench(refused(*NO_CODE), *arguments))
    assert "a simulated machine can't be run" in line and "deny_execmem" in line


def test_a_run_of_several_scenarios_ends_in_an_error_there_too() -> None:
    done = setebench(refused(*NO_CODE), "characterize", "--only", "hierarchy", "--machine", "sim:plain")
    assert done.returncode == 1, done.stderr
    assert "deny_execmem" in done.stderr and done.stderr.splitlines()[-1].startswith("Error: no scenario could be run")


def test_the_doctor_shows_that_code_is_refused() -> None:
    for front, status in ((refused(*NO_CODE), "bad"), ([], "good")):
        done = setebench(front, "doctor", "--format", "json")
        assert done.returncode == 0, done.stderr
        checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
        assert checks["machine code"]["status"] == status
        assert "latency" not in done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="linear algebra begins no threads on one CPU")
def test_linear_algebra_without_threads_is_said() -> None:
    done = setebench(["env", "OPENBLAS_NUM_THREADS=2", *refused("clone3")], "sim", "list")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: no thread can be begun")


def test_memory_that_a_simulated_machine_lacks_is_said() -> None:
    front = ["env", "OPENBLAS_NUM_THREADS=1", "sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh"]
    assert "too little memory" in error_of(setebench(front, "latency", "--fast", "-q", "--machine", "sim:plain"))


@pytest.mark.parametrize("command", ["latency", "characterize"])
def test_registers_are_opt_in_and_the_old_option_stays(command: str) -> None:
    told = setebench([], command, "--help").stdout
    assert "--msr" in told and "--no-msr" not in told
    for option in ("--msr", "--no-msr"):
        done = setebench([], command, option, "--machine", "nowhere")
        assert done.returncode == 2 and "unknown machine 'nowhere'" in done.stderr

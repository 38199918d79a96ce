"""The program as a process of its own: what it imports, and how pipes and full disks end it.

A package in a temporary folder brings scenarios and names a machine, as another program's would be installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bare_machine
import pytest

import setebench

PLUGIN = """
from setebench.results import Finding
from setebench.scenario import Scenario


def answer(context):
    for index in range(3000):
        yield Finding(parameter=f"latency.x{index}", value=index, unit="cycles")


MANY = Scenario(name="many", summary="Many findings.", answer=answer, parameters=("latency",))
"""
ENTRY_POINTS = """[setebench.scenarios]
many = plugin:MANY

[setebench.machines]
plug = bare_machine:BareMachine
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "plugin.py").write_text(PLUGIN)
    metadata = folder / "memory_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: memory-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    shared, checkout = Path(bare_machine.__file__).parent, Path(setebench.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, shared, checkout)))}


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "setebench", *arguments]


def run(environment: dict[str, str], *arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        program(*arguments), env=environment, text=True, capture_output="stdout" not in settings, timeout=60, **settings
    )


def test_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    asking = "from setebench.cli.main import setebench; setebench(['--help'], standalone_mode=False)"
    listing = f"import sys; {asking}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], env=environment, text=True, capture_output=True, check=True)
    *text, modules = done.stdout.splitlines()
    assert any("many" in line and "memory-plugin" in line for line in text)
    loaded = {module.partition(".")[0] for module in modules.split()}
    assert not loaded & {"numpy", "numba", "matplotlib", "rich", "msgspec", "plugin"}


def test_a_window_system_that_matplotlib_does_not_know_is_of_no_matter(environment: dict[str, str]) -> None:
    code = "from setebench.cli.output import quieten_matplotlib as quieten; quieten(); import matplotlib"
    subprocess.run([sys.executable, "-c", code], env={**environment, "MPLBACKEND": "nothing"}, check=True)


@pytest.mark.parametrize("what", ["ValueError('no\\nticks')", "SystemExit(0)", "GeneratorExit()"])
def test_what_another_authors_machine_raises_is_one_line(
    environment: dict[str, str], tmp_path: Path, what: str
) -> None:
    lines = "from bare_machine import BareMachine\nclass Odd(BareMachine):\n    def run(self, *_, **__):\n"
    (tmp_path / "odd.py").write_text(f"{lines}        raise {what}\n")
    path = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    done = run({**environment, "PYTHONPATH": path}, "latency", "--fast", "-q", "--machine", "odd:Odd")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert done.stderr.startswith(f"Error: {what.partition('(')[0]}") and "(odd.py:4)" in done.stderr


def test_a_reader_that_leaves_early_is_no_error_to_report(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        program("many", "--machine", "plug", "--format", "json"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [("many", "--machine", "plug"), ("many", "--help")])
def test_a_full_disk_behind_standard_output_is_one_line(environment: dict[str, str], words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(environment, *words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr == "Error: can't write to standard output: No space left on device\n"

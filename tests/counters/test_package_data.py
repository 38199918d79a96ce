"""What an installation has: the real setup.py builds the package into a folder, without its compiled parts (which take
a minute and hold no data), and what it left there is held against the source and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from setebench.native.perf.tables import load_tables
from setebench.registry import catalogue

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import runpy, sys
import Cython.Build
Cython.Build.cythonize = lambda modules, **options: []
folder = sys.argv[1]
sys.argv = ["setup.py", "-q", "egg_info", "--egg-base", folder, "build_py", "--build-lib", folder + "/lib"]
runpy.run_path("setup.py", run_name="__main__")
"""
USE = """
import json
import setebench
from setebench.native.perf.tables import load_tables
from setebench.registry import catalogue
print(json.dumps([setebench.__file__, sorted(load_tables()), sorted(catalogue())]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    done = subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "lib"


def files(folder: Path, *patterns: str) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for pattern in patterns
        for path in folder.rglob(pattern)
        if "__pycache__" not in path.parts
    }


def test_every_module_and_every_data_file_is_in_it(built: Path) -> None:
    kinds = ("*.py", "*.pyi", "*.toml", "*.j2", "*.npz", "py.typed", "include/*.h")
    missing = files(ROOT / "setebench", *kinds) - files(built / "setebench", *kinds)
    missing |= files(ROOT / "scenarios", *kinds) - files(built / "setebench/scenarios", *kinds)
    assert missing == set(), "package-data of pyproject.toml lacks these"


def test_the_built_package_finds_its_tables_and_scenarios(built: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(built)}
    command = [sys.executable, "-c", USE]
    done = subprocess.run(command, env=environment, cwd=built, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, tables, scenarios = json.loads(done.stdout)
    assert Path(place).is_relative_to(built)
    assert tables == sorted(load_tables())
    assert scenarios == sorted(catalogue())

"""An installation without its extras: what needs one says so in a line before it measures, the rest works."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("iced_x86", "jinja2", "matplotlib"))
from setebench.__main__ import main
main()
"""


def without_extras(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=400, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("without")
    assert without_extras(found, "sim", "truth", "plain", "-o", "result.json").returncode == 0
    return found


@pytest.mark.parametrize("arguments", [("show", "result.json"), ("counter-curves", "--help"), ("export", "--list")])
def test_most_needs_none(folder: Path, arguments: tuple[str, ...]) -> None:
    done = without_extras(folder, *arguments)
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (("show-asm", "load a"), "iced_x86", "asm"),
        (("report", "result.json"), "jinja2", "report"),
        (("characterize", "--machine", "sim:plain", "--report", "page.html"), "jinja2", "report"),
        (("latency", "--machine", "sim:plain", "--plot", "plot.svg"), "matplotlib", "report"),
    ],
)
def test_what_needs_one_names_it(folder: Path, arguments: tuple[str, ...], module: str, extra: str) -> None:
    done = without_extras(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {module} is not installed; pip install 'setebench[{extra}]' brings it\n"


def test_few_packages_are_needed_and_each_has_its_reason() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [each.partition(">=")[0] for each in needed]
    page = (ROOT / "docs/architecture.md").read_text()
    assert len(names) <= 7 and all(f"| `{name}` |" in page for name in names)

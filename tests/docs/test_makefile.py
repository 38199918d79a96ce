"""What `make` takes for a reason to install anew."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_an_installation_writes_nothing_that_makes_itself_look_old() -> None:
    """Every goal installed once more, as Cython's output lies beside its source and is newer than the installation."""
    generated = ROOT / "setebench/native/_engine.c"
    if not generated.exists():
        pytest.skip("the core was built elsewhere, and left no file of Cython's here")
    ended = subprocess.run(["make", "-pn", "clean"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    sources = re.findall(r"^SOURCES := (.*)$", ended.stdout, re.MULTILINE)
    assert len(sources) == 1, ended.stderr
    assert "setebench/native/_engine.pyx" in sources[0].split()
    assert str(generated.relative_to(ROOT)) not in sources[0].split()

"""Scores in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from setebench.score import seeds, stream


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log of sealed runs lies in the test's folder, which is the working one. Of what infers only the
    scenarios of the test are hashed: parsing all of it takes a second each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(stream, "CHECKOUT", tmp_path)
    own = tmp_path / "scenarios"
    monkeypatch.setattr(seeds, "_inference_files", lambda: ((path.name, path) for path in own.glob("*.py")))
    seeds.inference_hash.cache_clear()
    yield
    seeds.inference_hash.cache_clear()

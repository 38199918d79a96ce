"""Finding scenarios: from source text without importing it, and from entry points of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from setebench import registry
from setebench.errors import SetebenchError

GOOD = '''"""Docstring line.

More."""
from setebench.scenario import Scenario
SCENARIO = Scenario(name="good-one", summary="The declared summary.", answer=lambda context: [], parameters=())
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in the place of `setebench.scenarios`."""
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    monkeypatch.setattr(registry, "own_folder", lambda: tmp_path)
    registry.catalogue.cache_clear()
    yield tmp_path
    registry.catalogue.cache_clear()


def test_modules_with_a_scenario_are_listed_without_being_imported(folder: Path) -> None:
    (folder / "good_one.py").write_text(GOOD)
    (folder / "helper.py").write_text('"""No scenario."""\nfrom x import SCENARIO\n')
    (folder / "note.txt").write_text("SCENARIO = 1")
    summaries = {name: entry.summary for name, entry in registry.catalogue().items()}
    assert summaries == {"good-one": "The declared summary."}


def test_no_package_takes_a_name_of_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "good_one.py").write_text(GOOD)
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("good_one", "elsewhere:SCENARIO", group)])
    registry.catalogue.cache_clear()
    assert list(registry.catalogue()) == ["elsewhere.good-one", "good-one"]
    assert registry.catalogue()["good-one"].entry_point is None
    with pytest.raises(SetebenchError, match="'elsewhere' can't be loaded: ModuleNotFoundError"):
        registry.scenario("elsewhere.good-one")

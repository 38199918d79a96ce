"""Result files of many nodes, one after the other, each read for what a comparison needs and let go again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.results import Finding

NODE_SETTING = "node"
"""The name of a document's setting that says which node it is of; without it the file's name does."""

_RUN_SUFFIX = re.compile(r"[._-]?(?:run|r)[._-]?\d+\Z|(?<=.)\.\d+\Z", re.IGNORECASE)
_OWN_FILES = frozenset(("fleet.json", "plan.json", "recorded.json", "truth.json"))
"""Files of a fleet's folder that are no results."""


class Result(msgspec.Struct, frozen=True):
    """Of a result file of one run: what the findings say, and of whom, by which version and with which effort."""

    findings: list[Finding]
    tool: dict[str, Any] = {}
    settings: dict[str, Any] = {}

    def node(self, name: str) -> str:
        """The node that it names, else `name`."""
        named = self.settings.get(NODE_SETTING)
        return named if isinstance(named, str) and named else name

    @property
    def made_by(self) -> str:
        """The version, and whether it was fast."""
        return f"{self.tool.get('version', '')}{' --fast' if self.settings.get('fast') else ''}"


def files(paths: Iterable[str | Path]) -> dict[Path, str]:
    """Result files and the nodes that they are of by their names: of a folder all .json files in it and below.

    A file is of the folder in which it lies below the one that was named, else of its own name without what counts runs
    (n7.json, n7.run-2.json, n7/run-2.json: all of n7). Raises `UsageError` for what isn't there, or where there is
    none."""
    paths = list(paths)
    found: dict[Path, str] = {}
    for each in map(Path, paths):
        if each.is_dir():
            inside = sorted(path for path in each.rglob("*.json") if path.name not in _OWN_FILES)
            found |= {path: _node_name(path.relative_to(each), each.resolve().name) for path in inside}
        elif each.exists():
            found[each] = _node_name(Path(each.name), each.resolve().parent.name)
        else:
            raise UsageError(f"there is no {str(each)!r}")
    if not found:
        raise UsageError("there are no result files (.json) in " + ", ".join(repr(str(each)) for each in paths))
    return found


def _node_name(path: Path, folder: str) -> str:
    """Of a path below a folder: where it only counts runs (run-01.json, as `setebench repeat` writes), that folder."""
    if len(path.parts) > 1:
        return path.parts[0]
    return _RUN_SUFFIX.sub("", path.stem) or folder or path.stem

"""Result files of many nodes, one after the other, each read for what a comparison needs and let go again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.errors import UsageError

NODE_SETTING = "node"
"""The name of a document's setting that says which node it is of; without it the file's name does."""

_RUN_SUFFIX = re.compile(r"[._-]?(?:run|r)[._-]?\d+\Z|(?<=.)\.\d+\Z", re.IGNORECASE)
_OWN_FILES = frozenset(("fleet.json", "plan.json", "recorded.json", "truth.json"))
"""Files of a fleet's folder that are no results."""


class Reported(msgspec.Struct, frozen=True, gc=False):
    """What a finding says, without how it was found."""

    parameter: str
    outcome: str = "measured"
    value: Any = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class _Tool(msgspec.Struct, frozen=True):
    version: str = ""


class _Light(msgspec.Struct, frozen=True):
    findings: list[Reported]
    tool: _Tool = _Tool()
    settings: dict[str, Any] = {}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one node: its findings, and by which version and with which effort it was made."""

    node: str
    findings: list[Reported]
    made_by: str


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


def result(path: Path, name: str) -> Result:
    """A file's result, of the node `name` unless it names its own. Raises `UsageError` where it has none."""
    read = store.load_as(path, _Light)
    named = read.settings.get(NODE_SETTING)
    effort = " --fast" if read.settings.get("fast") else ""
    node = named if isinstance(named, str) and named else name
    return Result(node=node, findings=read.findings, made_by=f"{read.tool.version}{effort}")

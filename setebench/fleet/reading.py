"""Result files of many nodes, one after the other, each read for what a comparison needs and let go again; and names of
nodes, in the order of their numbers, and many of them in short, n[001-512], as Slurm writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.results import Finding
from setebench.text import ranges

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


# -- names of nodes ---------------------------------------------------------------------------------------------------


_NUMBERED = re.compile(r"([^\[\],]*?)(\d+)([^\d\[\],]*)")
_PIECES = re.compile(r"(\d+)")


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, numbers in them by value: n2 before n10."""
    return sorted(names, key=_sorting_key)


def _sorting_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """Pieces at odd places are numbers: so they are only compared with numbers."""
    pieces = _PIECES.split(name)
    return [(int(piece), "") if place % 2 else (0, piece) for place, piece in enumerate(pieces)], name


def folded(names: Iterable[str]) -> str:
    """All names in one line: those that differ in their last number alone, of one width, as ranges, n[001-003,007].io;
    `none` of none."""
    parts: dict[tuple[str, str, int], list[str]] = {}
    for name in dict.fromkeys(names):
        head, number, end = found.groups() if (found := _NUMBERED.fullmatch(name)) else (name, "", "")
        parts.setdefault((head, end, len(number)), []).append(number)
    texts = (
        f"{head}{numbers[0]}{end}" if len(numbers) == 1 else f"{head}[{ranges(map(int, numbers), width)}]{end}"
        for (head, end, width), numbers in parts.items()
    )
    return ",".join(in_order(texts)) or "none"

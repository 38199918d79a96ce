"""Files below a folder, as a recorded computer has them below /proc and /sys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from setebench.host.tree import Tree


def write_tree(root: Path, files: Mapping[str, str]) -> Tree:
    """Write the files, by path below `root`; returns the tree."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root)

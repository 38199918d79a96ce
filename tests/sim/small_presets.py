"""Shipped machines with a smaller third level: a sweep ends once it has outgrown that, in a fourth of the time."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from setebench.sim import spec
from setebench.sim.dump import dump
from setebench.sim.loader import load

SMALLER = 8
"""By so much: 1 MiB of `plain`, 2.5 MiB of `sandybridge`, 4 MiB of `zen-like`. Nothing else of the machine changes."""

_FOLDER = tempfile.TemporaryDirectory()


def small(name: str) -> spec.Machine:
    """A shipped machine; one that has no third level stays as it is."""
    file = load(name)
    *inner, last = file.levels
    return file if len(inner) < 2 else replace(file, levels=(*inner, replace(last, sets=last.sets // SMALLER)))


@cache
def small_file(name: str) -> str:
    """The path of a machine file that says the same, for what takes machines by name."""
    path = Path(_FOLDER.name) / f"{name}.toml"
    path.write_text(dump(small(name)), encoding="utf-8")
    return str(path)

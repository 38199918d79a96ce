"""Shipped machines with smaller outer levels: a sweep ends once it has outgrown them, in a fourth of the time."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load

SMALLER = 8
"""By so much: 1 MiB of `plain`, 2.5 MiB of `sandybridge`, 4 MiB of `zen-like`. Nothing else of the machine changes."""

_FOLDER = tempfile.TemporaryDirectory()


def small(name: str, second: int = 1, third: int = SMALLER) -> spec.Machine:
    """A shipped machine with so many times fewer sets in its second and third level; one that has no third level stays
    as it is."""
    file = load(name)
    if len(file.levels) < 3:
        return file
    sets = (level.sets // fewer for level, fewer in zip(file.levels, (1, second, third), strict=True))
    return replace(file, levels=tuple(replace(level, sets=own) for level, own in zip(file.levels, sets, strict=True)))


@cache
def small_file(name: str, second: int = 1, third: int = SMALLER) -> str:
    """The path of a machine file that says the same, for what takes machines by name."""
    path = Path(_FOLDER.name) / f"{name}-{second}-{third}.toml"
    path.write_text(dump(small(name, second, third)), encoding="utf-8")
    return str(path)

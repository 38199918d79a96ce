"""A small machine that twins are held against, and its file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load


def small() -> spec.Machine:
    """Sandy Bridge's rules with small outer caches, whose working sets take little time."""
    machine = load("sandybridge")
    first, second, third = machine.levels
    levels = (first, msgspec.structs.replace(second, sets=128), msgspec.structs.replace(third, sets=512, ways=8))
    return msgspec.structs.replace(machine, name="small", levels=levels)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine file that stands for the machine to be verified."""
    path = tmp_path_factory.mktemp("machine") / "small.toml"
    path.write_text(dump(small()))
    return path

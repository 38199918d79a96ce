"""The PMUs of recorded machines: small trees of our own making, shaped like what kernels show below /sys."""

from __future__ import annotations

from pathlib import Path

from setebench.host.processor import Processor, read_processor
from setebench.host.tree import Tree
from setebench.native.perf.messages import Pmu, read_pmus

FOLDER = Path(__file__).parents[1] / "fixtures" / "pmus"


def tree(machine: str) -> Tree:
    return Tree(FOLDER / machine)


def pmus(machine: str) -> dict[str, Pmu]:
    read = tree(machine)
    found = read_pmus(read)
    assert read.problems == []
    return found


def processor(machine: str) -> Processor:
    return read_processor(tree(machine))

"""Memory nodes from recorded topologies, and binding memory to one, with the system calls replaced."""

from __future__ import annotations

import ctypes
import errno
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bare_machine import BareMachine, facts_of

from setebench.errors import UnsupportedError, UsageError
from setebench.experiments.streams.choice import nodes_for
from setebench.experiments.streams.team import Team
from setebench.host.tree import Tree
from setebench.machine import BindsMemory, Facts, MemoryNode, Region
from setebench.native.numa import bind, memory_nodes, node_of
from setebench.scenario import Context

TWO_SOCKETS = {
    "online": "0-2",
    "has_memory": "0-2",
    "node0/cpulist": "0-3,8-11",
    "node0/distance": "10 21 17",
    "node1/cpulist": "4-7",
    "node1/distance": "21 10 28",
    "node2/cpulist": "",
    "node2/distance": "17 28 10",
}
"""Two sockets, and memory without CPUs (CXL)."""


def recorded(folder: Path, files: Mapping[str, str]) -> Tree:
    for name, text in files.items():
        path = folder / "sys/devices/system/node" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return Tree(folder)


def test_nodes_are_those_that_have_memory(tmp_path: Path) -> None:
    nodes = memory_nodes(recorded(tmp_path, TWO_SOCKETS))
    assert [(node.number, node.cpus) for node in nodes] == [(0, (0, 1, 2, 3, 8, 9, 10, 11)), (1, (4, 5, 6, 7)), (2, ())]
    assert nodes[1].distances == ((0, 21), (1, 10), (2, 28))


def facts(tmp_path: Path, **changed: str) -> Facts:
    nodes = memory_nodes(recorded(tmp_path, {**TWO_SOCKETS, **changed}))
    cpus = tuple(range(12))
    siblings = tuple((cpu,) for cpu in cpus)
    return facts_of("big", cpus=cpus, siblings=siblings, nodes=nodes, kernels=("store", "load"))


def test_the_farthest_node_is_remote(tmp_path: Path) -> None:
    known = facts(tmp_path)
    assert nodes_for(known, 9) == (0, 1)
    assert nodes_for(known, 5) == (1, 2)
    assert nodes_for(known, 99) is None


class Calls:
    """System calls that note what was asked for, and fail as reported."""

    def __init__(self, fails_with: int = 0, node: int = 0) -> None:
        self.fails_with, self.node = fails_with, node
        self.seen: list[tuple[int, tuple[Any, ...]]] = []

    def __call__(self, number: int, *arguments: Any) -> int:
        self.seen.append((number, arguments))
        ctypes.set_errno(self.fails_with)
        if number == 239 and not self.fails_with:
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int))[0] = self.node
        return -1 if self.fails_with else 0


def test_memory_is_bound_by_mbind() -> None:
    calls = Calls()
    bind(0x10000, 8192, 65, call=calls)
    ((number, (address, size, mode, mask, bits, flags)),) = calls.seen
    assert (number, address.value, size.value, mode, bits.value, flags) == (237, 0x10000, 8192, 2, 1024, 3)
    assert [word for word in mask][:3] == [0, 2, 0]


def test_where_a_page_lies_is_asked() -> None:
    assert node_of(0x10000, call=Calls(node=3)) == 3
    assert node_of(0x10000, call=Calls(errno.EPERM)) is None


def test_this_system_binds_or_says_why_not() -> None:
    memory = mmap.mmap(-1, 1 << 16)
    first = ctypes.c_char.from_buffer(memory)
    try:
        bind(ctypes.addressof(first), 1 << 16, 0)
    except (UnsupportedError, UsageError) as error:
        pytest.skip(str(error))
    memory[0] = 1
    assert node_of(ctypes.addressof(first)) in (0, None)


class Bound(BareMachine):
    """A machine of several nodes, whose regions are where they were bound."""

    def __init__(self, known: Facts) -> None:
        super().__init__()
        self.facts = known
        self.places: dict[int, int] = {}

    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        region = Region((len(self.places) + 1) << 32, size, page_size)
        self.places[region.address] = node
        return region

    def node_of(self, region: Region, offset: int) -> int | None:
        return self.places[region.address]

    def release(self, region: Region) -> None:
        del self.places[region.address]


def test_every_thread_has_memory_on_the_node_farthest_from_it(tmp_path: Path) -> None:
    machine = Bound(facts(tmp_path))
    assert isinstance(machine, BindsMemory)
    team = Team(Context(machine=machine), (9, 5), 1 << 20, remote=True)
    assert [machine.places[region.address] for region in team.regions] == [1, 2]
    team.close()
    assert machine.places == {}


def test_a_machine_of_one_node_has_no_remote_team() -> None:
    one = facts_of("small", cpus=(0,), siblings=((0,),), nodes=(MemoryNode(number=0, cpus=(0,)),))
    with pytest.raises(UnsupportedError, match="no memory further from CPU 0"):
        Team(Context(machine=Bound(one)), (0,), 1 << 20, remote=True)

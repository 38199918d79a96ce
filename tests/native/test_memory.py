"""Regions and memory nodes without a measurement: what the kernel is asked and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trees import write_tree

from setebench.calibration import Calibration
from setebench.errors import UnsupportedError
from setebench.host.tree import Tree
from setebench.native.memory import (
    HUGE_PAGE,
    SMALL_PAGE,
    available_bytes,
    backed_bytes,
    bind,
    map_region,
    memory_nodes,
)
from setebench.scenario import PAGE_BYTES, Context

SMAPS = """\
00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/dash-name 7f00-8f00
Size:                328 kB
AnonHugePages:         0 kB
VmFlags: rd ex mr mw me
7f2a40000000-7f2a40800000 rw-p 00000000 00:00 0
Size:               8192 kB
KernelPageSize:        4 kB
Rss:                8192 kB
AnonHugePages:      6144 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr mr mw me ac lo hg
7f2a40800000-7f2a40a00000 rw-p 00000000 00:00 0                          [anon: a name]
Size:               2048 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
7f2a80000000-7f2ac0000000 rw-p 00000000 00:0f 5                          /anon_hugepage (deleted)
KernelPageSize:  1048576 kB
Rss:                   0 kB
Private_Hugetlb: 1048576 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
AnonHugePages:         0 kB
"""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0x400000, {}),
        (0x7F2A407FFFFF, {4096: 2048 << 10, 2097152: 6144 << 10}),
        (0x7F2A40800000, {2097152: 2048 << 10}),
        (0x7F2A40A00000, {}),
        (0x7F2A80000000, {1 << 30: 1 << 30}),
    ],
)
def test_pages_are_read_of_the_mapping_that_holds_the_address(address: int, expected: dict[int, int]) -> None:
    assert backed_bytes(address, SMAPS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MemTotal: 9 kB\nMemFree: 7 kB\nMemAvailable:    2048 kB\n", 2 << 20),
        ("MemTotal: 9 kB\nMemFree:    1024 kB\nXMemAvailable: 1 kB\n", 1 << 20),
    ],
)
def test_available_memory(tmp_path: Path, text: str, expected: int) -> None:
    write_tree(tmp_path, {"proc/meminfo": text})
    assert available_bytes(tmp_path) == expected


def test_a_system_that_says_nothing_of_its_memory_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="mount /proc") as caught:
        available_bytes(tmp_path)
    assert "\n" not in str(caught.value)


LIMITS = (("536870912", 448 << 20), ("1048576", 0), ("max", 8 << 30), (str(1 << 40), 8 << 30))
"""A group's limit, and what its 72 MiB, of which 8 are page cache to be taken back, leave of that and of 8 GiB."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("limited", ["/pod/box", "/pod"])
@pytest.mark.parametrize(("limit", "expected"), LIMITS)
def test_what_all_processes_of_a_control_group_use_is_not_left(
    tmp_path: Path, version: int, limited: str, limit: str, expected: int
) -> None:
    """Also of a group around this process's own: the kernel kills any process of it, whoever took the last page."""
    mount = "sys/fs/cgroup" if version == 2 else "sys/fs/cgroup/memory"
    names = ("max", "current") if version == 2 else ("limit_in_bytes", "usage_in_bytes")
    cache = "inactive_file" if version == 2 else "inactive_file 1\ntotal_inactive_file"
    files = {
        "proc/meminfo": "MemAvailable:   8388608 kB\n",
        "proc/self/cgroup": "0::/pod/box\n" if version == 2 else "4:memory:/pod/box\n0::/\n",
        f"{mount}/pod/box/memory.{names[1]}": "1",
        f"{mount}{limited}/memory.{names[0]}": limit if version == 2 or limit != "max" else str((1 << 63) - 4096),
        f"{mount}{limited}/memory.{names[1]}": str(72 << 20),
        f"{mount}{limited}/memory.stat": f"anon 5\n{cache} {8 << 20}\nactive_file 3\n",
    }
    if version == 2:
        files["sys/fs/cgroup/cgroup.controllers"] = "cpu memory\n"
    write_tree(tmp_path, files)
    assert available_bytes(tmp_path) == expected


@pytest.mark.parametrize("page_size", [SMALL_PAGE, HUGE_PAGE])
def test_more_than_there_is(page_size: int) -> None:
    with pytest.raises(UnsupportedError, match=r"iB were wanted, but only .*iB of memory are available"):
        map_region(1 << 60, page_size, True)


@pytest.mark.parametrize("wanted", ["4k", "2m"])
def test_memory_lies_in_pages_of_the_size_that_is_wanted(wanted: str) -> None:
    machine: Any = SimpleNamespace(allocate=lambda size, page, populate: map_region(size, page, populate))
    context = Context(machine=machine, options={"page_size": wanted}, calibration=Calibration(line_bytes=64))
    try:
        region: Any = context.allocate(3 << 20, SMALL_PAGE)
    except UnsupportedError:
        pytest.skip("this system has no such pages")
    assert region.page_size == PAGE_BYTES[wanted]
    assert context.exact_pages(1, SMALL_PAGE).page_size == SMALL_PAGE
    assert context.evidence["pages"]["size"] == wanted and context.evidence["pages"]["shown_bytes"] >= 3 << 20
    region.backing = lambda: {SMALL_PAGE: 1 << 20, HUGE_PAGE: 1 << 20}
    with pytest.raises(UnsupportedError, match=f"not all memory lies in {wanted} pages"):
        context.placed(region)


# -- memory nodes from recorded topologies, and binding memory to one -----------------------------------------------


TWO_SOCKETS = {
    "has_memory": "0-2",
    "node0/cpulist": "0-3,8-11",
    "node1/cpulist": "4-7",
    "node2/cpulist": "",
}
"""Two sockets, and memory without CPUs (CXL)."""


def recorded(folder: Path, files: Mapping[str, str]) -> Tree:
    return write_tree(folder, {f"sys/devices/system/node/{name}": f"{text}\n" for name, text in files.items()})


def test_nodes_are_those_that_have_memory(tmp_path: Path) -> None:
    nodes = memory_nodes(recorded(tmp_path, TWO_SOCKETS))
    assert [(node.number, node.cpus) for node in nodes] == [(0, (0, 1, 2, 3, 8, 9, 10, 11)), (1, (4, 5, 6, 7)), (2, ())]


def test_memory_is_put_on_a_node_that_there_is_and_on_no_other() -> None:
    region = map_region(1 << 20, SMALL_PAGE, populate=True)
    assert not bind(region, 1000)
    if not any(bind(region, node.number) for node in memory_nodes(Tree(Path("/")))):
        pytest.skip("this system lets nobody choose nodes")
    assert region.backing()[SMALL_PAGE] >= 1 << 20

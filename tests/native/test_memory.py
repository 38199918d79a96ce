"""Regions without a measurement: what the kernel is asked and what its answers mean."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from setebench.errors import UnsupportedError, UsageError
from setebench.experiments.lines.layout import by_windows, lay
from setebench.native import memory
from setebench.native.memory import HUGE_PAGE, SMALL_PAGE, available_bytes, huge_backed_bytes, map_region

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
AnonHugePages:      2048 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
AnonHugePages:         0 kB
"""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0x400000, 0),
        (0x7F2A40000000, 6144 << 10),
        (0x7F2A407FFFFF, 6144 << 10),
        (0x7F2A40800000, 2048 << 10),
        (0x7F2A40A00000, 0),
        (0x1000, 0),
        (0xFFFFFFFFFF600000, 0),
    ],
)
def test_huge_pages_are_read_of_the_mapping_that_holds_the_address(address: int, expected: int) -> None:
    assert huge_backed_bytes(address, SMAPS) == expected


def test_this_processes_own_listing_can_be_read() -> None:
    with mmap.mmap(-1, 8192) as mapping:
        address = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
        listing = Path("/proc/self/smaps").read_text()
        assert huge_backed_bytes(address, listing) in range(0, 1 << 40, 4096)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", 2 << 20), ("MemTotal: 9 kB\n", 0), ("XMemAvailable: 1 kB\n", 0)],
)
def test_available_memory(tmp_path: Path, text: str, expected: int) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(text)
    assert available_bytes(tmp_path) == expected


def test_a_control_group_leaves_less(tmp_path: Path) -> None:
    """A container's limit counts where it is below what the whole system has, less what this process uses already."""
    group = tmp_path / "sys/fs/cgroup/box"
    for folder in (tmp_path / "proc/self", group):
        folder.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemAvailable:   8388608 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
    (tmp_path / "proc/self/status").write_text("Name:\tpython\nVmRSS:\t   65536 kB\n")
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    for limit, expected in (("536870912", 448 << 20), ("1048576", 0), ("max", 8 << 30), (str(1 << 40), 8 << 30)):
        (group / "memory.max").write_text(limit)
        assert available_bytes(tmp_path) == expected, limit


@pytest.mark.parametrize("page_size", [SMALL_PAGE, HUGE_PAGE])
def test_more_than_there_is(page_size: int) -> None:
    with pytest.raises(UnsupportedError, match=r"\d+ MiB were asked for, but only \d+ MiB of memory are available"):
        map_region(1 << 60, page_size, True)


def test_a_refused_mapping_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(memory.mmap, "mmap", refuse)
    for page_size in (SMALL_PAGE, HUGE_PAGE):
        with pytest.raises(UnsupportedError) as caught:
            map_region(1 << 20, page_size, True)
        assert "\n" not in str(caught.value)


def test_a_released_region_is_an_error() -> None:
    region = map_region(SMALL_PAGE, SMALL_PAGE, True)
    region.release()
    region.release()
    with pytest.raises(UsageError, match="released"):
        region.touch()
    with pytest.raises(UsageError, match="released"):
        region.link(np.array([region.address]))


def test_an_interrupt_that_holds_a_view_stays_an_interrupt() -> None:
    region = map_region(SMALL_PAGE, SMALL_PAGE, populate=False)

    def linking() -> None:
        words = region.numbers()
        words[0] = 1.0
        raise KeyboardInterrupt  # its frame, and with it the view, lives as long as the traceback

    with pytest.raises(KeyboardInterrupt):
        try:
            linking()
        finally:
            region.release()
    region.release()


@pytest.mark.parametrize("size", [64, 4096, 60_000, 300_000])
def test_linked_pointers_are_one_cycle(size: int) -> None:
    region = map_region(2 << 20, SMALL_PAGE, True)
    try:
        order = by_windows(lay(region, size, np.random.default_rng(1)), np.random.default_rng(2))
        region.link(order)
        words = region._own()[region._skip :].view(np.int64).copy()
        address, walked = int(order[0]), []
        for _ in range(len(order)):
            walked.append(address)
            address = int(words[(address - region.address) // 8])
        assert walked == order.tolist()
        assert address == order[0]
    finally:
        region.release()


def test_pages_are_there_before_use() -> None:
    region = map_region(64 * SMALL_PAGE, SMALL_PAGE, True)
    try:
        pagemap = Path("/proc/self/pagemap").open("rb", buffering=0)  # noqa: SIM115
        with pagemap:
            pagemap.seek(region.address // SMALL_PAGE * 8)
            entries = np.frombuffer(pagemap.read(8 * region.pages), dtype=np.uint64)
        assert (entries >> np.uint64(63) == 1).all()
    finally:
        region.release()

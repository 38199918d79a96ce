"""Memory to measure in: regions of chosen pages, touched, locked, and checked with the kernel."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError, UsageError
from setebench.host.environment import read_limits
from setebench.host.tree import Tree, parse_cpu_list
from setebench.machine import MemoryNode, Region
from setebench.text import GIBI, KIBI, MEBI, in_bytes

SMALL_PAGE = 4096
HUGE_PAGE = 2 * MEBI
_TRANSPARENT = "sys/kernel/mm/transparent_hugepage/enabled"
_MAP_HUGETLB = 0x40000
_MAP_PAGE_BITS = 26  # flags of mmap from this bit on: binary logarithm of the page size
_RESERVED = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"

_NODES = "sys/devices/system/node"
_MOST_NODES = 1024
_MBIND, _PREFERRED, _STRICT_AND_MOVE = 237, 1, 1 | 2  # x86-64's system call: the C library has no function for it

Granted = Literal["none", "hugetlb", "madvise"]
"""How 2 MiB pages were granted."""

_libc = ctypes.CDLL(None, use_errno=True)


class NativeRegion(Region):
    """A mapping of this process. `granted` says how its pages came."""

    def __init__(self, memory: mmap.mmap, size: int, page_size: int, granted: Granted) -> None:
        whole = np.frombuffer(memory, dtype=np.uint8)
        skip = -whole.ctypes.data % page_size
        super().__init__(whole.ctypes.data + skip, size, page_size)
        self._bytes: NDArray[np.uint8] | None = whole[skip : skip + size]
        self.granted = granted

    def touch(self) -> None:
        """Write to every page, so that each has memory of its own (a page only read may be the shared zero page), and
        keep the pages there as far as this process has the right to."""
        self._own()[::SMALL_PAGE] = 0
        _libc.mlock(ctypes.c_void_p(self.address), ctypes.c_size_t(self.size))

    def link(self, addresses: NDArray[np.int64]) -> None:
        """Write the address of the next line into each line, of the first into the last."""
        words = self._own().view(np.int64)
        offsets = addresses - self.address
        if ((offsets < 0) | (offsets >= self.size) | (offsets % 8 != 0)).any():
            raise UsageError("addresses to link must lie in the region, 8 bytes aligned")
        words[offsets // 8] = np.roll(addresses, -1)

    def backing(self) -> dict[int, int]:
        """See `setebench.machine.Region.backing`: what the kernel says in smaps."""
        return backed_bytes(self.address, Path("/proc/self/smaps").read_text())

    def numbers(self) -> NDArray[np.float64]:
        """The memory as numbers of 8 bytes, shape (size / 8,); a view, which should be gone before `release`."""
        return self._own().view(np.float64)

    def release(self) -> None:
        """Let go of it: it is unmapped once no view shows it any more. A second call does nothing."""
        self._bytes = None

    def _own(self) -> NDArray[np.uint8]:
        if self._bytes is None:
            raise UsageError("this region was released")
        return self._bytes


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that can be had without swapping, as the kernel estimates it, and within what the control groups of this
    process leave it: past their limit the kernel kills, and never says no before.

    Raises `UnsupportedError` where the kernel doesn't say."""
    tree = Tree(root)
    said = re.findall(r"^(MemAvailable|MemFree):\s+(\d+) kB", tree.text("proc/meminfo") or "", re.MULTILINE)
    if not said:
        raise UnsupportedError("how much memory is free isn't known: /proc/meminfo can't be read; mount /proc")
    left = read_limits(tree).memory_left_bytes
    available = int(min(said)[1]) * KIBI  # kernels before 3.14 have MemFree only
    return min(available, int(left)) if isinstance(left, float) else available


def map_region(size: int, page_size: int, populate: bool) -> NativeRegion:
    """A region of at least `size` bytes of zeros; see `Machine.allocate`.

    Raises `UsageError` for a page size this architecture hasn't, `UnsupportedError` where memory or pages lack."""
    if page_size not in (SMALL_PAGE, HUGE_PAGE, GIBI):
        raise UsageError(f"pages have 4096, 2097152 or 1073741824 bytes, not {page_size}")
    size = max(1, -(-size // page_size)) * page_size
    room = available_bytes()
    if page_size != GIBI and size > room:  # of giant pages only reserved ones count, and those are not available
        raise UnsupportedError(f"{in_bytes(size)} were wanted, but only {in_bytes(room)} of memory are available")
    region = _small_region(size) if page_size == SMALL_PAGE else _huge_region(size, page_size)
    if populate:
        region.touch()
    huge = region.backing().get(HUGE_PAGE, 0) if populate and region.granted == "madvise" else region.size
    if huge < region.size:  # advice alone proves nothing
        raise UnsupportedError(
            f"the kernel backed {in_bytes(huge)} of {in_bytes(region.size)} by 2 MiB pages; "
            "reserve some (vm.nr_hugepages) or set transparent_hugepage/enabled to madvise"
        )
    return region


def _map(size: int, flags: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        raise UnsupportedError(
            f"the system refuses {in_bytes(size)} of memory ({error.strerror}); raise its limits (ulimit -v)"
        ) from error


def _small_region(size: int) -> NativeRegion:
    memory = _map(size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # transparent huge pages would quietly turn a measurement of small pages into one of large ones
    try:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    except OSError as error:  # which is no loss where the kernel has no such pages, or gives none unasked
        if "[always]" in (Tree(Path("/")).text(_TRANSPARENT) or ""):
            how = f"allow madvise, or write madvise into /{_TRANSPARENT}"
            raise UnsupportedError(
                f"no 4 KiB pages: the kernel refuses that advice ({error.strerror}); {how}"
            ) from error
    return NativeRegion(memory, size, SMALL_PAGE, "none")


def _huge_region(size: int, page_size: int) -> NativeRegion:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        reserved = mmap.mmap(-1, size, flags=flags | _MAP_HUGETLB | page_size.bit_length() - 1 << _MAP_PAGE_BITS)
        return NativeRegion(reserved, size, page_size, "hugetlb")
    except OSError as error:
        if page_size == GIBI:
            raise UnsupportedError(
                f"free pages of 1 GiB are needed for {in_bytes(size)}; reserve them in {_RESERVED}"
            ) from error
        memory = _map(size + HUGE_PAGE, flags)
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError as error:
        raise UnsupportedError(
            "no 2 MiB pages: none are reserved (vm.nr_hugepages) and this kernel offers no transparent ones"
        ) from error
    return NativeRegion(memory, size, HUGE_PAGE, "madvise")


def backed_bytes(address: int, smaps: str) -> dict[int, int]:
    """Bytes of the mapping that holds `address`, by the size of the pages that lie behind it, from the text of
    /proc/PID/smaps."""
    inside, found = False, dict[str, int]()
    for line in smaps.splitlines():
        begin, dash, rest = line.partition("-")
        if dash and re.fullmatch(r"[0-9a-f]+", begin):
            inside = int(begin, 16) <= address < int(rest.split(" ", 1)[0], 16)
        elif inside and line.endswith(" kB"):
            name, _, size = line.partition(":")
            found[name] = int(size.split()[0]) * KIBI
    huge, page = found.get("AnonHugePages", 0), found.get("KernelPageSize", SMALL_PAGE)
    reserved = {} if page == SMALL_PAGE else {page: found.get("Private_Hugetlb", 0)}
    backed = {SMALL_PAGE: found.get("Rss", huge) - huge, HUGE_PAGE: huge, **reserved}
    return {page: size for page, size in backed.items() if size}


# -- memory nodes -----------------------------------------------------------------------------------------------------


def memory_nodes(tree: Tree) -> tuple[MemoryNode, ...]:
    """The nodes that have memory, by number, with their CPUs."""
    found = []
    for number in tree.value(f"{_NODES}/has_memory", parse_cpu_list) or ():
        cpus = tree.text(f"{_NODES}/node{number}/cpulist")
        own = tree.parsed(f"CPUs of node {number}", cpus, parse_cpu_list) or () if cpus else ()
        found.append(MemoryNode(number=number, cpus=own))
    return tuple(found)


def bind(region: Region, node: int) -> bool:
    """See `setebench.machine.BindsMemory`. The node is preferred and not forced, as a full one would end the process;
    the kernel moves pages, and says whether any lies elsewhere."""
    mask = (ctypes.c_uint8 * (_MOST_NODES // 8))()
    mask[node // 8] = 1 << node % 8
    where, bits = (ctypes.c_void_p(region.address), ctypes.c_ulong(region.size)), ctypes.c_ulong(_MOST_NODES)
    return not _libc.syscall(_MBIND, *where, _PREFERRED, mask, bits, _STRICT_AND_MOVE)

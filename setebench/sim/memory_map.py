"""Virtual and physical memory of a simulated machine: which pages are mapped, and to which frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError, UsageError
from setebench.machine import Region
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import SYSTEM_PAGES, Arrays, Frames, lines_of, threads_of, virtual_pages

Ints = NDArray[np.int64]

HUGE_PAGE = 1 << at.HUGE_BITS
PARTS = 1 << (at.HUGE_BITS - at.PAGE_BITS)


def _first_page(region: Region) -> int:
    return (region.address - at.BASE_ADDRESS) >> at.PAGE_BITS


class MemoryMap:
    """Maps regions and takes them back."""

    def __init__(self, machine: spec.Machine, arrays: Arrays) -> None:
        self._machine = machine
        self._arrays = arrays
        self._left = machine.memory.bytes
        self._regions: dict[int, Region] = {}
        self._linked: set[int] = set()  # addresses of regions

    def allocate(self, size: int, page_size: int, populate: bool) -> Region:
        """See `setebench.machine.Machine.allocate`."""
        if page_size not in self._machine.memory.page_sizes:
            raise UnsupportedError(f"{self._machine.name} has no pages of {page_size} bytes")
        if size <= 0:
            raise UsageError(f"a region needs a positive size, not {size}")
        size = -(-size // page_size) * page_size
        if size > self._left:
            raise UnsupportedError(f"{self._machine.name} has {self._left} bytes left, not {size}")
        pages = size >> at.PAGE_BITS
        first = self._free_pages(pages, page_size >> at.PAGE_BITS)
        c, s = self._arrays.c, self._arrays.s
        pieces, parts = self._frames(page_size)
        frames = (pieces.take(pages // parts)[:, None] + np.arange(parts)).ravel()
        flags = at.MAPPED | (at.PRESENT if populate else 0)
        if page_size == HUGE_PAGE:
            flags |= at.HUGE | (at.HUGE_TLB if parts > 1 else 0)
        s[c[at.C_PAGE_TABLE] + first : c[at.C_PAGE_TABLE] + first + pages] = (frames << at.FRAME_BITS) | flags
        s[c[at.C_FRAME_TABLE] + frames] = np.arange(first, first + pages) + 1
        self._left -= size
        region = Region(at.BASE_ADDRESS + (first << at.PAGE_BITS), size, page_size, self._machine.line_size_bytes)
        self._regions[region.address] = region
        return region

    def release(self, region: Region) -> None:
        """Unmap a region: its lines leave the caches, all translations the TLBs, as systems do it for many pages."""
        if self._regions.get(region.address) is not region:
            raise UsageError(f"no region at {region.address:#x} to release")
        del self._regions[region.address]
        c, s, bits = self._arrays.c, self._arrays.s, int(self._arrays.c[at.C_PAGE_LINES_BITS])
        first, end = _first_page(region), _first_page(region) + (region.size >> at.PAGE_BITS)
        for level in range(int(c[at.C_LEVELS])):
            lines = lines_of(c, s, level)
            numbers = lines >> at.LINE_SHIFT
            lines[(numbers >= first << bits) & (numbers < end << bits)] = at.EMPTY
        last = at.C_TLB + (at.TLB_TABLES - 1) * at.X_WORDS
        s[c[at.C_TLB + at.X_TABLE] : c[last + at.X_TABLE] + 2 * c[at.C_CORES] * c[last + at.X_ENTRIES]] = 0
        threads_of(c, s)[:, at.T_PAGE] = -1
        words = s[c[at.C_PAGE_TABLE] + first : c[at.C_PAGE_TABLE] + end]
        frames = words >> at.FRAME_BITS
        s[c[at.C_FRAME_TABLE] + frames] = 0
        words[:] = s[c[at.C_SHARERS] + first : c[at.C_SHARERS] + end] = 0
        pieces, parts = self._frames(region.page_size)
        pieces.give_back(frames[::parts])
        if region.address in self._linked:
            self._linked.remove(region.address)
            s[c[at.C_LINKS] + (first << bits) : c[at.C_LINKS] + (end << bits)] = 0
        self._left += region.size

    def link(self, region: Region, addresses: Ints) -> None:
        """Let each line point to the next address, the last to the first; all must lie in the region."""
        low, high = (which(addresses, initial=region.address) for which in (np.min, np.max))
        if low < region.address or high >= region.address + region.size:
            raise UsageError("an address to link lies outside of the region")
        lines = (addresses - at.BASE_ADDRESS) >> int(self._arrays.c[at.C_LINE_BITS])
        self._arrays.s[int(self._arrays.c[at.C_LINKS]) + lines] = np.append(addresses[1:], addresses[:1])
        self._linked.add(region.address)

    def _free_pages(self, pages: int, alignment: int) -> int:
        """The first page of the first stretch of so many free ones."""
        end, most = SYSTEM_PAGES, virtual_pages(self._machine)
        used = sorted((_first_page(each), each.size >> at.PAGE_BITS) for each in self._regions.values())
        for begin, length in [*used, (most, 0)]:
            first = -(-end // alignment) * alignment
            if first + pages <= begin:
                return first
            end = begin + length
        raise UnsupportedError(f"{self._machine.name}: no stretch of {pages} free pages; release some region")

    def _frames(self, page_size: int) -> tuple[Frames, int]:
        """What pages of this size lie in, and how many 4 KiB parts one piece of that has."""
        if page_size == HUGE_PAGE and not self._machine.memory.huge_pages_splintered:
            return self._arrays.huge_frames, PARTS
        return self._arrays.small_frames, 1

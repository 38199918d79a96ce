"""Lay out working sets so that neither hardware prefetchers nor TLB misses affect a traversal's load latency.

A traversal goes through *windows* of a few pages. It loads a few lines of each page, first the page's warmer (a line
whose load brings the translation into the TLB), and returns for other lines of a page after all other windows. Each
time it loads at most one line of a box (four neighbouring lines), so next-line and pair prefetchers fetch no line that
is due soon, and stream prefetchers see too few accesses. In the end nearly all lines of each page are used, so that
prefetched lines belong to the working set, too (Zen 4 prefetches whole pages of which few lines are loaded).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region

Lines = NDArray[np.int64]

BOX_LINES = 4
"""Neighbouring lines of which only one is loaded at a time, as next-line and pair prefetchers may fetch the others."""

TURNS = (0, 2, 1, 3)
"""Order in which the lines of a box are loaded. Between the two lines of an aligned pair, half of the working set is
loaded, so a cache smaller than that half has evicted the line that a pair prefetcher fetched."""

LINES_AT_ONCE = 5
"""Lines of a page that are loaded at a time, its warmer included: too few to train most stream prefetchers."""

WINDOW_PAGES = 8
"""Pages of a window: the first TLB of any core of the last twenty years holds more."""

TLB_PAGE_BYTES = 4096
"""Smallest page in bytes of which a TLB may hold a translation; a hypervisor may even split large pages."""

MOST_APART = 33
"""Distance, in pages, of two lines that are chased in memory: loads from an open DRAM row would be faster (7 % with 16
neighbouring frames in rows of 8 KiB). It is odd, so that all sets of TLBs and outer caches are used evenly."""


@dataclass(frozen=True)
class Layout:
    """Line addresses of a working set, one row for each traversal of a window (a group of pages). `warmers`, shape
    (rows, pages), are loaded before the other `lines`, shape (rows, lines), to bring translations into the TLB."""

    lines: Lines
    warmers: Lines

    @property
    def order(self) -> Lines:
        """Addresses of all lines, warmers included, in the order of the traversal, shape (all lines,)."""
        return np.concatenate([self.warmers, self.lines], axis=1).ravel()


def trials_per_page(line_size: int) -> int:
    """Return how often a traversal comes to each page (a trial each time), if lines have `line_size` bytes."""
    return BOX_LINES * (TLB_PAGE_BYTES // (BOX_LINES * line_size) // LINES_AT_ONCE)


def span_bytes(size_bytes: float, line_size: int) -> int:
    """Return the bytes of the pages over which `size_bytes` bytes of lines, of `line_size` bytes each, are spread."""
    return -(-int(size_bytes / line_size) // (trials_per_page(line_size) * LINES_AT_ONCE)) * TLB_PAGE_BYTES


def whole_windows(pages: int) -> int:
    """Return `pages` rounded down to a multiple of `WINDOW_PAGES`; a number below one window is returned as it is."""
    return pages if pages < WINDOW_PAGES else pages // WINDOW_PAGES * WINDOW_PAGES


def lay(region: Region, size_bytes: float, rng: np.random.Generator) -> Layout:
    """Return the layout of a working set of about `size_bytes` bytes of lines, in random pages of `region`."""
    pages = whole_windows(span_bytes(size_bytes, region.line_size) // TLB_PAGE_BYTES)
    trials = trials_per_page(region.line_size)
    boxes = TLB_PAGE_BYTES // (BOX_LINES * region.line_size)
    # Each row has one page's boxes in random order, four times, each time with another line of each box.
    box = rng.permuted(np.broadcast_to(np.arange(boxes), (pages, boxes)), axis=1)
    line = np.array(TURNS)[(rng.integers(BOX_LINES, size=pages)[:, None] + np.arange(BOX_LINES)) % BOX_LINES]
    used = box[:, None, : boxes // LINES_AT_ONCE * LINES_AT_ONCE] * BOX_LINES + line[:, :, None]
    used = used * region.line_size
    begins = region.address + rng.permutation(region.size // TLB_PAGE_BYTES)[:pages] * TLB_PAGE_BYTES
    each = begins[:, None, None] + used.reshape(pages, trials, LINES_AT_ONCE)
    by_window = each.reshape(-1, min(WINDOW_PAGES, pages), trials, LINES_AT_ONCE).transpose(2, 0, 1, 3)
    by_window = by_window.reshape(-1, *by_window.shape[2:])
    lines = rng.permuted(by_window[:, :, 1:].reshape(len(by_window), -1), axis=1)
    return Layout(lines.astype(np.int64), by_window[:, :, 0].astype(np.int64))

"""Working sets laid so that prefetchers and TLBs stay out of a traversal's measurement.

A traversal comes to a *window* of a few pages and loads a few lines of each, the page's TLB-warming line first, then
goes on to the next window; it comes back for other lines of the same pages once it was everywhere else. Of a page, no
two lines of one box of four are loaded at a time, so next-line and pair prefetchers bring none that is due soon, and
stream prefetchers see too few. In the end nearly all lines of every page are used: what prefetchers bring belongs to
the working set, so that caches hold nothing else (Zen 4 brings whole pages of which few lines are loaded).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region

Lines = NDArray[np.int64]

BOX_LINES = 4
"""Of which one is loaded at a time: next-line and pair prefetchers bring another."""

TURNS = (0, 2, 1, 3)
"""Lines of a box in the order of their turns: half of the set is loaded between the lines of a pair, so that a cache of
less than half of it loses a line that was brought with its pair. Of next lines that holds for three of four."""

LINES_AT_ONCE = 5
"""Loaded of a page at a time, the TLB-warming one among them: stream prefetchers that want more stay quiet."""

WINDOW_PAGES = 8
"""Pages that a traversal stays in at a time; the first TLB of any core of the last twenty years holds more."""

TLB_PAGE_BYTES = 4096
"""Pages as the TLB may see them at the smallest: a hypervisor can splinter larger ones."""

MOST_APART = 33
"""Of so many pages in a row one has a target: what lies closer may lie in one row of memory, which answers the next
line sooner while it is open (16 neighbouring frames in rows of 8 KiB: 7 % less for all lines). Odd, so that the sets of
TLBs and outer caches are used alike."""


@dataclass(frozen=True)
class Layout:
    """Addresses by window, in the order of the traversal: `warmers`, shape (windows, pages), are loaded before `lines`,
    shape (windows, lines)."""

    lines: Lines
    warmers: Lines

    @property
    def order(self) -> Lines:
        """All lines in the order of the traversal, shape (lines,)."""
        return np.concatenate([self.warmers, self.lines], axis=1).ravel()


def trials_per_page(line_size: int) -> int:
    """How often a traversal comes to each page."""
    return BOX_LINES * (TLB_PAGE_BYTES // (BOX_LINES * line_size) // LINES_AT_ONCE)


def span_bytes(size_bytes: float, line_size: int) -> int:
    """Memory that a working set of `size_bytes` (counted in lines used) stretches over."""
    return -(-int(size_bytes / line_size) // (trials_per_page(line_size) * LINES_AT_ONCE)) * TLB_PAGE_BYTES


def whole_windows(pages: int) -> int:
    """Round a number of pages down to whole windows, but none below one window."""
    return pages if pages < WINDOW_PAGES else pages // WINDOW_PAGES * WINDOW_PAGES


def lay(region: Region, size_bytes: float, rng: np.random.Generator) -> Layout:
    """A working set of about `size_bytes` in random pages of `region`."""
    pages = whole_windows(span_bytes(size_bytes, region.line_size) // TLB_PAGE_BYTES)
    trials = trials_per_page(region.line_size)
    boxes = TLB_PAGE_BYTES // (BOX_LINES * region.line_size)
    # every row is a page's boxes in random order, four times, each time with another line of each box
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

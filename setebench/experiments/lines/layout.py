"""Sets of lines to walk over, laid so that prefetchers and TLBs stay out of the measurement.

One line of every box of four is used, a random one: so next-line and pair prefetchers seldom bring a line that is
still to come, and no page's footprint foretells another's, which region prefetchers would learn. Over any four pages
each line of a box serves once, so that all cache sets are used alike. One box per page holds no line of the walk but
the page's *TLB-warming line*: touching it first warms the TLB entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region

BOX_LINES = 4
"""Of which one is used: next-line and pair prefetchers bring another."""

WINDOW_PAGES = 8
"""Pages that a sparse walk stays in at a time; the first TLB of any core of the last twenty years holds more."""

TLB_PAGE_BYTES = 4096
"""Pages as the TLB may see them at the smallest: a hypervisor can splinter larger ones."""


@dataclass(frozen=True)
class Layout:
    """`lines[p, b]` is the address of line b of page p, `warmers[p]` that of the page's TLB-warming line."""

    lines: NDArray[np.int64]
    warmers: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of lines to walk over."""
        return int(self.lines.size)


def lines_per_page(line_size: int) -> int:
    """Lines of a walk in one page."""
    return TLB_PAGE_BYTES // (BOX_LINES * line_size) - 1


def span_bytes(size_bytes: float, line_size: int) -> int:
    """Memory that a working set of `size_bytes` (counted in lines used) stretches over."""
    pages = -(-int(size_bytes / line_size) // lines_per_page(line_size))
    return pages * TLB_PAGE_BYTES


def lay(region: Region, size_bytes: float, rng: np.random.Generator) -> Layout:
    """A working set of about `size_bytes` in random pages of `region`, shape (pages, lines per page); one line of every
    box of four."""
    per_page = lines_per_page(region.line_size)
    pages = span_bytes(size_bytes, region.line_size) // TLB_PAGE_BYTES
    chosen = rng.permutation(region.size // TLB_PAGE_BYTES)[:pages]
    number = np.arange(pages)
    # balanced, not random: each line of a box and each box serve equally often over any run of pages
    fours = np.argsort(rng.random((-(-pages // BOX_LINES), BOX_LINES, per_page)), axis=1)
    position = fours.reshape(-1, per_page)[:pages]
    warmer_box = (number // BOX_LINES + rng.integers(per_page + 1)) % (per_page + 1)
    boxes = np.arange(per_page)[None, :]
    boxes = boxes + (boxes >= warmer_box[:, None])
    begin = region.address + chosen * TLB_PAGE_BYTES
    box_bytes = BOX_LINES * region.line_size
    lines = begin[:, None] + boxes * box_bytes + position * region.line_size
    return Layout(lines.astype(np.int64), (begin + warmer_box * box_bytes).astype(np.int64))


def by_windows(layout: Layout, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random order that finishes a few pages before the next few, shape (lines,): a TLB miss is paid once a page, and
    no prefetcher sees a page's lines one behind the other."""
    pages, per_page = layout.lines.shape
    shuffled = layout.lines[rng.permutation(pages)]
    whole = pages // WINDOW_PAGES * WINDOW_PAGES
    windows = rng.permuted(shuffled[:whole].reshape(-1, WINDOW_PAGES * per_page), axis=1)
    return np.concatenate([windows.ravel(), rng.permutation(shuffled[whole:].ravel())])


MOST_APART = 33
"""Of so many pages in a row one has a target: what lies closer may lie in one row of memory, which answers the next
line sooner while it is open (16 neighbouring frames in rows of 8 KiB: 7 % less for all lines). Odd, so that the sets of
TLBs and outer caches are used alike."""

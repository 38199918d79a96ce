"""Sets of lines to walk over, laid so that prefetchers and TLBs stay out of the measurement.

One line of every box of four is used, a random one: so next-line and pair prefetchers seldom bring a line that is
still to come, and no page's footprint foretells another's, which region prefetchers would learn. Over any four pages
each line of a box serves once, so that all cache sets are used alike. One box per page holds no line of the walk but
the page's *TLB-warming line*: touching it first warms the TLB entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


GROUP_PAGES = 64
"""Target lines that one repetition uses, one in each of so many pages. Many, because bringing them to an outer level
costs a long walk, however many they are."""

MOST_APART = 33
"""Of so many pages in a row one has a target: what lies closer may lie in one row of memory, which answers the next
line sooner while it is open (16 neighbouring frames in rows of 8 KiB: 7 % less for all lines). Odd, so that the sets of
TLBs and outer caches are used alike."""

SHIFT_LINES = 16
"""How far whole groups are shifted within their pages. Region prefetchers learn which lines of a page follow which; the
random shifts leave them nothing to learn."""


class Spread(NamedTuple):
    """Where a group's targets lie: in so many `pages`, each so many pages `apart` from the next."""

    pages: int
    apart: int

    @classmethod
    def within(cls, size_bytes: int, pages: int = GROUP_PAGES) -> Spread:
        """As far apart as helps, of what fits into so much memory."""
        apart = min(size_bytes // (pages * TLB_PAGE_BYTES), MOST_APART)
        return cls(pages, max(apart - (apart + 1) % 2, 1))

    @property
    def size_bytes(self) -> int:
        """Memory that a group lies in."""
        return self.pages * self.apart * TLB_PAGE_BYTES


@dataclass(frozen=True)
class Group:
    """Where the targets of a repetition lie, as offsets in bytes, in the order of use.

    Offsets, not addresses: they are part of the probe, so that no address is fetched from memory while something is
    timed. Each target has a TLB-warming line far away in its page, to warm the page's TLB entry; targets and
    TLB-warming lines have a base each."""

    targets: tuple[int, ...]
    warmers: tuple[int, ...]


def no_like_neighbours(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order (shape (n,), numbers of `offsets`) near the given one in which no offset within its page follows itself,
    as far as others are left.

    Such lines fall into the same set of a first level, and a miss right behind a miss into the same set takes longer:
    17 cycles instead of 14 on a core with 32 KiB of L1. Other lines between the two are enough."""
    kinds, left = (offsets % TLB_PAGE_BYTES).tolist(), list(range(len(offsets)))
    order: list[int] = []
    while left:
        unlike = (number for number in left if not order or kinds[number] != kinds[order[-1]])
        order.append(next(unlike, left[0]))
        left.remove(order[-1])
    return np.array(order, dtype=np.int64)


def group(rng: np.random.Generator, line_size: int, spread: Spread) -> Group:
    """A random group: pages in random order, targets in the first half of each, TLB-warming lines in the last third,
    further from the targets than next-line, pair and short-distance prefetchers reach."""
    lines = TLB_PAGE_BYTES // line_size
    pages = rng.permutation(spread.pages) * spread.apart * TLB_PAGE_BYTES
    target = rng.permutation(np.arange(spread.pages) % SHIFT_LINES)
    target = target[no_like_neighbours(target * line_size)]
    warmer = lines - 1 - SHIFT_LINES - rng.integers(0, lines // 8, spread.pages)
    return Group(tuple((pages + target * line_size).tolist()), tuple((pages + warmer * line_size).tolist()))


def group_bases(
    region: Region, first_byte: int, count: int, rng: np.random.Generator, spread: Spread
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bases of the targets and of the TLB-warming lines of `count` random groups in `region` from `first_byte` on, in
    different pages as far as there are so many; shape (count,) each."""
    first = -(-first_byte // TLB_PAGE_BYTES)
    blocks = (region.size - first * TLB_PAGE_BYTES) // spread.size_bytes
    begins = first + np.arange(blocks)[:, None] * spread.pages * spread.apart + np.arange(spread.apart)
    begin = region.address + np.resize(rng.permutation(begins.ravel()), count).astype(np.int64) * TLB_PAGE_BYTES
    shifts = rng.integers(0, SHIFT_LINES, (2, count)) * region.line_size
    return begin + shifts[0], begin + shifts[1]

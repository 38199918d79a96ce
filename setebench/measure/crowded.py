"""Pages with lines in overfull sets of a large cache, and pages without: found together, by walking over both.

Random lines that fill half of a cache already overfill a few of its sets. Walked over round and round, the lines of
those sets are missing now and then, whatever is replaced, and no others are. So a few passes tell which pages have such
lines; and all others have none, which makes them fit to push lines out of the levels before without touching a set
that is asked for. Whole pages are used, so that what prefetchers bring along is the walk's own lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.absent import Absent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines
from setebench.probe import Base, Probe
from setebench.scenario import Context

WALK = Base("walk")

SHARES = (0.55, 0.64, 0.75, 0.9, 1.1)
"""Parts of the capacity that are tried until sets are overfull: at the first, one set in twenty to a hundred is. An
estimate of the capacity may be low."""

PASSES = 3
"""Orders of the walk. Each is gone through twice: the second time the oldest-first order misses all lines of an
overfull set."""

WARM_ROUNDS = 6
"""Rounds before anything is timed, from empty caches. Where replacement is random and lines only come from the cache
before, as it gives them up, a set would never lose what was there: a line of the walk leaves a way empty whenever it is
used, and when it comes back from there it finds that way, or one of the walk's own lines."""

LEAST_MISSES, LEAST_PAGES, MOST_SHARE = 3, 48, 0.4
"""Misses that make a page crowded: a stall may look like one. So many pages at least are needed for a set of few ways,
and so many others to walk over."""


@dataclass(frozen=True)
class Crowd:
    """Addresses of `crowded` pages and of `clean` ones, shape (n,) each; which lines of a crowded page were missing at
    least once, shape (n, lines of a page)."""

    crowded: Lines
    clean: Lines
    missed: NDArray[np.bool_]


def crowd(
    context: Context, region: Region, absent: Absent, capacity: float, least: float, least_pages: int = LEAST_PAGES
) -> Crowd | None:
    """Pages, so many at least, that overfill some sets of a cache of about `capacity` lines; at least so many lines as
    `least` are walked over, so that the levels before lose them, and are clean if a walk leaves so many. None where no
    size of the walk leaves some lines missing, not many."""
    rng = context.rng(82)
    per_page = TLB_PAGE_BYTES // region.line_size
    pages: Lines = region.address + rng.permutation(region.size // TLB_PAGE_BYTES) * TLB_PAGE_BYTES
    _empty(context, region, pages)
    tried = 0
    found: Crowd | None = None
    for share in SHARES:
        count = int(max(share * capacity, least) / per_page)
        if count <= tried or count > len(pages):
            continue
        tried = count
        context.progress(f"pages that overfill sets of the third cache: {count} pages")
        missed = _missed(context, region, absent, pages[:count])
        own = missed.sum(axis=1)
        crowded = own >= LEAST_MISSES
        context.evidence.setdefault("crowded_pages", []).append([count, int(crowded.sum()), int(own.sum())])
        if crowded.mean() > MOST_SHARE:
            return found
        if crowded.sum() < least_pages:
            continue
        one = Crowd(pages[:count][crowded], pages[:count][own == 0], missed[crowded] > 0)
        if found is None or len(one.clean) > len(found.clean):
            found = one
        if len(one.clean) * per_page >= least:  # else stalls made too many of them doubtful: a longer walk has more
            return one
    return found


def _empty(context: Context, region: Region, pages: Lines) -> None:
    """Take all lines of the region out of every cache."""
    probe = Probe()
    for place in range(0, TLB_PAGE_BYTES, region.line_size):
        probe = probe.flush(WALK + place)
    context.machine.run(probe, {WALK: pages}, cpu=context.cpu)


def _missed(context: Context, region: Region, absent: Absent, pages: Lines) -> NDArray[np.int64]:
    """How often each line of the pages was missing, shape (pages, lines of a page)."""
    rng = context.rng(83)
    offsets = np.arange(TLB_PAGE_BYTES // region.line_size)
    lines = (pages[:, None] + offsets[None, :] * region.line_size)[:, offsets != absent.free]
    flat: Lines = lines.ravel()
    missed = np.zeros(len(flat), dtype=np.int64)
    for number in range(PASSES):
        order = rng.permutation(len(flat))
        context.machine.link(region, flat[order])
        rounds = 1 if number else WARM_ROUNDS
        context.machine.run(Probe().chase(WALK, rounds * len(flat)), {WALK: flat[order][:1]}, cpu=context.cpu)
        missed[order] += absent.gone(absent.cycles(flat[order]))
    table = np.zeros((len(pages), len(offsets)), dtype=np.int64)
    table[:, offsets != absent.free] = missed.reshape(lines.shape)
    return table

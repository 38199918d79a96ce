"""Whether the second cache takes lines out of the first one, by software prefetches that pass the first one by.

What evicts a line from the second cache usually comes through the first one too, and pushes the line out there if that
replaces at random. Some hints (T1 and T2 on most CPUs) leave the first cache alone, so the line stays in it whatever is
replaced, unless the second one takes it along. Which hint does that isn't asked: if it fills the first cache a line of
another set doesn't stay there, and if it doesn't fill the second nothing is evicted; then nothing is told.

What evicts the line are lines of its set, or pages that share their sets. Of the latter any line of one may share a set
with any line of another, as an index may be made of sums of address bits, so all their lines pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from setebench.hierarchy.inclusion import TARGET
from setebench.hierarchy.page_sets import PageGroup
from setebench.hierarchy.resting import Pass, companion_bytes, told_by_resting, told_in_batches
from setebench.machine import Region
from setebench.measure.eviction import Congruent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import SETTLE_CYCLES
from setebench.measure.rings import Lines
from setebench.probe import Placements, Probe
from setebench.scenario import Context

HINTS = ("t1", "t2", "nta")
"""Hints that some CPU fills the second cache by, and not the first one; most likely first."""

PASSES_PER_WAY = 2
"""Passes over the set's lines. As they are one more than there is room for, random replacement evicts about one in a
pass, each as likely as any other."""

HINTED_SAMPLES = 10
"""Repetitions of a batch, each as long as several hundred prefetches."""

PUSHES = 3
"""Walks over pages that push one out of the first cache."""

APART_LINES = 8
"""Lines of a page that are timed are about so many lines apart, and in random order, so that prefetchers bring none of
them by another one's miss."""

LEAST_ALIKE, MOST_PAGES = 2, 3
"""Pages at least that tell the same, and none otherwise; and pages that are asked."""

NO_HINT = "no software prefetch fills the second cache and not the first"
Told = tuple[bool | None, str]


def inclusive_by_hints(context: Context, found: Congruent, miss_cycles: float) -> Told:
    """Whether a line that the second cache evicts leaves the first, or None and why that isn't told; a load that misses
    the second takes so many cycles longer than one that hits it."""
    for hint in _hints(context):
        passing = _hinted(context, hint, int(found.lines[0]) % TLB_PAGE_BYTES, PASSES_PER_WAY * found.ways)
        told = told_by_resting(context, found, miss_cycles, passing, HINTED_SAMPLES)
        if told[0] is not None:
            return told
    return None, NO_HINT


def inclusive_by_groups(context: Context, region: Region, groups: Sequence[PageGroup], miss_cycles: float) -> Told:
    """The same by pages that share their sets; enough of them must tell the same, and none otherwise, by any hint."""
    turned = [each._replace(pages=each.pages[::-1]) for each in groups]
    told: set[bool] = set()
    for hint in _hints(context):
        answers: list[tuple[int, bool]] = []
        for number, group in enumerate([*groups, *turned][:MOST_PAGES]):
            answer = _by_group(context, region, group, miss_cycles, hint)
            answers += [] if answer is None else [(number, answer)]
            if not answers:
                break  # it fills other caches; the next page would take as long to tell that
        told.update(answer for _, answer in answers)
        if len(told) > 1:
            return None, "pages that share sets tell different things; run again at a quieter time"
        # a group that is one page too small loses nothing, whichever of its pages is asked
        counted = [answer for number, answer in answers if answer or number < len(groups)]
        if len(counted) >= LEAST_ALIKE:
            return counted[0], ""
    return None, NO_HINT


def _hints(context: Context) -> Iterator[str]:
    return (each for each in HINTS if each in context.machine.facts.prefetch_hints)


def _hinted(context: Context, hint: str, offset: int, passes: int) -> Pass:
    """Prefetches of all lines in turn, none while another one is under way; each behind a load in the same page, as
    some CPUs drop prefetches to pages that the first TLB lacks."""
    companion, latency = companion_bytes(offset), int(np.ceil(context.calibration.level_cycles["memory"]))

    def passing(probe: Probe, others: Lines) -> Probe:
        for each in others.tolist() * passes:
            probe = probe.load(TARGET + each + companion).fence()
            probe = probe.prefetch(TARGET + each, hint).wait(latency).fence()
        return probe.wait(SETTLE_CYCLES).fence()

    return passing


def _by_group(context: Context, region: Region, group: PageGroup, miss_cycles: float, hint: str) -> bool | None:
    """What the last page of the group tells beside one of other sets. The first line of each warms its translation."""
    pages = _Pages(context, region, hint)
    own, foreign = int(group.pages[-1]), int(group.ballast[0])
    others, behind = group.pages[:-1], group.ballast[1:]
    pages.link((own, foreign))
    asked = [(page, others, pushing) for page in (own, foreign) for pushing in (others[:0], behind)]
    probes = [
        pages.left(passes - page, pushing - page) for page, passes, pushing in [*asked, (own, others[:0], behind)]
    ]
    probes.append(pages.left(others[:0], others[:0]))
    places: list[Placements] = [{TARGET: np.array([page])} for page, _, _ in asked]
    places += [{TARGET: np.array([own])}, {TARGET: np.array([foreign])}]
    return told_in_batches(context, probes, places, miss_cycles, pages.lines)[0]


class _Pages:
    """Probes that bring in some lines of a page, let others pass by a hint, and time these lines."""

    def __init__(self, context: Context, region: Region, hint: str) -> None:
        self._context, self._region, self._hint = context, region, hint
        self._line, self._others = region.line_size, TLB_PAGE_BYTES // region.line_size - 1
        rng = context.rng(103)
        places = np.arange(APART_LINES // 2, self._others, APART_LINES)
        self._places = rng.permutation(places + rng.integers(0, APART_LINES // 2, len(places)))

    @property
    def lines(self) -> int:
        """Lines of the page that are timed together."""
        return len(self._places)

    def link(self, pages: Sequence[int]) -> None:
        """Those lines of each to each other in random order."""
        for page in pages:
            self._context.machine.link(self._region, page + self._places * self._line)

    def left(self, others: Lines, behind: Lines) -> Probe:
        """Lines of the page at `TARGET` brought in anew; all lines of the others pass by the hint, at offsets to it, as
        often as may be needed, one prefetch at a time; those `behind` are loaded; the page's are timed."""
        second, first = TARGET + self._line, TARGET + int(self._places[0]) * self._line
        probe = Probe().repeat(self._others, Probe().flush(second), advance=self._line).fence()
        probe = probe.load(TARGET).fence().chase(first, self.lines).fence()
        latency = int(np.ceil(self._context.calibration.level_cycles["l2"]))
        for offset in np.tile(others, PASSES_PER_WAY * len(others)).tolist():
            body = Probe().prefetch(second + offset, self._hint).wait(latency).fence()
            probe = probe.load(TARGET + offset).fence().repeat(self._others, body, advance=self._line)
        probe = probe.wait(SETTLE_CYCLES).fence()
        for offset in behind.tolist() * PUSHES:
            probe = probe.repeat(self._others, Probe().load(second + offset), advance=self._line)
        return probe.fence().load(TARGET).fence().start().chase(first, self.lines).stop()

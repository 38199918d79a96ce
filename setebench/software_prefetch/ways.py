"""Different things done to lines of one placed group, side by side: what is compared meets the same moment and pages.

A *way* is what a probe does with one target of a `Place`, from the placed line to the ticks of interval `number`. The
ways of a question take turns over the targets of a repetition, one of them being the baseline, which does all of it
but for what is asked about. So drift, neighbours and hardware prefetchers fall on all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from setebench.machine import Region, Ticks
from setebench.measure.layout import GROUP_PAGES
from setebench.measure.placing import SETTLE_CYCLES, Place
from setebench.measure.serving import LAYOUTS, levels_of
from setebench.probe import Probe
from setebench.scenario import Context

Way = Callable[[Probe, Place, int], Probe]
"""Adds to a probe what is to be done with target `number` of a place, and times something as interval `number`."""

ASSIGNMENT = 41
"""Part of the seed of the generator that deals targets to ways."""


def loaded(probe: Probe, place: Place, number: int) -> Probe:
    """One load of a target, timed as references are: its TLB entry is warm whatever came before."""
    return place.ready(probe, number, 1).start(number).load(place.targets[number]).stop(number)


def nothing(probe: Probe, place: Place, number: int) -> Probe:
    """The baseline of `prefetched`: the same time passes and nothing is done."""
    probe = place.ready(probe, number, 1)
    return loaded(probe.wait(SETTLE_CYCLES).fence(), place, number)


def prefetched(hint: str) -> Way:
    """The target is prefetched with its TLB entry warm, right behind a load from its page, and given time to arrive."""

    def way(probe: Probe, place: Place, number: int) -> Probe:
        probe = place.ready(probe, number, 1).prefetch(place.targets[number], hint)
        return loaded(probe.wait(SETTLE_CYCLES).fence(), place, number)

    return way


def prefetched_from_elsewhere(hint: str) -> Way:
    """As `prefetched`, but the latest load before the prefetch was from another page. Both translations are warm."""

    def way(probe: Probe, place: Place, number: int) -> Probe:
        probe = place.ready(place.ready(probe, number, 1), (number + 1) % GROUP_PAGES, 1)
        probe = probe.prefetch(place.targets[number], hint)
        return loaded(probe.wait(SETTLE_CYCLES).fence(), place, number)

    return way


def side_by_side(
    context: Context, region: Region, level: str, ways: Mapping[str, Way], samples: int
) -> dict[str, Ticks]:
    """About `samples` ticks of every way, shape (n,) each, on lines of `region` that lie in `level`.

    Fewer where each repetition needs a long walk. Every layout deals its targets to the ways anew."""
    names = list(ways)
    found: dict[str, list[Ticks]] = {name: [] for name in names}
    rng = context.fresh_rng(ASSIGNMENT)
    # ever new targets, one in each page of a group: the same few again and again would teach prefetchers
    walk = replace(levels_of(context, region)[level], repeated=False)
    for _ in range(LAYOUTS):
        place = Place(context, region, level, walk)
        dealt = rng.permutation(np.arange(GROUP_PAGES) % len(names))
        probe = place.placed()
        for number, which in enumerate(dealt.tolist()):
            probe = ways[names[which]](probe, place, number)
        count = place.repetitions(-(-samples * len(names) // (LAYOUTS * GROUP_PAGES)))
        ticks = context.machine.run(probe, place.placements(count + 1), cpu=context.cpu, warmup=1)
        for which, name in enumerate(names):
            found[name].append(ticks[:, dealt == which].ravel())
    return {name: np.concatenate(parts) for name, parts in found.items()}

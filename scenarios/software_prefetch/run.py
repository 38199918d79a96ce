"""What the questions share: references of the machine's levels, probes side by side, and the hint that is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.levels import find_walks
from setebench.experiments.lines.layout import GROUP_PAGES, TLB_PAGE_BYTES
from setebench.experiments.lines.placing import SETTLE_CYCLES, TARGET_BYTES, Place
from setebench.experiments.lines.serving import PARAMS as SERVING
from setebench.experiments.lines.serving import References, measure_references, reference
from setebench.machine import Region, Ticks
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks
from setebench.stats.ticks.mixture import Shares

from .answers import QUIETER, Answer
from .params import Layout, Params

Way = Callable[[Probe, Place, int], Probe]
"""Adds to a probe what is to be done with target `number` of a place, and times something as interval `number`."""

NEAR_LEVELS = ("l1", "l2")

NOTHING_DONE = (False, "drops", "nonblocking")
"""Answers that a hint which does nothing at all would give as well."""


def loaded(probe: Probe, place: Place, number: int) -> Probe:
    """One load of a target, timed as references are: its TLB entry is warm whatever came before."""
    return place.ready(probe, number, 1).start(number).load(place.targets[number]).stop(number)


def nothing(probe: Probe, place: Place, number: int) -> Probe:
    """The baseline of `prefetched`: the same time passes and nothing is done."""
    probe = place.ready(probe, number, 1)
    return loaded(probe.wait(SETTLE_CYCLES).fence(), place, number)


def prefetched(hint: str, *, elsewhere: bool = False) -> Way:
    """The target is prefetched with its TLB entry warm, right behind a load from its page (or from another page,
    `elsewhere`, both translations warm), and given time to arrive."""

    def way(probe: Probe, place: Place, number: int) -> Probe:
        probe = place.ready(probe, number, 1)
        if elsewhere:
            probe = place.ready(probe, (number + 1) % GROUP_PAGES, 1)
        return loaded(probe.prefetch(place.targets[number], hint).wait(SETTLE_CYCLES).fence(), place, number)

    return way


def flushed(probe: Probe, lines: Iterable[Operand]) -> Probe:
    """`probe`, then some lines brought to memory."""
    for line in lines:
        probe = probe.flush(line)
    return probe.fence().wait(SETTLE_CYCLES).fence()


def on_layouts(take: Callable[[], Sequence[Ticks]]) -> list[Ticks]:
    """Ticks of several kinds, shapes (n,), `take`n from so many layouts of lines as references are: each may fall badly
    for itself."""
    parts = [take() for _ in range(SERVING.layouts)]
    return [np.concatenate([each.ravel() for each in column]) for column in zip(*parts, strict=True)]


class Run:
    """One machine while it is asked."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context, self.region = context, region
        self.params = Params().quicker() if context.fast else Params()
        self.layout = Layout()
        self.samples = self.params.samples
        self.references: References = measure_references(context, region, self.samples // 2)
        self.step = step_ticks(context)
        means = {name: mean_ticks(ticks, self.step) for name, ticks in self.references.ticks.items()}
        self.memory_ticks = means["memory"] - means["l1"]
        self.rng = context.rng("shares of levels")
        self.hint = ""
        """The hint that questions are asked with: one that fills the first level, else any that does anything."""
        self.fills: dict[str, Answer] = {}
        self.ignored: set[str] = set()
        """Hints that did nothing at all in some turns."""
        self.samplings: list[dict[str, Ticks]] = []
        self._near: list[dict[str, Ticks]] = []
        self.landed: dict[str, dict[str, list[float]]] = {}
        self.across_page: bool | None = None
        self.prefetch_blocks = False

    def cycles_per_tick(self) -> float:
        """Right now."""
        return quick_cycles_per_tick(self.context)

    def refresh_references(self, samples: int) -> None:
        """Take those of the nearest levels once more. They are a few cycles apart, which a core that runs 2 % faster
        than when they were taken makes up by itself; so they come beside what they explain, as often as that."""
        walks = find_walks(self.context, self.region)
        near = [name for name in NEAR_LEVELS if name in self.references.levels]
        self._near.append({name: reference(self.context, self.region, name, walks[name], samples) for name in near})
        now = {name: np.concatenate([each[name] for each in self._near]) for name in near}
        self.references = References(self.references.ticks | now)

    def shares(self, *sets: Any) -> Shares:
        """What part of the loads in each set each level served, with intervals."""
        return self.references.shares(sets, self.rng)

    def ignored_in(self, turns: Sequence[Ticks]) -> NDArray[np.bool_]:
        """In which turns of loads from memory a hint did nothing at all."""
        found: NDArray[np.bool_] = self.references.shares(turns).of("memory") > self.params.quiet
        return found

    def side_by_side(self, level: str, ways: Mapping[str, Way], samples: int) -> dict[str, Ticks]:
        """About `samples` ticks of every way, shape (n,) each, on lines that lie in `level`; fewer where each
        repetition needs a long traversal.

        The ways take turns over the targets of a repetition, one of them being the baseline, which does all of it but
        for what is asked about; every layout deals anew. So drift, neighbours and hardware prefetchers fall on all of
        them alike."""
        names, context = list(ways), self.context
        rng = np.random.default_rng((context.seed, 41, context.layouts))
        # ever new targets, one in each page of a group: the same few again and again would teach prefetchers
        walk = find_walks(context, self.region)[level]

        def take() -> list[Ticks]:
            place = Place(context, self.region, level, walk)
            dealt = rng.permutation(np.arange(GROUP_PAGES) % len(names))
            probe = place.placed()
            for number, which in enumerate(dealt.tolist()):
                probe = ways[names[which]](probe, place, number)
            count = place.repetitions(-(-samples * len(names) // (SERVING.layouts * GROUP_PAGES)))
            ticks = self.timed(probe, place.placements(count + 1))
            return [ticks[:, dealt == which] for which in range(len(names))]

        return dict(zip(names, on_layouts(take), strict=True))

    def repetitions(self, loads: int) -> int:
        """How often to repeat a probe of so many loads of a kind on each layout, for about `samples` of them."""
        return max(2, -(-self.samples // (SERVING.layouts * loads)))

    def timed(self, probe: Probe, placements: Mapping[Base, NDArray[np.int64]]) -> Ticks:
        """Ticks of a probe on the CPU asked about; the first placement warms the code up and is left out."""
        return self.context.machine.run(probe, placements, cpu=self.context.cpu, warmup=1)

    def stretches(self, count: int, rng: np.random.Generator, step_lines: int = 1) -> NDArray[np.int64]:
        """Starts of random stretches of pages among those of targets, shifted by some lines, multiples of a step."""
        size = self.layout.stretch_pages * TLB_PAGE_BYTES
        first = -(-(self.region.size - min(TARGET_BYTES, self.region.size // 2)) // size)
        groups = rng.integers(first, self.region.size // size, count)
        shifts = step_lines * rng.integers(0, self.layout.shifts // step_lines, count)
        starts: NDArray[np.int64] = self.region.address + groups * size + shifts * self.region.line_size
        return starts

    def unless_ignored(self, found: Answer) -> Answer:
        """`found`, unless it says that prefetches did nothing while the hint does nothing in the plainest place either:
        some CPUs ignore a hint for seconds on end."""
        if found.value not in NOTHING_DONE:
            return found
        plain = self.side_by_side("memory", {self.hint: prefetched(self.hint), "": nothing}, self.samples // 4)
        ignored = self.ignored_in(np.array_split(plain[self.hint], SERVING.layouts))
        if not ignored.any():
            return found
        times = f"in {ignored.sum()} of {len(ignored)} turns"
        return Answer(reason=f"prefetches {self.hint} do nothing at all at this time, {times}; {QUIETER}")

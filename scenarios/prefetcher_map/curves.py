"""The curves: which lines of a page are in a cache after 1, 2, 3, ... accesses, for 16 access patterns.

Each pattern changes one property of the base pattern, which is loads by distinct instructions, ascending by one line,
each completed before the next, of lines in memory. Curves are stored as they are and drawn as heat maps, and all
findings follow from them or from further trials (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.presence import MEMORY, Access, Samples, Trial, Trials
from setebench.stats.ticks.mixture import unmix

from .model import Step
from .params import Params

Numbers = NDArray[np.float64]


def steps_of(accesses: Sequence[Access], line_size: int) -> list[Step]:
    """Return loads (`accesses`) as steps of a model, with lines of `line_size` bytes. Loads by instructions of their
    own get distinct negative instruction numbers; other loads keep the number of the instruction that they share."""
    return [
        Step(each.at // line_size, each.at, -2 - number if each.ip is None else each.ip)
        for number, each in enumerate(accesses)
    ]


BY_ONE = "every 3rd line, one instruction"
"""Name of the curve of one instruction with a stride of several lines."""
SHIFT = 4
"""Lines by which the first access of a footprint is moved; the footprint stays in the same region of the page."""


@dataclass(frozen=True)
class Curve:
    """An access pattern (`trial`), its `name`, and the numbers of accesses (`counts`) after which lines are probed."""

    name: str
    trial: Trial
    counts: tuple[int, ...]

    def last(self, line_size: int) -> NDArray[np.int64]:
        """Return the line (of `line_size` bytes) that the last access loads, for each of the `counts`."""
        return np.array([self.trial.accesses[count - 1].at // line_size for count in self.counts], dtype=np.int64)

    def touched(self, line_size: int, count: int) -> set[int]:
        """Return the lines (of `line_size` bytes) of the page that the first `count` accesses use."""
        return {each.at // line_size for each in self.trial.accesses[:count] if each.page == 0}


@dataclass(frozen=True)
class Seen:
    """One round of a curve, shapes (counts of accesses, lines). `present` is the share of repetitions with the line in
    any cache, `first` the share in L1, `levels` the commonest level (an index into `names`); NaN and -1 for lines that
    were accessed or in L2 before. `apart` is the share of L2's loads that the clock can distinguish from L1's."""

    curve: Curve
    names: tuple[str, ...]
    present: Numbers
    first: Numbers
    levels: NDArray[np.int64]
    apart: float = 1.0

    @property
    def surely(self) -> float:
        """Number of prefetched lines, weighted by certainty; co-runners lower it, as they train and evict."""
        return float(np.nansum(np.maximum(self.present - 0.5, 0)))

    def until(self, most: int) -> Seen:
        """Return what was seen after `most` accesses at most."""
        counts = tuple(count for count in self.curve.counts if count <= most)
        rows = slice(len(counts))
        cut = replace(self.curve, counts=counts)
        return replace(self, curve=cut, present=self.present[rows], first=self.first[rows], levels=self.levels[rows])

    def evidence(self, line_size: int) -> dict[str, Any]:
        """Return the curve as plain values for the result file. By number of accesses and line they have the commonest
        level (as an index into the levels' names) and the share of repetitions in which the line was in a cache."""
        lines = [access.at // line_size for access in self.curve.trial.accesses if access.page == 0]
        return {
            "levels": list(self.names), "touched": lines, "counts": list(self.curve.counts),
            "nearest": self.levels.tolist(),
            "present": [[None if np.isnan(each) else round(float(each), 2) for each in row] for row in self.present],
        }  # fmt: skip


def battery(trials: Trials, params: Params) -> Iterator[Curve]:
    """Yield the curves to measure, one access pattern each, except those of `practices` and of `runs`."""
    size, lines = trials.line_size, trials.page_lines
    up = list(range(params.first_line, min(params.first_line + params.most_accesses, lines - 4)))
    down = [lines - 1 - line for line in up]
    shuffled = [int(each) for each in np.random.default_rng(5).permutation(up)]
    gaps = _spaced(2, (2, 3), lines - 3)
    end = list(range(lines - len(up), lines))
    window = (0, 2 * lines)

    def made(run: Sequence[int], ip: int | None = None, kind: Any = "load") -> Trial:
        return Trial(tuple(Access(line * size, kind, ip) for line in run))

    small = tuple(Access(20 % lines * size + number * size // 4, "load", 1) for number in range(16))
    hints = trials.context.machine.facts.prefetch_hints
    trials_by_name = {
        "base": made(up),
        "one instruction": made(up, 1),
        "descending, one instruction": made(down, 1),
        "shuffled": made(shuffled),
        "gaps of two and three": made(gaps),
        "every 5th line": made(_spaced(2, (5,), lines - 2)),
        BY_ONE: made(_spaced(2, (3,), lines - 2), 1),
        "a quarter of a line, one instruction": Trial(small),
        "lines held in level 2": replace(made(up[:16]), held=tuple(up[:16])),
        "stores": made(up, 1, "store"),
        "ordered by address": replace(made(up, 1), order="chained"),
        "one line again, not ordered": replace(made([up[16 % len(up)]] * 8, 1), order="free"),
        "page end": replace(made(end, 1), window=window),
        "page end, not ordered": replace(made(end, 1), window=window, order="free"),
    }
    if hints:
        trials_by_name["prefetches"] = made(up, 1, hints[0])
    for name, trial in trials_by_name.items():
        counts = params.counts if "not ordered" not in name and not trial.held else params.few_counts
        if name in ("base", "one instruction", "descending, one instruction", "one line again, not ordered"):
            counts = params.many_counts
        if trial.window:
            counts = (*params.few_counts, len(end) - 1, len(end))
        yield Curve(name, trial, tuple(n for n in counts if n <= len(trial.accesses)))


def _spaced(first: int, gaps: tuple[int, ...], end: int) -> list[int]:
    return [line for line in accumulate([first, *gaps * 12][:24]) if line < end]


def footprint(page_lines: int, params: Params) -> list[int]:
    """Return the footprint: lines (below `page_lines`, of no common stride) at which pages are accessed in training."""
    return [line for line in params.footprint if line < page_lines]


def practices(trials: Trials, params: Params) -> Iterator[Curve]:
    """Yield curves that access several pages at the lines of a footprint, and then one line of a new page. This access
    is like the first one in each of those pages, or by another instruction, or to another line."""
    size, feet = trials.line_size, footprint(trials.page_lines, params)
    practice = tuple(
        Access(line * size, "load", 10 + number, page=page)
        for page in range(1, params.practice_pages + 1)
        for number, line in enumerate(feet)
    )
    shifted = feet[0] - SHIFT
    left = Access(feet[0] * size, "leave", page=1)
    for name, ip, line in (("practice", 10, feet[0]), ("other instruction", 3, feet[0]), ("other line", 10, shifted)):
        trial = Trial((*practice, left, Access(line * size, "load", ip)))
        yield Curve(name, trial, (len(trial.accesses),))


def runs(trials: Trials, params: Params) -> Iterator[Curve]:
    """Yield a curve for each stride: it shows what is prefetched after 1, 2, … accesses at that stride in a page. All
    accesses are by one instruction (names with "one"), or each is by an instruction of its own ("own")."""
    for who, ip in (("one", 1), ("own", None)):
        for stride in params.strides:
            lines = range(params.first_line, trials.page_lines - params.first_line, stride)[: params.lead_accesses]
            accesses = tuple(Access(line * trials.line_size, "load", ip) for line in lines)
            yield Curve(f"{who}.stride_{stride}", Trial(accesses, practised=True), tuple(range(1, len(lines) + 1)))


def leads_of(curve: Curve, came: NDArray[np.bool_], line_size: int) -> list[int]:
    """Return for each number of accesses of `curve` how many lines ahead of the last one the furthest prefetched line
    lies, 0 without one. `came` says which lines were prefetched, shape (numbers of accesses, lines)."""
    ahead = (row[line:] for row, line in zip(came, curve.last(line_size), strict=True))
    return [int(max(np.flatnonzero(each), default=0)) for each in ahead]


def levels_ahead(rounds: Sequence[Seen], came: NDArray[np.bool_], line_size: int) -> dict[str, list[int]]:
    """Return the distances in lines ahead of a run at which prefetches fill L1 ("l1"), and those at which they only
    fill a further level ("l2"). `came`, shape (access numbers, lines), masks the prefetched lines; at each distance the
    shares in `rounds` of loads that each level served are summed, and the larger sum decides."""
    rows, lines = np.nonzero(came)
    distances = np.maximum(lines - rounds[0].curve.last(line_size)[rows], 0)
    first = np.bincount(distances, np.mean([seen.first[came] for seen in rounds], axis=0), 1)
    present = np.bincount(distances, np.mean([seen.present[came] for seen in rounds], axis=0), 1)
    first[0] = present[0] = 0
    inner = first > present / 2
    return {"l1": np.flatnonzero(inner).tolist(), "l2": np.flatnonzero((present > 0) & ~inner).tolist()}


def measure(trials: Trials, curve: Curve, params: Params, opened: int = 0) -> Seen:
    """Measure one round of a curve. Each line is timed a few times after the largest number of accesses that leave it
    untouched. As prefetched lines stay, only lines in a cache then are timed after fewer accesses, too. Every hit (line
    and number of accesses) is timed again, more often. Each access is first made alone in `opened` other pages."""
    trial = replace(curve.trial, opened=opened) if opened else curve.trial
    lines = range(*(trial.window or (0, trials.page_lines)))
    there = {count: {*curve.touched(trials.line_size, count), *trial.held} for count in curve.counts}
    cells = [(line, count) for count in curve.counts for line in lines if line not in there[count]]
    latest = dict(cells)
    shares = shares_of(trials.sample(trial, [*latest.items()], params.first))
    came = {line for (line, _), share in shares.items() if share[0] > params.doubt}
    if earlier := [(line, count) for line, count in cells if line in came and count < latest[line]]:
        shares |= shares_of(trials.sample(trial, earlier, params.first))
    if doubtful := [cell for cell, share in shares.items() if share[0] > params.doubt]:
        shares |= shares_of(trials.sample(trial, doubtful, params.again))
    shares = {(line, count): shares.get((line, count), shares[line, latest[line]]) for line, count in cells}
    shape = len(curve.counts), len(lines)
    present, first = np.full(shape, np.nan), np.full(shape, np.nan)
    levels = np.full(shape, -1, dtype=np.int64)
    for (line, count), share in shares.items():
        at = curve.counts.index(count), line
        present[at], _, _, first[at], levels[at] = share
    return Seen(curve, tuple(trials.controls), present, first, levels, _apart(trials.controls))


Share = tuple[float, float, float, float, int]
"""Of one line: share of repetitions in a cache, its interval (low, high), share in L1, index of the commonest level."""


def shares_of(samples: Samples) -> dict[tuple[int, int], Share]:
    """Return for each cell of `samples` (line, number of accesses) its `Share`: how often the line was in a cache, and
    in which. Times of its loads are compared with those of controls, lines whose level is known."""
    cells, which = np.unique(np.stack([samples.lines, samples.counts], axis=1), axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    sets = np.split(samples.ticks[order], np.flatnonzero(np.diff(which.ravel()[order])) + 1)
    shares = unmix(samples.controls, sets)
    memory = shares.levels.index(MEMORY)
    found: dict[tuple[int, int], Share] = {}
    for number, (line, count) in enumerate(cells.tolist()):
        value = shares.value[number]
        if np.isnan(value[memory]):
            value = np.eye(len(value))[memory]
        present = 1.0 - float(value[memory])
        nearest = int(np.argmax(value[:-1])) if present >= 0.5 else memory
        low, high = (1.0 - float(bound[number, memory]) for bound in (shares.high, shares.low))
        found[line, count] = present, low, high, float(value[0]), nearest
    return found


def _apart(controls: Mapping[str, NDArray[np.int64]]) -> float:
    """Return the share of loads from L2 that take longer than 95 % of those from L1."""
    if "l2" not in controls:
        return 0.0
    return float(np.mean(controls["l2"] > np.quantile(controls["l1"], 0.95)))

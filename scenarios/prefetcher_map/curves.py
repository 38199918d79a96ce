"""A fixed battery of curves: which lines of a page are there after 1, 2, 3, ... accesses, for 16 ways to access it.

One factor is changed at a time from the base: distinct instructions, ascending by one line, loads, each done before the
next, lines in memory. They are stored as they are, drawn as heat maps, and all that is said of prefetchers follows from
them or from questions of the same kind (`rules`).
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
    """Loads of one page as a model sees them; those by instructions of their own have a negative one each."""
    return [
        Step(each.at // line_size, each.at, -2 - number if each.ip is None else each.ip)
        for number, each in enumerate(accesses)
    ]


BY_ONE = "every 3rd line, one instruction"
"""The curve of a stride of several lines."""
SHIFT = 4
"""Lines between the first access of a footprint and that at another line, as many as keep it in its region."""


@dataclass(frozen=True)
class Curve:
    """A way to access a page, and after how many accesses its lines are looked at."""

    name: str
    trial: Trial
    counts: tuple[int, ...]

    def last(self, line_size: int) -> NDArray[np.int64]:
        """The line of the latest access, shape (counts,)."""
        return np.array([self.trial.accesses[count - 1].at // line_size for count in self.counts], dtype=np.int64)

    def touched(self, line_size: int, count: int) -> set[int]:
        """Lines of the first `count` accesses."""
        return {each.at // line_size for each in self.trial.accesses[:count] if each.page == 0}


@dataclass(frozen=True)
class Seen:
    """What a curve showed: `present` (in any cache) and `first` (in level 1) are fractions of repetitions, `levels`
    indices of the commonest level into `names`, shapes (counts, lines); nan and -1 where a line was accessed or is in
    level 2 from the start. `apart`: how far levels 1 and 2 can be distinguished by one load."""

    curve: Curve
    names: tuple[str, ...]
    present: Numbers
    first: Numbers
    levels: NDArray[np.int64]
    apart: float = 1.0

    @property
    def surely(self) -> float:
        """How many lines come for sure, fewer of which do beside a co-runner: it trains prefetchers, and evicts."""
        return float(np.nansum(np.maximum(self.present - 0.5, 0)))

    def evidence(self, line_size: int) -> dict[str, Any]:
        """The curve as JSON holds it."""
        lines = [access.at // line_size for access in self.curve.trial.accesses if access.page == 0]
        return {
            "levels": list(self.names), "touched": lines, "counts": list(self.curve.counts),
            "nearest": self.levels.tolist(),
            "present": [[None if np.isnan(each) else round(float(each), 2) for each in row] for row in self.present],
        }  # fmt: skip


def battery(trials: Trials, params: Params) -> Iterator[Curve]:
    """The curves but for practice (`practices`)."""
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
    """Lines of the footprint that a page has."""
    return [line for line in params.footprint if line < page_lines]


def practices(trials: Trials, params: Params) -> Iterator[Curve]:
    """The first access to a page after others were accessed in the same way: by the same instruction at the same line,
    by another instruction, and at another line."""
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
    """Runs as programs make them, again and again in other pages: by one instruction, and by as many as there are
    accesses."""
    for who, ip in (("one", 1), ("own", None)):
        for stride in params.strides:
            lines = range(params.first_line, trials.page_lines - params.first_line, stride)[: params.lead_accesses]
            accesses = tuple(Access(line * trials.line_size, "load", ip) for line in lines)
            yield Curve(f"{who}.stride_{stride}", Trial(accesses, practised=True), tuple(range(1, len(lines) + 1)))


def leads_of(curve: Curve, came: NDArray[np.bool_], line_size: int) -> list[int]:
    """Return for each number of accesses how far ahead of the last one, in lines, the furthest line lies that `came`,
    shape (numbers of accesses, lines); 0 where none did."""
    ahead = (row[line:] for row, line in zip(came, curve.last(line_size), strict=True))
    return [int(max(np.flatnonzero(each), default=0)) for each in ahead]


def levels_ahead(rounds: Sequence[Seen], came: NDArray[np.bool_], line_size: int) -> dict[str, list[int]]:
    """Return the distances in lines ahead of a run at which prefetches fill L1 ("l1"), and those at which they fill a
    further level only ("l2"). All lines at one distance decide together, as single loads are too coarse for that."""
    rows, lines = np.nonzero(came)
    distances = np.maximum(lines - rounds[0].curve.last(line_size)[rows], 0)
    first = np.bincount(distances, np.mean([seen.first[came] for seen in rounds], axis=0), 1)
    present = np.bincount(distances, np.mean([seen.present[came] for seen in rounds], axis=0), 1)
    first[0] = present[0] = 0
    inner = first > present / 2
    return {"l1": np.flatnonzero(inner).tolist(), "l2": np.flatnonzero((present > 0) & ~inner).tolist()}


def measure(trials: Trials, curve: Curve, params: Params, opened: int = 0) -> Seen:
    """The curve's lines: each a few times after the most accesses before its own. What has come stays, so that only
    lines that came at all are measured after fewer; and again, where a few times are not enough."""
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
"""Fraction in any cache, its interval, fraction in level 1, index of the commonest level."""


def shares_of(samples: Samples) -> dict[tuple[int, int], Share]:
    """By cell (line, accesses made)."""
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
    """The part of level 2's loads that takes longer than nearly all of level 1's."""
    if "l2" not in controls:
        return 0.0
    return float(np.mean(controls["l2"] > np.quantile(controls["l1"], 0.95)))

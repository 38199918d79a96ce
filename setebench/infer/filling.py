"""Ways and lines of a cache from how many of a number of lines stay that are put into it while it is empty.

A set takes what comes as long as a way is empty, whatever it replaces later, and holds all its ways when more came. So
of n lines that fall into sets at random the share that is lost follows from sets and ways alone: none of a set that
got no more lines than ways, the excess of every other. The curve's end tells how many lines there is room for, its bend
how unequal sets are when they overflow, which is the ways: sets of many ways overflow late and nearly together. Knows
no machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

ROOM = np.exp(np.linspace(np.log(0.75), np.log(1.25), 61))
"""Lines that find room, tried, in those of the cache."""

MOST_WAYS = 40

BEST_BY = 16.0
"""Sum of squared errors by which the best number of ways must be better than any other that is possible: four standard
errors."""

MOST_MISFIT = 3.0
"""Squared errors per degree of freedom at most."""

OFFSET_CYCLES, HEIGHT_SHARE, LEAST_HEIGHT_CYCLES = 1.0, 0.08, 1.5
"""Standard deviations of what is known beforehand: cycles of a load that hits, and how many more one takes that
misses."""

NEARER_CYCLES = 2.0
"""Standard deviation of what a few lines in the cache before take off, where all its lines are half of all."""

NEAR_BY = 6.0
"""And the ways that are told, explain the curve so nearly as well as any number does, whether or not it goes with a
size: two and a half standard errors."""

TAKEN_SHARE, SPARE_SHARE = 0.12, 0.03
"""Of a cache's lines, so many may be taken by what nobody asked for; and so many more may seem to be there."""

MORE_SHARE = 0.06
"""The same of a cache whose size is asked for, of several."""


@dataclass(frozen=True)
class Filling:
    """After so many `lines` (shape (stops,)), the mean cycles of loads of those of them that passed before the `latest`
    ones; `whitened`, shape (stops, stops), makes errors of such means independent and of one; `page_lines` lines in a
    row share a page."""

    lines: Values
    cycles: Values
    whitened: Values
    latest: int
    page_lines: int


def whitening(cycles: Values) -> Values:
    """What makes the errors of the means over several fillings independent and of one; `cycles`, shape (fillings,
    stops), are the means of each. All stops of a filling share its pages, so their errors hang together, more so the
    fewer classes of pages there are; of that what is clearly more than chance counts."""
    fillings, stops = cycles.shape
    centred = cycles - cycles.mean(axis=0)
    error = np.sqrt((centred**2).sum(axis=0) / (fillings - 1) / fillings)
    error = np.maximum(error, 0.5 * float(np.median(error)) + 1e-6)
    correlation = (centred / error).T @ (centred / error) / (fillings - 1) / fillings
    value, vector = np.linalg.eigh(correlation)
    # eigenvalues of so few independent fillings lie below this (Marchenko and Pastur)
    common = np.where(value > (1.0 + (stops / fillings) ** 0.5) ** 2, value - 1.0, 0.0)
    covariance = np.eye(stops) + (vector * common) @ vector.T
    whitened: Values = np.linalg.inv(np.linalg.cholesky(covariance)) / error[None, :]
    return whitened


@dataclass(frozen=True)
class Explained:
    """A number of ways, how many lines then find room, and the squared errors that are left."""

    ways: int
    room: float
    left: float


@dataclass(frozen=True)
class Told:
    """The ways, where one number only explains the curve; else why not, and whether further fillings may tell."""

    ways: int | None
    reason: str = ""
    close: bool = False


@dataclass(frozen=True)
class Holding:
    """A cache's size, in lines, and how many of those put in latest the caches before then hold that it doesn't."""

    lines: int
    elsewhere: float


def lost_share(lines: Values, sets: float, ways: int, page_lines: int | None, latest: Values | None = None) -> Values:
    """Share of `lines` (shape (n,)) that an empty cache loses. Lines of a page go to other sets each, so a page brings
    one line of a set or none; with `page_lines` None an index so hashed that every line is on its own. Not counting
    what is lost of so many of the `latest` lines where any line of a full set is replaced alike; the oldest-first order
    loses none of these."""
    one, draws = (1.0 / sets, lines) if page_lines is None else (page_lines / sets, lines / page_lines)
    mean = one * draws
    count = np.arange(int(mean.max() + 12.0 * mean.max() ** 0.5 + ways + 12))
    # the binomial distribution, from each number to the next; draws need not be whole
    left = draws[:, None] - count[None, :-1]
    steps = np.log(np.maximum(left, 1e-300) / (count[1:] * (1.0 / one - 1.0)))
    none = draws * np.log1p(-one)
    chance = np.exp(np.cumsum(np.column_stack([none, steps]), axis=1))
    excess = np.maximum(count - ways, 0)[None, :]
    late = 0.0 if latest is None else _late_losses(count[None, :] * (latest / lines)[:, None], excess, ways)
    lost: Values = (chance * (excess - late)).sum(axis=1) / mean
    return lost


def _late_losses(late: Values, excess: NDArray[np.int64], ways: int) -> Values:
    """How many of the `late` last lines of a full set are lost that got so many in `excess` of its ways, each replaced
    by the next one with the same chance: those that came behind a line may have replaced it."""
    stays = 1.0 - 1.0 / ways
    behind = np.clip(late - 0.5, 0.0, excess)
    most = np.maximum(late - 0.5 - behind, 0.0)  # whose set was not full yet when they came
    lost: Values = behind - (1.0 - stays**behind) / -np.log(stays) + most * (1.0 - stays**excess)
    return lost


def told(measured: Filling, size: int, hit: float, miss: float, before: int) -> Told:
    """Ways of a cache of `size` lines; `hit` and `miss` are cycles of loads, `before` the lines of the cache before,
    which may come on top."""
    trials = [_explained(measured, ways, size, hit, miss) for ways in range(1, MOST_WAYS + 1)]
    known = {each.ways: each for each in trials if each is not None}
    best = min(known.values(), key=lambda each: each.left, default=None)
    if best is None or best.left > MOST_MISFIT * len(measured.lines):
        return Told(None, "no number of ways explains how an empty cache fills")
    if not (1.0 - TAKEN_SHARE) * size < best.room < (1.0 + SPARE_SHARE) * (size + before):
        return Told(None, "an empty cache doesn't fill as one of its size does; a neighbour may use it")
    # where the curve isn't quite explained, errors are larger than thought
    scale = max(1.0, best.left / max(len(measured.lines) - 4, 1))
    near = [ways for ways in _divisors(size) if ways in known and known[ways].left < best.left + scale * BEST_BY]
    if len(near) > 1:
        return Told(None, f"an empty cache fills as one of {' or '.join(map(str, sorted(near)))} ways does", close=True)
    if not near or known[near[0]].left > best.left + scale * NEAR_BY:
        return Told(None, f"an empty cache fills as one of {best.ways} ways does, which don't go with its size")
    return Told(near[0])


def sizes_told(
    measured: Filling, ways: int, holdings: Collection[Holding], hit: float, miss: float, orders: Collection[bool]
) -> list[int]:
    """Those sizes of `holdings`, in lines, that a cache of so many ways may have; none where its ways don't explain the
    curve. `orders`: whether any line of a set is replaced alike, or the oldest first; one of these."""
    found = [
        (alike, own, each)
        for alike in orders
        for own in holdings
        for each in _all_explained(measured, ways, own.lines, hit, miss, own.elsewhere, alike)
    ]
    order, likely, best = min(found, key=lambda each: each[2].left, default=(False, None, None))
    if likely is None or best is None or best.left > MOST_MISFIT * len(measured.lines):
        return []
    # where the curve isn't quite explained, errors are larger than thought
    scale = max(1.0, best.left / max(len(measured.lines) - 4, 1))

    def told_by(most: float, alike: bool, elsewhere: float) -> set[int]:
        same = ((own.lines, each) for one, own, each in found if (one, own.elsewhere) == (alike, elsewhere))
        sizes = {own.lines for own in holdings if own.elsewhere == elsewhere}
        rooms = [each.room for _, each in same if each.left <= best.left + most]
        return {size for size in sizes for room in rooms if _goes_with(room, size)}

    own = told_by(0.0, order, likely.elsewhere) or told_by(scale * NEAR_BY, order, likely.elsewhere)
    if not own:
        return []
    rivals = {(alike, each.elsewhere) for alike in orders for each in holdings} - {(order, likely.elsewhere)}
    return sorted(own.union(*(told_by(scale * BEST_BY, *rival) for rival in rivals)))


def _goes_with(room: float, size: int) -> bool:
    """Whether so much room may be that of a cache of this size."""
    return (1.0 - TAKEN_SHARE) * size < room < (1.0 + MORE_SHARE) * size


def _divisors(size: int) -> Iterator[int]:
    """Ways that make such a size with a power of two of sets. Not one: a cache that replaces any way, also while others
    are empty, fills as one of single ways does."""
    sets = 1
    while size % sets == 0:
        if 1 < size // sets <= MOST_WAYS:
            yield size // sets
        sets *= 2


def _explained(measured: Filling, ways: int, room: float, hit: float, miss: float) -> Explained | None:
    """The room that explains the curve best with these ways, however sets are chosen; None with too few sets."""
    return min(_all_explained(measured, ways, room, hit, miss), key=lambda each: each.left, default=None)


def _all_explained(
    measured: Filling, ways: int, room: float, hit: float, miss: float, elsewhere: float = 0.0, alike: bool = False
) -> Iterator[Explained]:
    """How well each room near this one does, `elsewhere` as in `Holding`; `alike`: of a cache that replaces any line
    of a set alike."""
    put = measured.lines - elsewhere
    latest = np.full_like(put, measured.latest - elsewhere) if alike else None
    for each in (ROOM * room).tolist():
        sets = each / ways
        if sets <= measured.page_lines:
            continue
        for page_lines in (None, measured.page_lines):
            left = _left(measured, lost_share(put, sets, ways, page_lines, latest) * put, hit, miss)
            yield Explained(ways, each, left)


def _left(measured: Filling, lost: Values, hit: float, miss: float) -> float:
    """Squared errors with so many lines `lost`, the best cycles of a hit and of what a miss costs more, near those that
    are known."""
    # the latest lines are not lost yet, so among the others the share is higher
    among = np.minimum(lost / (measured.lines - measured.latest), 1.0)
    height = max(LEAST_HEIGHT_CYCLES, HEIGHT_SHARE * (miss - hit))
    columns = (np.ones_like(among), among, measured.latest / measured.lines)
    known = np.diag(1.0 / np.array([OFFSET_CYCLES, height, NEARER_CYCLES]))
    rows = np.vstack([measured.whitened @ np.stack(columns, axis=1), known])
    right = np.append(measured.whitened @ measured.cycles, [hit / OFFSET_CYCLES, (miss - hit) / height, 0.0])
    solution, *_ = np.linalg.lstsq(rows, right, rcond=None)
    return float(((rows @ solution - right) ** 2).sum())

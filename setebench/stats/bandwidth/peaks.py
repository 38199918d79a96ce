"""The best of several rounds, between what that of another run would lie, and when there is none.

Whatever else runs can only slow a stream down, so the best round says most of the machine. But how good the best is
depends on how much else ran, and that comes and goes. Rounds that lie apart in time, others between them, show by how
much: the spread of their bests is that between times, not that of one moment. Student's t makes of few rounds what few
rounds can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.drift import LEAST_ROUNDS, drift_half_width
from setebench.stats.estimate import Interval, over_epochs


@dataclass(frozen=True, kw_only=True)
class Params:
    """When rounds show a rate.

    An interval reaches `run_to_run` of each end further, for what all rounds of a run have in common: where its pages
    and its instructions lie. One whose ends are further apart than a factor of `widest` shows no rate; two CPUs of a
    guest that now and then share a core have half the rate then, which is still reported, with an interval that says
    so. Rounds within a factor of `equal` show one, however few they are: Student's t of two makes much of any
    difference."""

    run_to_run: float = 0.03
    widest: float = 3.0
    equal: float = 1.1


PARAMS = Params()


def best_of_rounds(rates: ArrayLike, shared: bool = False, params: Params = PARAMS) -> Interval | None:
    """The greatest of what several rounds reached, shape (n,), from the 95 % interval of their mean on, which holds it
    as well, or up to it. None for a single round, which says nothing of others.

    What is `shared` with others drifts in longer times than a run lasts: then the interval holds as much of that as
    `stats.drift` foretells."""
    series = np.asarray(rates, dtype=np.float64)
    if len(series) < 2:
        return None
    best, mean = float(series.max()), float(series.mean())
    half = over_epochs(series).half_width
    if shared and len(series) >= LEAST_ROUNDS:
        half = max(half, drift_half_width(series, shared=True))
    low, high = max(mean - half, 0.0), max(best, mean + half)
    return Interval(best, low * (1 - params.run_to_run), high * (1 + params.run_to_run))


def too_far_apart(rates: ArrayLike, estimate: Interval, params: Params = PARAMS) -> bool:
    """Whether rounds, shape (n,), differed so much that they and their estimate show no rate."""
    series = np.asarray(rates, dtype=np.float64)
    return bool(series.max() > params.equal * series.min()) and estimate.high > params.widest * estimate.low


def why_no_rate(rates: Sequence[float], best: float, together: float = 1.0, shared: bool = False) -> str:
    """Why rounds that reached these GB/s give no rate; "" if they do. `best` is that of repetitions in which all
    threads ran at once, if there were any, `together` less than 1 where they did for too small a fraction of the time;
    `shared` as for `best_of_rounds`."""
    if together < 1.0:
        return f"all threads ran at once for {together:.0%} of the time only: something else used a CPU"
    if max(rates) > PARAMS.equal * best:  # though there the time that a thread waited for another counts, too
        return (
            f"{max(rates):.3g} GB/s were reached while threads waited for each other, and {best:.3g} while all ran at "
            "once: something else used the machine; try again when less goes on"
        )
    interval = best_of_rounds(rates, shared)
    if not interval or not too_far_apart(rates, interval):
        return ""
    return (
        f"{len(rates)} rounds reached from {min(rates):.3g} to {max(rates):.3g} GB/s: something else used the machine "
        "in some of them, and another run may reach as little as the worst; try again when less goes on"
    )


def peak(best: float, rounds: Sequence[float], shared: bool) -> Interval | None:
    """The best of all rounds, with an interval that holds it as far as runs differ. None for a single round."""
    found = best_of_rounds(rounds, shared)
    return found and Interval(best, min(found.low, best * (1 - PARAMS.run_to_run)), found.high)


SLOWED = (
    "in all rounds something slowed these CPUs down, maybe unseen by this system: another thread of a core, or a "
    "hypervisor that runs them on one; run again at a quieter time"
)


def rate(parameter: str, best: float, around: Interval | None, how: tuple[str, str], *, alone: bool) -> Finding:
    """The best of a number of rounds, without an interval where a single one says nothing of others; `how` is method
    and evidence. Where none was `alone`, what is reached at least: others took some of it away."""
    if not alone:
        least = best * (1 - PARAMS.run_to_run)
        return decide.backed(decide.at_least(parameter, least, "GB/s", SLOWED), how[1])
    return decide.measured(parameter, around, "GB/s", *how) if around else decide.chosen(parameter, best, "GB/s", *how)

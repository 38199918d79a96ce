"""Whether a cache takes the lines that it evicts out of the levels before it.

A few lines are used so often that the first cache keeps them, so the outer one doesn't hear of their use. A stream goes
through both. An inclusive outer cache takes each of them once per as many lines as it holds; any other one takes none.
What the same uses cost beside a stream that the outer cache holds is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.traversals import lines_in_use
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import backed, one_of

Lines = NDArray[np.int64]
METHOD = "losses of lines in use beside a stream"


@dataclass(frozen=True, kw_only=True)
class Params:
    """`hot` lines are used after every `first_share` of the first cache's lines, in a stream `reach` times what the
    outer cache holds, behind `before` of it; and as often in a stream of `held` of it, which it holds, and of `beside`
    (one part), which the first cache holds, or the second one that is asked. Up to
    `most_passes` of what it holds go by each time, `least_passes` at least, and no more than `seconds` allow by what
    the machine says that lines cost its user. Where the second cache takes lines out of the first, uses lie
    `second_ratio` times the first cache's lines apart, up to `second_share` of the second's, so that the second one is
    asked: at least `outgrown` times the first's.

    An inclusive cache loses one of a line per pass, give or take `spread` (its lines are not known exactly, nor what it
    replaces), another none, give or take `strays`; `other` is how often neither is so, with up to `most` losses. Errors
    come from `blocks` of uses. All this up to `rounds` times, until one answer has `settled`."""

    hot: int = 16
    first_share: float = 0.125
    before: float = 1.2
    reach: float = 2.5
    held: float = 0.3
    beside: float = 0.0
    most_passes: float = 30.0
    least_passes: float = 0.6
    seconds: float = 4.0
    second_ratio: float = 3.0
    second_share: float = 0.16
    outgrown: float = 1.5
    spread: float = 0.25
    strays: float = 0.08
    other: float = 0.05
    most: float = 4.0
    blocks: int = 16
    rounds: int = 12
    settled: float = 0.99


@dataclass(frozen=True)
class Question:
    """An outer cache of about `lines`, its level's number (2 or 3), and what is known of those before: the first one's
    lines, the second one's, and whether that takes lines out of the first."""

    level: int
    lines: int
    first: int
    second: int = 0
    second_takes: bool = False


@dataclass(frozen=True)
class Losses:
    """Of a line in use, per pass of as many lines as the outer cache holds: how often it was lost, the error of that,
    and how often the inner cache gave it up by itself."""

    lost: float
    error: float
    given_up: float


def inclusive(context: Context, region: Region, asked: Question, params: Params) -> Finding:
    """Whether the level includes the one before it."""
    parameter = f"cache.l{asked.level - 1}.inclusive_in_l{asked.level}"
    page_lines = TLB_PAGE_BYTES // region.line_size - 1
    apart, inner = max(1, round(params.first_share * asked.first / page_lines)), 0
    if asked.second_takes:
        apart, inner = int(min(params.second_ratio * asked.first, params.second_share * asked.second) / page_lines), 1
        if apart * page_lines < params.outgrown * asked.first:
            return one_of(parameter, {}, "bool", METHOD, "a second cache hardly larger than the first takes its lines")
    pages = -(-int(params.reach * asked.lines / page_lines) // apart) * apart + apart
    affordable = params.seconds * context.machine.facts.lines_per_second / max(asked.lines, 1)
    passes = min(params.most_passes, (affordable - params.before - params.held) / 3)
    if not asked.lines or pages > region.size // TLB_PAGE_BYTES - params.hot or passes < params.least_passes:
        return one_of(parameter, {}, "bool", METHOD, "the outer cache's size is not known, or too large for a stream")
    context.progress(f"whether level {asked.level} takes lines out of the one before")
    rng = context.rng(60 + asked.level)
    drawn = region.address + rng.permutation(region.size // TLB_PAGE_BYTES)[: params.hot + pages] * TLB_PAGE_BYTES
    hot = drawn[: params.hot] + rng.integers(0, page_lines, params.hot) * region.line_size
    where, rounds = (region, hot, drawn[params.hot :].reshape(-1, apart)), int(affordable / (3 * passes)) + 1
    several: list[Losses] = []
    posterior: dict[bool | None, float] = {}
    while len(several) < min(rounds, params.rounds) and max(posterior.values(), default=0.0) < params.settled:
        several.append(_losses(context, where, asked, (inner, passes), params))
        counted = _together(several)
        posterior = inclusion_posterior(counted, params)
    context.evidence[f"l{asked.level}_losses"] = [
        round(each, 3) for each in (counted.lost, counted.error, counted.given_up)
    ]
    found = backed(one_of(parameter, posterior, "bool", METHOD), f"l{asked.level}_losses")
    if found.value is None:
        reason = (
            f"a line in use is lost {counted.lost:.2f} times per pass, give or take {2 * counted.error:.2f}, and given "
            f"up {counted.given_up:.2f} times by the cache before"
        )
        return one_of(parameter, {}, "bool", METHOD, reason)
    return found


def _together(several: list[Losses]) -> Losses:
    """Rounds by what they are worth: others take lines in bursts, which show in a round's error."""
    lost, error, given_up = np.array([(each.lost, max(each.error, 1e-9), each.given_up) for each in several]).T
    worth = error**-2 / (error**-2).sum()
    spread = float(np.sqrt((worth * (lost - worth @ lost) ** 2).sum() / max(1, len(lost) - 1)))
    return Losses(float(worth @ lost), max(float((error**-2).sum()) ** -0.5, spread), float(worth @ given_up))


def inclusion_posterior(counted: Losses, params: Params) -> dict[bool | None, float]:
    """Whether lines are taken along; None for neither that nor kept.

    A line that the inner cache gives up is asked of the outer one, which then keeps it longer, by its age; or it has
    lost it already, inclusive or not. The more often that is, the less can the two be distinguished."""
    unsure = (1.0 - float(np.exp(-counted.given_up))) / 2
    likely = {
        True: stats.norm.pdf(counted.lost, 1.0 - unsure, np.hypot(counted.error, params.spread + unsure)),
        False: stats.norm.pdf(counted.lost, unsure, np.hypot(counted.error, params.strays + unsure)),
        None: params.other / params.most,
    }
    total = sum(likely.values())
    return {each: float(value / total) for each, value in likely.items()}


def _losses(
    context: Context,
    where: tuple[Region, Lines, Lines],
    asked: Question,
    pace: tuple[int, float],
    params: Params,
) -> Losses:
    region, hot, stream = where
    inner, passes = pace
    cycles = list(context.calibration.level_cycles.values())
    near, own, far = cycles[inner], cycles[asked.level - 1], cycles[asked.level]
    per_pass = asked.lines / (stream.shape[1] * (TLB_PAGE_BYTES // region.line_size - 1))
    means, errors = [], []
    for length in (params.beside, params.held, params.reach):
        part = stream[: max(1, int(length * per_pass))]
        lines_in_use(context, region, hot, part, int(min(length, params.before) * per_pass) + 1)
        touches = max(params.blocks, int(passes * per_pass))
        used = np.minimum(lines_in_use(context, region, hot, part, touches), params.outgrown * far)
        blocks = [float(block.mean()) for block in np.array_split(used, params.blocks)]
        means.append(float(np.mean(blocks)))
        errors.append(float(np.std(blocks, ddof=1)) / params.blocks**0.5)
    scale = per_pass / (far - near)
    given_up = max(0.0, means[1] - means[0] - 2 * np.hypot(*errors[:2])) / (own - near) * per_pass
    return Losses((means[2] - means[1]) * scale, float(np.hypot(*errors[1:])) * scale, float(given_up))

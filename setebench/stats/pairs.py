"""Convert paired samples to core cycles: the time of a question relative to reference work timed right beside it.

A question is a piece of code that is measured. A sample is one repetition of a probe from `Probe.paired`: the ticks of
the reference (work of known cycles), of an empty interval, of each question, and of the reference again. As a core's
clock varies by 4 % within a second, ticks are never converted by a rate from another time. Samples are selected by
their references, and by a ceiling above the cost of any access, so selection doesn't bias the result.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class PairsParams(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples count as undisturbed, and how durations are computed from these."""

    agree: float = 0.02  # largest relative difference of a sample's references; less drops samples, more allows drift
    ceiling_cycles: float = 4000.0  # most core cycles of one access; an interrupt within a question takes more
    coarse_steps: float = 20.0  # questions of fewer clock steps are averaged: medians of quantised samples are biased
    least: int = 8  # least number of undisturbed samples from which a duration is computed


PARAMS = PairsParams()


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one run of a paired probe. The columns of `ticks`, shape (samples, questions + 3), are the reference,
    the empty interval, the questions, and the reference again. `step_ticks` is the clock's step, `reference_cycles` are
    core cycles of the reference, `accesses` are memory accesses in the longest question (1 if there are none)."""

    ticks: NDArray[np.int64]
    step_ticks: float
    reference_cycles: float
    accesses: int = 1

    @property
    def questions(self) -> int:
        """Number of questions that each sample timed."""
        return int(self.ticks.shape[1]) - 3


def interquartile_mean(values: Numbers) -> float:
    """Return the mean of the middle half of the sorted values, shape (n,); NaN if there are none."""
    ordered, quarter = np.sort(values), len(values) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean()) if len(values) else float("nan")


def bracket_ticks(paired: Paired) -> float:
    """Return the ticks that reading the clock adds to an interval: the mean undisturbed empty interval of `paired`."""
    empty = paired.ticks[:, 1].astype(np.float64)
    return float(empty[empty <= np.median(empty) + 2 * max(paired.step_ticks, _jitter(empty))].mean())


def _jitter(empty: Numbers) -> float:
    """Return the range from the 5 % to the 95 % quantile of empty intervals (ticks, shape (samples,))."""
    # as numpy.quantile has it, in a tenth of its time
    low, high = np.interp((0.05, 0.95), np.linspace(0, 1, len(empty)), np.sort(empty))
    return float(high - low)


def undisturbed(paired: Paired, params: PairsParams) -> NDArray[np.bool_]:
    """Return a mask, shape (samples,), of samples whose two references agree, within the clock's step and the bracket's
    jitter, and whose questions are too short to contain an interrupt."""
    first, last = (paired.ticks[:, number].astype(np.float64) for number in (0, -1))
    empty = paired.ticks[:, 1].astype(np.float64)
    room = np.maximum(params.agree * (first + last) / 2, paired.step_ticks + _jitter(empty))
    usual = (first + last) / 2 <= 2 * np.median(first)  # a stall that hit both references alike is no agreement
    ticks_per_cycle = float(np.median(first)) / paired.reference_cycles
    longest = (paired.ticks[:, 2:-1].max(axis=1) if paired.questions else np.zeros(len(first))) - np.median(empty)
    # The ceiling is the smaller of all accesses at their most expensive, and twice the median plus one such access: 32
    # loads at their most expensive would take as long as an interrupt, which would then bias a plain mean.
    most = min(
        params.ceiling_cycles * ticks_per_cycle * paired.accesses,
        2 * max(float(np.median(longest)), 0.0) + params.ceiling_cycles * ticks_per_cycle,
    )
    usable: NDArray[np.bool_] = (np.abs(first - last) <= room) & usual & (longest <= 2 * paired.step_ticks + most)
    return usable


def _selected(paired: Paired, question: int, params: PairsParams) -> tuple[Numbers, Numbers]:
    """Return the ticks of a question and of the sum of both references, without the bracket's overhead, of each
    undisturbed sample: two arrays of shape (undisturbed samples,)."""
    kept, bracket = undisturbed(paired, params), bracket_ticks(paired)
    first, last, body = (paired.ticks[kept, number] - bracket for number in (0, -1, 2 + question))
    return body, first + last


def cycles(paired: Paired, question: int = 0) -> Numbers:
    """Return the core cycles of the probe's timed part number `question` in each undisturbed sample, shape (undisturbed
    samples,). On a coarse clock single values are off by up to a step, but their mean is unbiased."""
    body, references = _selected(paired, question, PARAMS)
    return np.asarray(2 * paired.reference_cycles * body / references)


def located(paired: Paired, question: int = 0) -> float:
    """Return the core cycles of the timed part number `question`: the references' known cycles times the interquartile
    mean of the ratio of question to references over samples. If a question lasts fewer than `coarse_steps` clock steps,
    the ratio of the sums of ticks is used instead. NaN if too few samples are undisturbed."""
    body, references = _selected(paired, question, PARAMS)
    if len(body) < PARAMS.least:
        return float("nan")
    if np.median(body) >= PARAMS.coarse_steps * paired.step_ticks:
        return interquartile_mean(2 * paired.reference_cycles * body / references)
    return float(2 * paired.reference_cycles * body.sum() / references.sum())


def ticks(paired: Paired, question: int = 0, params: PairsParams = PARAMS) -> float:
    """Return the ticks of a question whose time doesn't follow the core's clock (memory, shared caches, other cores):
    the interquartile mean, or the mean if it lasts few clock steps. NaN if too few samples are undisturbed."""
    body, _ = _selected(paired, question, params)
    if len(body) < params.least:
        return float("nan")
    few = np.median(body) < params.coarse_steps * paired.step_ticks
    return float(body.mean()) if few else interquartile_mean(body)


def cycles_per_tick(paired: Paired) -> float:
    """Return the core's median cycles per tick in undisturbed samples: for display, never to convert other samples."""
    _, references = _selected(paired, 0, PARAMS)
    return float(2 * paired.reference_cycles / np.median(references)) if len(references) else float("nan")

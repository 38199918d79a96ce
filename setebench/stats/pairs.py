"""Core cycles from paired samples: the question's time relative to reference work that was timed right beside it.

A sample is one repetition of `Probe.paired`: ticks of the reference, of an empty interval, of each question and of the
reference again. A core's clock wanders by 4 % within a second, so a duration in cycles is never ticks times a rate of
another moment. Samples are selected by their references and by one ceiling that no access can cost, never by the
answer itself.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class PairsParams(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples count as undisturbed, and how their middle is estimated."""

    agree: float = 0.02  # relative difference of the two references of a sample; less drops samples, more adds drift
    ceiling_cycles: float = 4000.0  # most that one access can cost; an interrupt within a short question lasts longer
    coarse_steps: float = 20.0  # questions of fewer clock steps are averaged: medians of quantised samples are biased
    least: int = 8  # samples whose references must agree; fewer say nothing of their location


PARAMS = PairsParams()


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a paired probe gave: `ticks`, shape (samples, intervals); the clock's step in ticks; the core
    cycles of a reference; and how many accesses the longest question makes (1 where none does)."""

    ticks: NDArray[np.int64]
    step_ticks: float
    reference_cycles: float
    accesses: int = 1

    @property
    def questions(self) -> int:
        """Number of questions that each sample timed."""
        return int(self.ticks.shape[1]) - 3


def interquartile_mean(values: Numbers) -> float:
    """Mean of the middle half, shape (n,); NaN of nothing."""
    ordered, quarter = np.sort(values), len(values) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean()) if len(values) else float("nan")


def bracket_ticks(paired: Paired) -> float:
    """Ticks that a bracket adds to what it times: the mean of the empty intervals without those that a stall hit."""
    empty = paired.ticks[:, 1].astype(np.float64)
    return float(empty[empty <= np.median(empty) + 2 * max(paired.step_ticks, _jitter(empty))].mean())


def _jitter(empty: Numbers) -> float:
    """Range of nine in ten of the intervals, ticks."""
    return float(np.subtract(*np.quantile(empty, (0.95, 0.05))))


def undisturbed(paired: Paired, params: PairsParams) -> NDArray[np.bool_]:
    """Samples whose references agree, within the clock's step and the jitter of the bracket, and which no interrupt can
    have fallen into; shape (samples,)."""
    first, last = (paired.ticks[:, number].astype(np.float64) for number in (0, -1))
    empty = paired.ticks[:, 1].astype(np.float64)
    room = np.maximum(params.agree * (first + last) / 2, paired.step_ticks + _jitter(empty))
    usual = (first + last) / 2 <= 2 * np.median(first)  # a stall that hit both references alike is no agreement
    ticks_per_cycle = float(np.median(first)) / paired.reference_cycles
    longest = (paired.ticks[:, 2:-1].max(axis=1) if paired.questions else np.zeros(len(first))) - np.median(empty)
    # All accesses of a question at their most, or one of them beyond twice what is usual: 32 loads are so short that an
    # interrupt within them is no more than they all might cost, and a plain mean would have it.
    most = min(
        params.ceiling_cycles * ticks_per_cycle * paired.accesses,
        2 * max(float(np.median(longest)), 0.0) + params.ceiling_cycles * ticks_per_cycle,
    )
    usable: NDArray[np.bool_] = (np.abs(first - last) <= room) & usual & (longest <= 2 * paired.step_ticks + most)
    return usable


def _selected(paired: Paired, question: int, params: PairsParams) -> tuple[Numbers, Numbers]:
    """Ticks of a question, and of both references together, in the undisturbed samples, without what brackets add."""
    kept, bracket = undisturbed(paired, params), bracket_ticks(paired)
    first, last, body = (paired.ticks[kept, number] - bracket for number in (0, -1, 2 + question))
    return body, first + last


def cycles(paired: Paired, question: int = 0) -> Numbers:
    """Core cycles of a question in each undisturbed sample, shape (kept samples,): unbiased in the mean, but on a
    coarse clock each of them is off by up to a step."""
    body, references = _selected(paired, question, PARAMS)
    return np.asarray(2 * paired.reference_cycles * body / references)


def located(paired: Paired, question: int = 0) -> float:
    """Core cycles of a question: the interquartile mean of the samples' ratios or, where the question lasts too few
    clock steps for that, the sum of questions over the sum of references. NaN of too few undisturbed samples."""
    body, references = _selected(paired, question, PARAMS)
    if len(body) < PARAMS.least:
        return float("nan")
    if np.median(body) >= PARAMS.coarse_steps * paired.step_ticks:
        return interquartile_mean(2 * paired.reference_cycles * body / references)
    return float(2 * paired.reference_cycles * body.sum() / references.sum())


def ticks(paired: Paired, question: int = 0, params: PairsParams = PARAMS) -> float:
    """Ticks of a question that the core's clock does not drive (memory, a shared cache, other cores): interquartile
    mean of undisturbed samples, or their mean where they last few clock steps. NaN of too few."""
    body, _ = _selected(paired, question, params)
    if len(body) < params.least:
        return float("nan")
    few = np.median(body) < params.coarse_steps * paired.step_ticks
    return float(body.mean()) if few else interquartile_mean(body)


def cycles_per_tick(paired: Paired) -> float:
    """The core's pace in the undisturbed samples, cycles per tick: for display, never to convert another sample."""
    _, references = _selected(paired, 0, PARAMS)
    return float(2 * paired.reference_cycles / np.median(references)) if len(references) else float("nan")

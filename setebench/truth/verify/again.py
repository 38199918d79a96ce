"""Trials on which the twin differs, asked again until it is clear whether it does so for good.

One sequential test for each: answers of machine and twin, on new places every time, by ranks. What chance explains is
given up early; what stays is asked until it is no chance even among all that were asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from setebench.sim import spec
from setebench.truth.verify.agreement import doubt
from setebench.truth.verify.asking import Asker
from setebench.truth.verify.rows import Row, answers, chosen, least_difference, scaled


@dataclass(frozen=True)
class Params:
    """How often trials are asked again."""

    trials: int = 60  # at most: the more there are, the clearer each has to be
    of_family: int = 16  # at most, so that a family that a machine is noisy on leaves room for others
    rounds: int = 9  # of both machines: complete separation is then one chance in 24,310, enough among 240 trials
    early: int = 3  # rounds after which a trial may be given up
    futile: float = 0.35  # p-value above which it is: two machines that differ seldom get there
    batch: int = 20  # trials between two calibrations


PARAMS = Params()

Askers = tuple[Asker, Asker]
"""Machine and twin."""


class _Asked:
    """A trial, and what both said of the target on which they differed."""

    def __init__(self, row: Row) -> None:
        self.row, self.said = row, (list[float](), list[float]())

    def doubt(self) -> float:
        """p-value that machine and twin behave alike on it."""
        return doubt(*self.said, least_difference(self.row.trial, self.row.first)) if self.said[1] else 1.0

    def given_up(self) -> bool:
        """Whether chance explains it well enough."""
        return len(self.said[1]) >= PARAMS.early and self.doubt() > PARAMS.futile


def asked_again(
    rows: Sequence[Row], askers: Askers, machine: spec.Machine, end: float | None = None
) -> dict[int, float]:
    """By number of the trials on which the twin differs most, the p-value that it does so by chance. A round in which
    a co-runner stays on the machine's core says nothing of it, and what the time is over for stays as it is."""
    asked = [_Asked(row) for row in chosen(rows, PARAMS.trials, PARAMS.of_family)]
    left = asked
    for _ in range(PARAMS.rounds):
        for begin in range(0, len(left), PARAMS.batch):
            if end is not None and time.monotonic() > end:
                break
            _round(left[begin : begin + PARAMS.batch], askers, machine)
        left = [each for each in left if not each.given_up()]
    return {each.row.number: each.doubt() for each in asked if each.said[1]}


def _round(asked: list[_Asked], askers: Askers, machine: spec.Machine) -> None:
    trials = {each.row.number: each.row.trial for each in asked}
    found = []
    for asker in askers:
        if not asker.alone():
            return
        asker.calibrate()
        found.append(dict(answers(asker, trials)))
    for each in asked:
        number, trial, target = each.row.number, each.row.trial, each.row.worst
        if number in found[0] and number in found[1]:
            for said, answer in zip(each.said, (found[0][number], found[1][number]), strict=True):
                said.append(scaled(trial, answer, machine)[target])

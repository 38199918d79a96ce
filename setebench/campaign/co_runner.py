"""How often an SMT co-runner was seen while a run went on, from what the machine answered back then.

Scenarios check for one between measurements (`experiments.alone`): the pace of no-operations beside that of chained
additions. A recording holds those answers among all others, so that nothing more need be measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from setebench.experiments.alone import PARAMS, control, pace_of
from setebench.recording import EVIDENCE_PREFIX, Recording, calls_and_ticks, checksum_of, recording_of
from setebench.results import Document


def co_runner_fraction(document: Document) -> float | None:
    """Of all such checks of a run, the fraction that saw a co-runner; None where there were too few to know the pace of
    a core that is alone. Scenarios check more often while there is one, so it is no fraction of the time."""
    paces: dict[int | None, list[float]] = {}
    for key in document.evidence:
        if key.startswith(EVIDENCE_PREFIX):
            for cpu, pace in _paces(recording_of(document.evidence, key.removeprefix(EVIDENCE_PREFIX))):
                paces.setdefault(cpu, []).append(pace)
    known = [np.array(each) for each in paces.values() if len(each) >= PARAMS.least_controls]
    if not known:
        return None
    slow = sum(int((each < PARAMS.alone_fraction * each.max()).sum()) for each in known)
    return slow / sum(map(len, known))


def _paces(recording: Recording) -> Iterator[tuple[int | None, float]]:
    """CPU (None for the machine's choice) and pace of every check in a recording."""
    asked = {
        checksum_of(control(scale), cpu, PARAMS.warmup): cpu
        for scale, cpu in product(range(1, PARAMS.most_scale + 1), (None, *recording.facts.cpus))
    }
    calls, ticks = calls_and_ticks(recording)
    for (checksum, rows, columns, _answered), answer in zip(calls.tolist(), ticks, strict=True):
        if checksum in asked and rows > 1 and columns == 2:
            yield asked[checksum], pace_of(answer.reshape(rows, columns))

"""Whether the hint that questions are asked with is heeded at the time: some CPUs ignore some for seconds on end."""

from __future__ import annotations

import numpy as np

from setebench.infer import software_prefetch as infer
from setebench.infer.software_prefetch import QUIETER, Answer
from setebench.measure.serving import LAYOUTS
from setebench.software_prefetch.run import Run
from setebench.software_prefetch.ways import nothing, prefetched, side_by_side

NOTHING_DONE = (False, "drops", "nonblocking")
"""Answers that a hint which does nothing at all would give as well."""


def unless_ignored(run: Run, found: Answer) -> Answer:
    """`found`, unless it says that prefetches did nothing while the hint does nothing in the plainest place either."""
    if found.value not in NOTHING_DONE:
        return found
    ways = {run.hint: prefetched(run.hint), "": nothing}
    plain = side_by_side(run.context, run.region, "memory", ways, run.samples // 4)[run.hint]
    ignored = infer.ignored(run.references.shares(np.array_split(plain, LAYOUTS)))
    if not ignored.any():
        return found
    times = f"in {ignored.sum()} of {len(ignored)} turns"
    return Answer(reason=f"prefetches {run.hint} do nothing at all at this time, {times}; {QUIETER}")

"""Which hardware data prefetchers there are, and by what rules.

After Fang et al. 2014, 5.3 and section 6: a few accesses to a fresh page, then one timed line per repetition. What
tells prefetchers apart is what keeps the others quiet meanwhile: see `setebench.mapping`.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.mapping.atlas import survey
from setebench.mapping.laboratory import Laboratory
from setebench.results import Finding
from setebench.scenario import Context, Scenario
from setebench.serving import measure_references
from setebench.sweep import working_memory

REFERENCE_SAMPLES = 1200


def answer(context: Context) -> Iterator[Finding]:
    """Yield what is found of every prefetcher."""
    context.progress("working-set sweep")
    region = working_memory(context)
    try:
        references = measure_references(context, region, REFERENCE_SAMPLES)
        yield from survey(Laboratory(context, region, references))
    finally:
        context.machine.release(region)


SCENARIO = Scenario(
    name="prefetcher-map",
    summary="hardware data prefetchers: which there are, what wakes them, how far they run",
    answer=answer,
    parameters=("prefetcher.",),
)

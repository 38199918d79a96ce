"""Findings of the cache line's size in bytes, which the run has measured by flushing."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.calibration import USUAL_LINE
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide


def line_findings(context: Context, levels: int) -> Iterator[Finding]:
    """Yield the line size of each of the first `levels` caches in bytes: for all of them, what one flush takes out."""
    method = "loads near a line that was just flushed"
    for number in range(1, levels + 1):
        parameter = f"cache.l{number}.line_size"
        if context.line_size == context.calibration.line_bytes:
            yield decide.chosen(parameter, context.line_size, "bytes", method)
        else:
            why = f"hits and misses near a flushed line are not clear; {USUAL_LINE} bytes were taken"
            yield decide.unresolved(parameter, "bytes", why, method)

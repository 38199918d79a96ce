"""Loops and their prefetching, as data: what a loop accesses (`records`, `shapes`), what a machine that runs loops
offers (`protocol`), and the same loops as probes for machines that don't (`traces`). Nothing here touches hardware."""

from setebench.loops.protocol import RunsLoops
from setebench.loops.records import HINTS, LINE_BYTES, STRATEGIES, Loop, Pattern, Policy, Strategy, Stream
from setebench.loops.shapes import LOOP_NAMES

__all__ = [
    "HINTS",
    "LINE_BYTES",
    "LOOP_NAMES",
    "STRATEGIES",
    "Loop",
    "Pattern",
    "Policy",
    "RunsLoops",
    "Strategy",
    "Stream",
]

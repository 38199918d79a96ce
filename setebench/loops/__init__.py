"""Loops and their prefetching, as data: what a loop accesses (`records`), what a machine that runs loops offers
(`protocol`), and the same loops as probes for machines that don't (`traces`). Nothing here touches hardware."""

from setebench.loops.protocol import RunsLoops
from setebench.loops.records import (
    HINTS,
    LINE_BYTES,
    LOOP_NAMES,
    PATTERNS,
    STRATEGIES,
    Loop,
    Pattern,
    Policy,
    Strategy,
    Stream,
)

__all__ = [
    "HINTS",
    "LINE_BYTES",
    "LOOP_NAMES",
    "PATTERNS",
    "STRATEGIES",
    "Loop",
    "Pattern",
    "Policy",
    "RunsLoops",
    "Strategy",
    "Stream",
]

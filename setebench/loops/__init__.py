"""Loops and their prefetching, as data: what a loop accesses and what a machine that runs loops offers (`records`,
`shapes`), and the same loops as probes for machines that don't (`traces`). Nothing here touches hardware."""

from setebench.loops.records import HINTS as HINTS
from setebench.loops.records import LINE_BYTES as LINE_BYTES
from setebench.loops.records import Loop as Loop
from setebench.loops.records import Policy as Policy
from setebench.loops.records import RunsLoops as RunsLoops
from setebench.loops.records import Stream as Stream
from setebench.loops.shapes import LOOP_NAMES as LOOP_NAMES

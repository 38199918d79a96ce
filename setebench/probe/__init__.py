"""Probes: short straight-line programs for a memory system, as data.

A `Probe` is a sequence of operations (`load`, `flush`, `fence`, `start`, ...). It knows nothing of any machine: the
native machine stitches it from assembly snippets, a simulated one interprets it. Addresses are (base, offset) pairs; a
`Base` is a name whose address is set anew for every repetition from a placement table.

Internally a probe is a table of integers, one row of `COLUMNS` per operation. Machines read that table (`Probe.rows`);
people read `Probe.operations`, `str(probe)` and the notation of `setebench.probe.notation`.
"""

from setebench.probe.operands import IP_SPAN_BITS, Base, InstructionAddress, Operand
from setebench.probe.operation import Operation
from setebench.probe.placement import Placements, placement_table
from setebench.probe.program import Probe
from setebench.probe.table import (
    ACCESS_SIZES,
    ACCESSES,
    BRACKETS,
    CHASE_WORK,
    COLUMNS,
    FENCES,
    FLUSHES,
    HINTS,
    MAX_INTERVALS,
    ROW_BYTES,
    WORKS,
    Kind,
)

__all__ = [
    "ACCESSES",
    "ACCESS_SIZES",
    "BRACKETS",
    "CHASE_WORK",
    "COLUMNS",
    "FENCES",
    "FLUSHES",
    "HINTS",
    "IP_SPAN_BITS",
    "MAX_INTERVALS",
    "ROW_BYTES",
    "WORKS",
    "Base",
    "InstructionAddress",
    "Kind",
    "Operand",
    "Operation",
    "Placements",
    "Probe",
    "placement_table",
]

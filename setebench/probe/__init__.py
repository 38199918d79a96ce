"""Probes: short straight-line programs for a memory system, as data.

A `Probe` is a sequence of operations (`load`, `flush`, `fence`, `start`, ...). It knows nothing of any machine: the
native machine stitches it from assembly snippets, a simulated one interprets it. Addresses are (base, offset) pairs; a
`Base` is a name whose address is set anew for every repetition from a placement table.

Internally a probe is a table of integers, one row of `COLUMNS` per operation. Machines read that table (`Probe.rows`);
people read `Probe.operations`, `str(probe)` and the notation of `setebench.probe.notation`.
"""

from setebench.probe.operands import IP_SPAN_BITS as IP_SPAN_BITS
from setebench.probe.operands import Base as Base
from setebench.probe.operands import InstructionAddress as InstructionAddress
from setebench.probe.operands import Operand as Operand
from setebench.probe.operands import Operation as Operation
from setebench.probe.program import Placements as Placements
from setebench.probe.program import Probe as Probe
from setebench.probe.program import placement_table as placement_table
from setebench.probe.table import ACCESS_SIZES as ACCESS_SIZES
from setebench.probe.table import ACCESSES as ACCESSES
from setebench.probe.table import BRACKETS as BRACKETS
from setebench.probe.table import CHASE_WORK as CHASE_WORK
from setebench.probe.table import COLUMNS as COLUMNS
from setebench.probe.table import FENCES as FENCES
from setebench.probe.table import FLUSHES as FLUSHES
from setebench.probe.table import HINTS as HINTS
from setebench.probe.table import MAX_INTERVALS as MAX_INTERVALS
from setebench.probe.table import WORKS as WORKS
from setebench.probe.table import Kind as Kind

"""The truth of a simulated machine as a result document, the same that a run would write."""

from __future__ import annotations

from datetime import datetime

from setebench import store
from setebench.results import Document, MachineRecord
from setebench.sim import spec
from setebench.sim.machine import facts_of
from setebench.sim.truth.parameters import truth

STATED = ("name", "cpus", "siblings", "line_size", "page_sizes", "memory_bytes", "ticks_per_second")
"""Facts in the document."""


def truth_document(machine: spec.Machine, name: str, when: datetime) -> Document:
    """The document that `setebench sim truth NAME` prints; `when` is given as the time it was made."""
    facts = {name: getattr(facts_of(machine), name) for name in STATED} | {"description": machine.description}
    return Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind="sim", name=f"sim:{name}", facts=facts, environment={}),
        settings={"scenario": "truth", "machine": f"sim:{name}"},
        started=when.isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=truth(machine),
        evidence={},
    )

"""The truth of a simulated machine as a result document, the same that a run would write."""

from __future__ import annotations

from datetime import datetime

from setebench import store
from setebench.results import Document, MachineRecord
from setebench.sim import spec
from setebench.sim.truth.parameters import truth


def truth_document(machine: spec.Machine, name: str, when: datetime) -> Document:
    """The document that `setebench sim truth NAME` prints; `when` is given as the time it was made."""
    facts = {
        "name": machine.name,
        "description": machine.description,
        "siblings": [
            [thread * machine.core.cores + core for thread in range(machine.core.threads_per_core)]
            for core in range(machine.core.cores)
        ],
        "cpus": list(range(machine.core.cores * machine.core.threads_per_core)),
        "line_size": machine.line_size_bytes,
        "page_sizes": list(machine.memory.page_sizes),
        "memory_bytes": machine.memory.bytes,
        "ticks_per_second": machine.clock.ticks_per_second,
    }
    return Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind="sim", name=f"sim:{name}", facts=facts, environment={}),
        settings={"scenario": "truth", "machine": f"sim:{name}"},
        started=when.isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=truth(machine),
        evidence={},
    )

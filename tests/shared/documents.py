"""A result file of a machine, for tests of what is done with one."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.results import Document, Finding, MachineRecord, Tool


def make_document(
    findings: list[Finding] | None = None, evidence: dict[str, Any] | None = None, machine: Any = None, **fields: Any
) -> Document:
    """With the latency of level 1 alone, unless other findings are given; `machine` and `fields` replace what the
    machine's record and the document hold."""
    record = MachineRecord(kind="sim", name="small", facts={"cpus": [0, 1]}, environment={})
    made = Document(
        tool=Tool(name="setebench", version="1.0"),
        machine=msgspec.structs.replace(record, **(machine or {})),
        settings={"scenario": "latency", "seed": 1},
        started="2026-11-21T10:00:00+00:00",
        elapsed_seconds=1.25,
        findings=[Finding(parameter="latency.l1", value=4.0, unit="cycles")] if findings is None else findings,
        evidence=evidence or {},
    )
    return msgspec.structs.replace(made, **fields)

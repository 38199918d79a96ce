"""What the operating system says of the caches, to be shown beside what was measured. Nothing infers from it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from setebench.host.processor import read_topology
from setebench.host.tree import Tree
from setebench.machine import Facts
from setebench.results import Finding, Outcome


def system_says(facts: Facts, root: Path = Path("/")) -> dict[str, int]:
    """Sizes, ways and line sizes of data caches by parameter; empty but for this CPU itself."""
    if facts.kind != "native":
        return {}
    reported: dict[str, int | None] = {}
    for cache in read_topology(Tree(root)).caches or ():
        if cache.level is not None and cache.type in ("Data", "Unified"):
            reported[f"cache.l{cache.level}.size"] = cache.size_bytes
            reported[f"cache.l{cache.level}.ways"] = cache.ways
            reported[f"cache.l{cache.level}.line_size"] = cache.line_bytes
    return {parameter: value for parameter, value in reported.items() if value is not None}


def beside(finding: Finding, says: dict[str, int]) -> Finding:
    """The finding, with what the system says where that differs or nothing else is known."""
    other = says.get(finding.parameter)
    if other is None or (finding.outcome is Outcome.MEASURED and finding.value == other):
        return finding
    remark = f"the operating system says {other}"
    reason = f"{finding.reason}; {remark}" if finding.reason else remark
    return msgspec.structs.replace(finding, reason=reason)

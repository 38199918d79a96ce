"""What validation found of each event, stored between runs, and what metrics may do with it.

A verdict holds for one CPU model, microcode, kernel and version of setebench; when one of these changes it expires.
Counts of an event without a verdict of `trusted` make a metric unresolved (Molka et al. 2017, conclusions: readings of
events that were not validated should not be relied on).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.errors import SetebenchError
from setebench.results import Document, Finding, MachineRecord, Tool


class Kind(StrEnum):
    """What may be said of an event; several may hold at once. In the order in which they are listed."""

    TRUSTED = "trusted"
    SCALED = "scaled"
    OTHER_LEVEL = "other_level"
    MISSES_PREFETCHES = "misses_prefetches"
    INCLUDES_OTHER_STALLS = "includes_other_stalls"
    FLOOR_PER_CYCLE = "floor_per_cycle"
    UNDERCOUNTS_SMT = "undercounts_smt"
    ZERO = "zero"
    WRAPS = "wraps"
    MULTIPLEXED = "multiplexed"
    UNTRUSTED = "untrusted"
    UNAVAILABLE = "unavailable"


def objection(found: Mapping[str, Finding], role: str) -> str:
    """Why counts of the event of a role can't be used as they are, by findings `counter.*` by parameter: one line;
    empty where they can."""
    finding = found.get(f"counter.{role}.verdict")
    if finding is None or not isinstance(finding.value, list):
        why = "run `setebench counters validate` first" if finding is None else finding.reason
        return f"{role} was not validated: {why}"
    if finding.value == [Kind.TRUSTED]:
        return ""
    said = ", ".join(str(kind).replace("_", " ") for kind in finding.value)
    return f"{role} is not trusted on this machine: {said}"


def _key(machine: MachineRecord, tool: Tool) -> dict[str, Any]:
    """What verdicts hold for: the processor and its microcode, the kernel, and the version of setebench."""
    parts = [machine.environment.get(name) for name in ("cpu", "kernel")]
    cpu, kernel = (part if isinstance(part, dict) else {} for part in parts)
    processor = [machine.name, *(cpu.get(name) for name in ("vendor", "family", "model", "stepping"))]
    identity = {"processor": processor, "microcode": cpu.get("microcode"), "kernel": kernel.get("version")}
    return identity | {"version": tool.version}


def _place(machine: MachineRecord) -> Path:
    """Where the verdicts of this version on a machine's events are stored: below the user's XDG data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    name = hashlib.sha256(msgspec.json.encode(_key(machine, store.this_tool()))).hexdigest()[:16]
    return base / "setebench" / "verdicts" / f"{name}.json"


def save(document: Document) -> Path:
    """Store the findings of `counters validate`, replacing older ones; returns where. A validation of some roles
    replaces those of these roles only. Raises `UsageError` where they can't be written."""
    target = _place(document.machine)
    found = stored(document.machine) if document.settings["options"].get("role") else {}
    found |= {finding.parameter: finding for finding in document.findings}
    store.make_folder(target.parent)
    store.save(msgspec.structs.replace(document, findings=list(found.values()), evidence={}), target, force=True)
    return target


def stored(machine: MachineRecord, path: Path | None = None) -> dict[str, Finding]:
    """Findings on a machine's events by parameter: those stored for it, none where there are none; with `path` those of
    that result of `counters validate`.

    Raises `SetebenchError` for a file that can't be read or was made for another key: they expired."""
    target = path or _place(machine)
    if path is None and not target.exists():
        return {}
    document = store.load(target)
    now, then = _key(machine, store.this_tool()), _key(document.machine, document.tool)
    if changed := [name for name in now if now[name] != then[name]]:
        raise SetebenchError(
            f"the verdicts in {str(target)!r} expired: another {' and '.join(changed)} than now; "
            "run `setebench counters validate` again"
        )
    return {finding.parameter: finding for finding in document.findings}

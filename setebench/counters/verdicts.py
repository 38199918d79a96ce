"""What validation found of each event, stored between runs, and what metrics may do with it.

A verdict holds for one CPU model, microcode, kernel and version of setebench; when one of these changes it expires.
Counts of an event without a verdict of `trusted` make a metric unresolved (Molka et al. 2017, conclusions: readings of
events that were not validated should not be relied on).
"""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum
from pathlib import Path

import msgspec

from setebench import files, store
from setebench.errors import SetebenchError, UsageError
from setebench.results import Finding

SCHEMA = 2


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


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What verdicts hold for: the processor (vendor, family, model, stepping), microcode, kernel release, and version
    of setebench."""

    processor: str
    microcode: str
    kernel: str
    version: str


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the events of one machine, as stored in a file: findings `counter.ROLE.*` by parameter.
    `machine` is its name, for people."""

    key: Key
    machine: str
    date: str
    findings: dict[str, Finding]
    schema: int = SCHEMA

    def objection(self, role: str) -> str:
        """Why counts of the event of a role can't be used as they are, one line; empty where they can."""
        finding = self.findings.get(f"counter.{role}.verdict")
        if finding is None or not isinstance(finding.value, list):
            why = "run `setebench counters validate` first" if finding is None else finding.reason
            return f"{role} was not validated: {why}"
        if finding.value == [Kind.TRUSTED]:
            return ""
        said = ", ".join(str(kind).replace("_", " ") for kind in finding.value)
        return f"{role} is not trusted on this machine: {said}"


def place_of(key: Key) -> Path:
    """Where the verdicts of this key are stored: below the user's XDG data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "setebench" / "verdicts" / (hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:16] + ".json")


def save(verdicts: Verdicts, path: Path | None = None) -> Path:
    """Write verdicts to their place, or to `path`, replacing older ones; returns where.

    Raises `UsageError` where it can't be written."""
    target = path or place_of(verdicts.key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"verdicts can't be stored in {str(target.parent)!r}: {error.strerror}") from error
    store.write(target, msgspec.json.format(msgspec.json.encode(verdicts), indent=1) + b"\n", force=True)
    return target


def stored(key: Key, machine: str, path: Path | None = None) -> Verdicts:
    """The verdicts stored for this key, none where there are none; with `path` those of that file.

    Raises `SetebenchError` for a named file that can't be read or was made for another key: they expired."""
    target = path or place_of(key)
    try:
        found = msgspec.json.decode(files.read_bytes(target), type=Verdicts)
    except (OSError, msgspec.MsgspecError) as error:
        if path is None and isinstance(error, FileNotFoundError):
            return Verdicts(key=key, machine=machine, date="", findings={})
        raise SetebenchError(f"verdicts can't be read from {str(target)!r}: {error}") from error
    changed = [name for name in key.__struct_fields__ if getattr(key, name) != getattr(found.key, name)]
    if changed:
        raise SetebenchError(
            f"the verdicts in {str(target)!r} expired: another {' and '.join(changed)} than now; "
            "run `setebench counters validate` again"
        )
    return found

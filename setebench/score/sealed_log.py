"""A log of all sealed runs of this user, also of those that came out badly or were stopped: one JSON object a line."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from setebench.errors import SetebenchError
from setebench.score.stream import Plan


def log_path() -> Path:
    """Below the user's state folder (XDG Base Directory: $XDG_STATE_HOME, else ~/.local/state)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".local/state"
    return folder / "setebench/sealed.jsonl"


class SealedLog:
    """Notes one run: when it begins, before a machine is run, and how it ends."""

    def __init__(self, plan: Plan, resumed: bool) -> None:
        """Raises `SetebenchError` where nothing can be noted: a sealed run that isn't logged is none."""
        self._run = secrets.token_hex(8)
        names = ("inference", "simulator", "nonce", "scenarios", "noise", "fast")
        facts = {name: getattr(plan, name) for name in names} | {"seeds": list(plan.machines.values())}
        self._note("resumed" if resumed else "begun", **facts)

    def ended(self, document: dict[str, Any]) -> None:
        """Note the totals."""
        self._note("ended", totals=document["totals"], calibration=document["calibration"])

    def stopped(self, why: BaseException) -> None:
        """Note that it ended without totals."""
        self._note("stopped", reason=f"{type(why).__name__}: {' '.join(str(why).split())}")

    def _note(self, event: str, **facts: Any) -> None:
        line = {"run": self._run, "event": event, "time": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        path = log_path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # one unbuffered write to a file opened for appending: lines of runs at the same time don't mix
            with open(path, "ab", buffering=0) as file:
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            why = error.strerror or error
            raise SetebenchError(f"the log of sealed runs, {str(path)!r}, can't be written: {why}") from error

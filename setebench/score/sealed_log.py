"""A log of all sealed runs of this user, also of those that came out badly or were stopped: one JSON object a line."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from setebench.errors import SetebenchError
from setebench.score.stream import Plan

CHECKOUT = Path(__file__).resolve().parents[2]
"""The repository, where the package is not installed but lies in one."""


def log_path() -> Path:
    """In the repository, to be published with it; of an installed package below the user's state folder (XDG Base
    Directory: $XDG_STATE_HOME, else ~/.local/state)."""
    if (CHECKOUT / "benchmarks/accuracy.py").is_file():
        return CHECKOUT / "benchmarks/sealed.jsonl"
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".local/state"
    return folder / "setebench/sealed.jsonl"


@contextmanager
def logged(plan: Plan, resumed: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Notes a sealed run: when it begins, before a machine is run, and how it ends, by what is given its document, or
    without one. Raises `SetebenchError` where nothing can be noted: a sealed run that isn't logged is none."""
    if plan.nonce is None:
        yield lambda _document: None
        return
    run, names = secrets.token_hex(8), ("inference", "simulator", "nonce", "scenarios", "noise", "fast")
    facts = {name: getattr(plan, name) for name in names} | {"machines": len(plan.machines)}
    _note(run, "resumed" if resumed else "begun", facts)
    try:
        yield lambda document: _note(run, "ended", {name: document[name] for name in ("totals", "calibration")})
    except BaseException as error:
        _note(run, "stopped", {"reason": f"{type(error).__name__}: {' '.join(str(error).split())}"})
        raise


def _note(run: str, event: str, facts: dict[str, Any]) -> None:
    line = {"run": run, "event": event, "time": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
    path = log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # one unbuffered write to a file opened for appending: lines of runs at the same time don't mix
        with open(path, "ab", buffering=0) as file:
            file.write(msgspec.json.encode(line) + b"\n")
    except OSError as error:
        why = error.strerror or error
        raise SetebenchError(f"the log of sealed runs, {str(path)!r}, can't be written: {why}") from error

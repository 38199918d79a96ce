"""Answers in a file, one JSON object a line, written as each machine ends, so that a run that was stopped goes on from
it; and a log of all sealed runs of this user, also of those that came out badly or were stopped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from setebench import files
from setebench.errors import SetebenchError, UsageError
from setebench.results import SCHEMA
from setebench.score.tasks import Answer, Task


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides what is run. `machines` gives the seed of each by name, `seed` is the first one or the shipped
    machines'. `by_name`: the user named the scenarios. `nonce` is that of a sealed run, `against` the file of answers
    to be held against these. `inference` and `simulator` are the hashes of the sources. `from_findings`: scenarios that
    build on others' findings run those first, instead of being given the truth. `begun`: when the run began, in UTC
    (None in older files)."""

    machines: dict[str, int]
    seed: int
    scenarios: tuple[str, ...]
    by_name: bool
    noise: str
    fast: bool
    inference: str
    simulator: str
    nonce: str | None = None
    against: str | None = None
    from_findings: bool = False
    begun: str | None = None

    def tasks(self) -> list[Task]:
        """One for each machine."""
        names = ("scenarios", "noise", "fast", "from_findings")
        common = {name: getattr(self, name) for name in names}
        return [Task(machine=name, seed=seed, **common) for name, seed in self.machines.items()]


class _Head(msgspec.Struct, frozen=True, kw_only=True, tag="plan", tag_field="line"):
    schema: int
    plan: Plan


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="line"):
    answer: Answer


Done = dict[str, Answer]
"""Answers by machine."""


Add = Callable[[Answer], None]
"""Adds an answer to a file, and sees that it got there."""


@contextmanager
def kept(path: Path | None, plan: Plan, mode: str) -> Iterator[Add]:
    """What keeps answers in a file, if there is to be one. `mode` is that of `open`: "xb" makes a new file, "wb"
    replaces one, "r+b" adds to one, where a last line that was cut short is removed: its machine is run again. Raises
    `UsageError` for what the system refuses."""
    if path is None:
        yield lambda _answer: None
        return
    try:
        with open(path, mode) as file:

            def write(line: _Head | _Entry) -> None:
                file.write(msgspec.json.encode(line) + b"\n")
                file.flush()

            if mode == "r+b":
                file.truncate(file.seek(file.read().rfind(b"\n") + 1))
            else:
                write(_Head(schema=SCHEMA, plan=plan))
            yield lambda answer: write(_Entry(answer=answer))
    except FileExistsError as error:
        raise UsageError(f"{str(path)!r} exists; use --force to replace it, or --resume {path} to go on") from error
    except OSError as error:
        raise UsageError(f"can't write {str(path)!r}: {error.strerror or error}") from error


def read(path: Path) -> tuple[Plan, Done]:
    """The plan, and the answers so far without those that were lost. Raises `UsageError` for anything else."""
    try:
        with files.opened(path) as file:
            lines = file.read().split(b"\n")[:-1]  # what stands behind the last line's end was cut short
        head = msgspec.json.decode(lines[0] if lines else b"", type=_Head)
        entries = [msgspec.json.decode(line, type=_Entry) for line in lines[1:]]
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is no file of answers of setebench score: {error}") from error
    if head.schema != SCHEMA:
        raise UsageError(f"{str(path)!r} was written by a newer setebench (schema {head.schema})")
    return head.plan, {each.answer.machine: each.answer for each in entries if each.answer.lost is None}


# -- the log ----------------------------------------------------------------------------------------------------------


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

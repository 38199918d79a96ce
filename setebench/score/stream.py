"""Answers in a file, one JSON object a line, written as each machine ends: a run that was stopped goes on from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from setebench import files
from setebench.errors import UsageError
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

"""Answers in a file, one JSON object a line, written as each machine ends: a run that was stopped goes on from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from setebench import files
from setebench.errors import UsageError
from setebench.score.workers.tasks import Answer, Task

SCHEMA = 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides what is asked. `machines` gives the seed of each by name, `seed` is the first one or the shipped
    machines'. `by_name`: the user named the scenarios. `nonce` is that of a sealed run, `against` the file of answers
    to be held against these. `inference` and `simulator` are the hashes of the sources; of another version `inference`
    is the full id of its commit, and so is `commit`. `from_findings`: scenarios that build on others' findings ask
    those first, instead of being given the truth. `begun`: when the run began, in UTC (None in older files)."""

    machines: dict[str, int]
    seed: int
    scenarios: tuple[str, ...]
    by_name: bool
    noise: str
    fast: bool
    inference: str
    simulator: str
    nonce: str | None = None
    commit: str | None = None
    against: str | None = None
    from_findings: bool = False
    begun: str | None = None

    def tasks(self) -> list[Task]:
        """One for each machine."""
        return [
            Task(
                machine=name,
                scenarios=self.scenarios,
                noise=self.noise,
                seed=seed,
                fast=self.fast,
                from_findings=self.from_findings,
            )
            for name, seed in self.machines.items()
        ]


class _Head(msgspec.Struct, frozen=True, kw_only=True, tag="plan", tag_field="line"):
    schema: int
    plan: Plan


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="line"):
    answer: Answer


Done = dict[str, Answer]
"""Answers by machine."""


class Stream:
    """Adds answers to an open file; without a file it does nothing."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def add(self, answer: Answer) -> None:
        """Write one line, and see that it got there. Raises `UsageError`."""
        if self._file is not None:
            _write_line(self._file, _Entry(answer=answer))


@contextmanager
def begun(path: Path | None, plan: Plan, force: bool) -> Iterator[Stream]:
    """A new file that begins with the plan. Raises `UsageError` for one that exists, unless `force`."""
    if path is None:
        yield Stream(None)
        return
    try:
        file = open(path, "wb" if force else "xb")  # noqa: SIM115
    except FileExistsError as error:
        raise UsageError(f"{str(path)!r} exists; use --force to replace it, or --resume {path} to go on") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    with file:
        _write_line(file, _Head(schema=SCHEMA, plan=plan))
        yield Stream(file)


@contextmanager
def gone_on(path: Path) -> Iterator[Stream]:
    """An existing file, to add to. A last line that was cut short is removed: its machine is asked again."""
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except OSError as error:
        raise _unwritable(path, error) from error
    with file:
        file.truncate(_whole_bytes(file))
        file.seek(0, os.SEEK_END)
        yield Stream(file)


def read(path: Path) -> tuple[Plan, Done]:
    """The plan, and the answers so far without those that were lost. Raises `UsageError` for anything else."""
    try:
        with files.opened(path) as file:
            lines = file.read(_whole_bytes(file)).splitlines()
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    try:
        head = msgspec.json.decode(lines[0] if lines else b"", type=_Head)
        entries = [msgspec.json.decode(line, type=_Entry) for line in lines[1:]]
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is no file of answers of setebench score: {error}") from error
    if head.schema != SCHEMA:
        raise UsageError(f"{str(path)!r} was written by a newer setebench (schema {head.schema})")
    return head.plan, {each.answer.machine: each.answer for each in entries if each.answer.lost is None}


def _whole_bytes(file: IO[bytes]) -> int:
    """How many bytes of the file are whole lines."""
    file.seek(0)
    size = file.read().rfind(b"\n") + 1
    file.seek(0)
    return size


def _write_line(file: IO[bytes], line: msgspec.Struct) -> None:
    try:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
    except OSError as error:
        with suppress(OSError):  # what is still buffered can't be written either
            file.close()
        raise _unwritable(Path(file.name), error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"can't write {str(path)!r}: {error.strerror or error}")

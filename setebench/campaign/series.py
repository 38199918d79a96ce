"""A folder of runs: what is asked in each, which are done, and how busy the computer was during them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from setebench import files, store
from setebench.campaign.documents import NAME, steps_of
from setebench.campaign.repeated import parameters, totals
from setebench.errors import UsageError
from setebench.results import Document

SCHEMA = 1
PLAN, CONDITIONS = "plan.json", "conditions.jsonl"


class SeriesPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked again and again: `scenario` is one of them, or `characterize`. Run number k has the seed
    `seed` + k - 1: with the same one, runs would draw the same lines, and so fraction errors."""

    schema: int = SCHEMA
    scenario: str = NAME
    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    fast: bool = False


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """How busy the computer was while a run went on: seconds that passed, its CPUs, and of their time the seconds that
    a hypervisor gave to others (steal) and that other programs of this computer took; None where nobody counts."""

    run: int
    seconds: float
    cpus: int
    steal_seconds: float | None
    others_seconds: float | None


class Series:
    """Runs in a folder: `plan.json`, `run-01.json` and so on, and a line a run in `conditions.jsonl`."""

    def __init__(self, folder: Path, plan: SeriesPlan) -> None:
        self.folder, self.plan = folder, plan

    @classmethod
    def open(cls, folder: Path, plan: SeriesPlan) -> Series:
        """A series in that folder, which is made if it isn't there. Raises `UsageError` where it can't be, where the
        folder holds something else, or runs of another plan."""
        known = store.planned_folder(folder, PLAN, SeriesPlan)
        if known is None:
            store.write(folder / PLAN, msgspec.json.encode(plan) + b"\n")
        elif known != plan:
            name = next(name for name in plan.__struct_fields__ if getattr(plan, name) != getattr(known, name))
            raise UsageError(
                f"{str(folder)!r} holds runs with {name} {getattr(known, name)!r}, not {getattr(plan, name)!r}; "
                "name another directory"
            )
        return cls(folder, plan)

    def file(self, run: int) -> Path:
        """Where the result of run number `run`, from 1 on, is or will be."""
        return self.folder / f"run-{run:02d}.json"

    def is_done(self, run: int) -> bool:
        """Whether that run has ended; one of all scenarios that was stopped has a file, but has not."""
        path = self.file(run)
        return path.exists() and all(step.state != "pending" for step in steps_of(store.load(path)))

    def note(self, conditions: Conditions) -> None:
        """Keep what was seen of the computer while a run, or a part of one, went on."""
        path = self.folder / CONDITIONS
        try:
            with open(path, "ab") as file:
                file.write(msgspec.json.encode(conditions) + b"\n")
        except OSError as error:
            raise UsageError(f"can't write {str(path)!r}: {error.strerror or error}") from error

    def document(self, runs: int) -> dict[str, Any]:
        """What the first `runs` runs say together: the document of `setebench repeat --format json`, schema 1."""
        documents = [store.load(self.file(run)) for run in range(1, runs + 1)]
        found = parameters(documents)
        noted = list(self._noted())
        return {
            "schema": SCHEMA,
            "plan": msgspec.to_builtins(self.plan),
            "runs": [self._run(run, each, noted) for run, each in enumerate(documents, 1)],
            "parameters": msgspec.to_builtins(found),
            "totals": totals(found),
        }

    def _run(self, run: int, document: Document, noted: list[Conditions]) -> dict[str, Any]:
        own = [each for each in noted if each.run == run]
        cpu_seconds = sum(each.seconds * each.cpus for each in own)
        return {
            "file": self.file(run).name,
            "seed": self.plan.seed + run - 1,
            "started": document.started,
            "elapsed_seconds": document.elapsed_seconds,
            "answered": sum(finding.value is not None for finding in document.findings),
            "reported": len(document.findings),
            "steal_fraction": _fraction([each.steal_seconds for each in own], cpu_seconds),
            "others_fraction": _fraction([each.others_seconds for each in own], cpu_seconds),
            "co_runner_fraction": None,  # not measured since 0.2
        }

    def _noted(self) -> Iterator[Conditions]:
        path = self.folder / CONDITIONS
        if not path.exists():
            return
        for line in files.read_bytes(path).split(b"\n")[:-1]:
            try:
                yield msgspec.json.decode(line, type=Conditions)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UsageError(f"{str(path)!r} is damaged: {error}") from error


def plan_in(folder: Path) -> SeriesPlan | None:
    """The plan of the runs in a folder; None where there is none. Raises `UsageError` for a damaged one."""
    return store.kept(folder / PLAN, SeriesPlan)


def _fraction(seconds: list[float | None], cpu_seconds: float) -> float | None:
    """Of all CPUs' time; None where some of it was not counted."""
    known = [each for each in seconds if each is not None]
    return sum(known) / cpu_seconds if known and len(known) == len(seconds) and cpu_seconds else None

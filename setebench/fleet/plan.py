"""What a fleet measures, and the folder where results are written as they come: a run that was stopped goes on."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from setebench import store
from setebench.errors import UsageError
from setebench.fleet.reading import NODE_SETTING
from setebench.results import Document

PLAN = "plan.json"
NODE_FIELD = "{node}"
"""In a machine's name: the node's own name takes its place."""

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
LONGEST_ANSWER = 64 << 20
"""Bytes of a result that a node may send back; one of all scenarios without raw answers has less than a tenth."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every node measures: each scenario (or `characterize`) `runs` times. Run number k has the seed
    `seed` + k - 1."""

    schema: int = 1
    machine: str = "native"
    scenarios: tuple[str, ...] = ("characterize",)
    runs: int = 1
    seed: int = 1
    fast: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one scenario on one node."""

    node: str
    scenario: str
    run: int

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.node}: {self.scenario}, run {self.run}"


class Folder:
    """Results of a plan: `NODE/SCENARIO.run-K.json`."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path, self.plan = path, plan

    @classmethod
    def open(cls, path: Path, plan: Plan) -> Folder:
        """The folder is made if it isn't there. Raises `UsageError` where it can't be used, or holds something else or
        results of another plan; more runs than before are no other plan."""
        earlier = store.planned_folder(path, PLAN, Plan)
        for name in ("machine", "scenarios", "seed", "fast") if earlier is not None else ():
            old, new = getattr(earlier, name), getattr(plan, name)
            if old != new:
                raise UsageError(f"{str(path)!r} was begun with another {name}: {old!r}, not {new!r}")
        store.write(path / PLAN, msgspec.json.encode(plan) + b"\n", force=True)
        return cls(path, plan)

    def file(self, job: Job) -> Path:
        """Where that job's result is or will be."""
        return self.path / job.node / f"{job.scenario}.run-{job.run}.json"

    def left(self, node: str) -> list[Job]:
        """What that node has not answered yet, in the order of the plan."""
        runs = range(1, self.plan.runs + 1)
        jobs = [Job(node=node, scenario=name, run=run) for run in runs for name in self.plan.scenarios]
        return [job for job in jobs if not self.file(job).exists()]

    def keep(self, job: Job, answer: bytes) -> None:
        """Write what a node answered. Raises `UsageError` where it is no result, or can't be written."""
        document = _checked(answer)
        named = {**document.settings, NODE_SETTING: job.node, "run": job.run}
        file = self.file(job)
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"can't write {str(file)!r}: {error.strerror or error}") from error
        store.save(msgspec.structs.replace(document, settings=named), file, force=True)

    def arguments(self, job: Job) -> list[str]:
        """Of setebench, for a job."""
        machine = self.plan.machine.replace(NODE_FIELD, job.node)
        seed = str(self.plan.seed + job.run - 1)
        settings = ["--format", "json", "--quiet", "--machine", machine, "--seed", seed]
        return [job.scenario, *settings, *(["--fast"] if self.plan.fast else [])]


def is_safe(node: str) -> bool:
    """Whether a node's name may become a folder's."""
    return _SAFE.fullmatch(node) is not None


def _checked(answer: bytes) -> Document:
    """Raises `UsageError` for what is no result: a node may answer anything."""
    if len(answer) > LONGEST_ANSWER:
        raise UsageError("the answer is too large for a result")
    try:
        return msgspec.json.decode(answer, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the answer is no result: {error}") from error

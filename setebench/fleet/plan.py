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


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every node measures: each scenario (or `characterize`) `runs` times. Run number k has the seed
    `seed` + k - 1."""

    schema: int = 1
    machine: str = "native"
    scenarios: tuple[str, ...] = ("characterize",)
    runs: int = 1
    cpu: int | None = None
    seed: int = 1
    fast: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one scenario on one node."""

    node: str
    scenario: str
    run: int

    def __str__(self) -> str:
        return f"{self.node}: {self.scenario}, run {self.run}"


class Folder:
    """Results of a plan: `NODE/SCENARIO.run-K.json`."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """The folder is made if it isn't there. Raises `UsageError` where it can't be used, or holds something else or
        results of another plan; more runs than before are no other plan."""
        self.path, self.plan = path, plan
        holds = store.make_folder(path)
        if holds and not (path / PLAN).exists():
            raise UsageError(f"the directory {str(path)!r} holds other files; name another one")
        earlier = store.load_as(path / PLAN, Plan) if holds else plan
        for name in ("machine", "scenarios", "cpu", "seed", "fast"):
            old, new = getattr(earlier, name), getattr(plan, name)
            if old != new:
                raise UsageError(f"{str(path)!r} was begun with another {name}: {old!r}, not {new!r}")
        store.write(path / PLAN, msgspec.json.encode(plan) + b"\n", force=True)

    def file(self, job: Job) -> Path:
        """Where that job's result is or will be."""
        return self.path / job.node / f"{job.scenario}.run-{job.run}.json"

    def jobs(self, node: str) -> list[Job]:
        """What that node is to answer, in the order of the plan."""
        runs = range(1, self.plan.runs + 1)
        return [Job(node=node, scenario=name, run=run) for run in runs for name in self.plan.scenarios]

    def keep(self, job: Job, answer: bytes) -> None:
        """Write what a node answered. Raises `UsageError` where it is no result, or can't be written."""
        try:
            document = msgspec.json.decode(answer, type=Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"the answer is no result: {error}") from error
        named = {**document.settings, NODE_SETTING: job.node, "run": job.run}
        store.make_folder(self.file(job).parent)
        store.save(msgspec.structs.replace(document, settings=named), self.file(job), force=True)

    def arguments(self, job: Job) -> list[str]:
        """Of setebench, for a job."""
        machine = self.plan.machine.replace(NODE_FIELD, job.node)
        seed = str(self.plan.seed + job.run - 1)
        settings = ["--format", "json", "--quiet", "--machine", machine, "--seed", seed]
        settings += ["--cpu", str(self.plan.cpu)] if self.plan.cpu is not None else []
        return [job.scenario, *settings, *(["--fast"] if self.plan.fast else [])]


def is_safe(node: str) -> bool:
    """Whether a node's name may become a folder's."""
    return _SAFE.fullmatch(node) is not None

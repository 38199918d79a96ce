"""Result files of many nodes, one after the other, each read for what a comparison needs and let go again; and names of
nodes, in the order of their numbers, and many of them in short, n[001-512], as Slurm writes them. And what a fleet
measures, and the folder where results are written as they come: a run that was stopped goes on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.errors import UsageError
from setebench.results import Document, Finding
from setebench.text import ranges

NODE_SETTING = "node"
"""The name of a document's setting that says which node it is of; without it the file's name does."""

_RUN_SUFFIX = re.compile(r"[._-]?(?:run|r)[._-]?\d+\Z|(?<=.)\.\d+\Z", re.IGNORECASE)
_OWN_FILES = frozenset(("fleet.json", "plan.json", "recorded.json", "truth.json"))
"""Files of a fleet's folder that are no results."""


class Result(msgspec.Struct, frozen=True):
    """Of a result file of one run: what the findings say, and of whom, by which version and with which effort."""

    findings: list[Finding]
    tool: dict[str, Any] = {}
    settings: dict[str, Any] = {}

    def node(self, name: str) -> str:
        """The node that it names, else `name`."""
        named = self.settings.get(NODE_SETTING)
        return named if isinstance(named, str) and named else name


def files(paths: Iterable[str | Path]) -> dict[Path, str]:
    """Result files and the nodes that they are of by their names: of a folder all .json files in it and below.

    A file is of the folder in which it lies below the one that was named, else of its own name without what counts runs
    (n7.json, n7.run-2.json, n7/run-2.json: all of n7). Raises `UsageError` for what isn't there, or where there is
    none."""
    paths = list(paths)
    found: dict[Path, str] = {}
    for each in map(Path, paths):
        if each.is_dir():
            inside = sorted(path for path in each.rglob("*.json") if path.name not in _OWN_FILES)
            found |= {path: _node_name(path.relative_to(each), each.resolve().name) for path in inside}
        elif each.exists():
            found[each] = _node_name(Path(each.name), each.resolve().parent.name)
        else:
            raise UsageError(f"there is no {str(each)!r}")
    if not found:
        raise UsageError("there are no result files (.json) in " + ", ".join(repr(str(each)) for each in paths))
    return found


def _node_name(path: Path, folder: str) -> str:
    """Of a path below a folder: where it only counts runs (run-01.json, as `setebench repeat` writes), that folder."""
    if len(path.parts) > 1:
        return path.parts[0]
    return _RUN_SUFFIX.sub("", path.stem) or folder or path.stem


# -- names of nodes ---------------------------------------------------------------------------------------------------


_NUMBERED = re.compile(r"([^\[\],]*?)(\d+)([^\d\[\],]*)")
_PIECES = re.compile(r"(\d+)")


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, numbers in them by value: n2 before n10."""
    return sorted(names, key=_sorting_key)


def _sorting_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """Pieces at odd places are numbers: so they are only compared with numbers."""
    pieces = _PIECES.split(name)
    return [(int(piece), "") if place % 2 else (0, piece) for place, piece in enumerate(pieces)], name


def folded(names: Iterable[str]) -> str:
    """All names in one line: those that differ in their last number alone, of one width, as ranges, n[001-003,007].io;
    `none` of none."""
    parts: dict[tuple[str, str, int], list[str]] = {}
    for name in dict.fromkeys(names):
        head, number, end = found.groups() if (found := _NUMBERED.fullmatch(name)) else (name, "", "")
        parts.setdefault((head, end, len(number)), []).append(number)
    texts = (
        f"{head}{numbers[0]}{end}" if len(numbers) == 1 else f"{head}[{ranges(map(int, numbers), width)}]{end}"
        for (head, end, width), numbers in parts.items()
    )
    return ",".join(in_order(texts)) or "none"


# -- measuring: a plan, and the folder of its results -----------------------------------------------------------------


PLAN = "plan.json"
NODE_FIELD = "{node}"
"""In a machine's name: the node's own name takes its place."""

SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
"""Names of nodes that may become folders'."""


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

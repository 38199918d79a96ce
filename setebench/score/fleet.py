"""Fleets of simulated machines whose odd nodes are known.

A few machines are run, equal but for their seeds. Every node's runs are drawn from these recorded ones, each run as a
whole, so that what its findings have in common stays; no node gets one twice. The runs of an odd node are recorded ones
too, with the latencies of one level moved, so that errors and intervals stay those of a real run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from setebench import store
from setebench.errors import SetebenchError, UsageError
from setebench.results import Document, Finding, MachineRecord
from setebench.score.tasks import Task, perform

TRUTH = "truth.json"
SLOWER = 1.1  # latencies of the odd level over those of a real run

_replace = msgspec.structs.replace


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run: the seed of its machine, and what was found."""

    seed: int
    findings: list[Finding]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of equal machines."""

    schema: int = 1
    scenarios: tuple[str, ...]
    fast: bool
    runs: list[Run]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet to make: `nodes` in all, `odd` of them slower at one level, with `runs` runs each."""

    nodes: int
    odd: int
    seed: int
    runs: int = 3


def record(task: Task, count: int, received: Callable[[int], None] = lambda _done: None) -> Recording:
    """Run the task on `count` machines, one after the other, equal but for their seeds: the task's and those after it.
    `received` is given how many are done.

    Raises `SetebenchError` where a scenario doesn't go through."""
    runs = []
    for seed in range(task.seed, task.seed + count):
        answer = perform(_replace(task, seed=seed))
        if answer.failures:
            raise SetebenchError(f"{answer.failures[0].scenario} failed with seed {seed}: {answer.failures[0].reason}")
        runs.append(Run(seed=seed, findings=[_replace(each, evidence="") for each in answer.findings]))
        received(len(runs))
    return Recording(scenarios=task.scenarios, fast=task.fast, runs=runs)


def write(folder: Path, recording: Recording, plan: Plan) -> dict[str, dict[str, Any]]:
    """Write the fleet's results into a new or empty folder, a file a run, and what is true of it beside them; the same
    for the same recording and plan. Returns the odd nodes. Raises `UsageError` for a folder that can't be used, or
    where the recording has too little for the plan."""
    changes = _changes(recording)
    if plan.runs > len(recording.runs) or plan.odd > (plan.nodes if changes else 0):
        has = f"{len(recording.runs)} runs that show {len(changes)} levels"
        raise UsageError(f"{plan.odd} odd ones of {plan.nodes} nodes with {plan.runs} runs each: there are {has}")
    if store.make_folder(folder):
        raise UsageError(f"the directory {str(folder)!r} holds other files; name another one")
    rng, digits = np.random.default_rng(plan.seed), len(str(plan.nodes))
    chosen, odd = set(rng.choice(plan.nodes, plan.odd, replace=False).tolist()), dict[str, dict[str, Any]]()
    empty = Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind="sim", name="sim:fleet", facts={}, environment={}),
        settings={"scenario": ", ".join(recording.scenarios), "fast": recording.fast},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=[],
        evidence={},
    )
    for number in range(plan.nodes):
        name, moved = f"n{number + 1:0{digits}d}", list[str]()
        places = rng.choice(len(recording.runs), plan.runs, replace=False)
        if number in chosen:
            what, moved = list(changes.items())[int(rng.integers(len(changes)))]
            odd[name] = {"what": what, "parameters": moved}
        for run, place in enumerate(places, 1):
            found = [_slower(each) if each.parameter in moved else each for each in recording.runs[place].findings]
            document = _replace(empty, settings={**empty.settings, "node": name}, findings=found)
            # not store.save: ten thousand small files, each synchronised to the disk, would take minutes
            (folder / f"{name}.run-{run}.json").write_bytes(store.dumps(document))
    store.write(folder / "recorded.json", msgspec.json.encode(recording) + b"\n")
    store.write(folder / TRUTH, store.pretty({"schema": 1, "plan": plan, "odd": odd}).encode())
    return odd


def _changes(recording: Recording) -> dict[str, list[str]]:
    """What may be odd about a node, a level or memory that answers later, and the parameters that show it, of those
    that most recorded runs report."""
    numbers = (each for run in recording.runs for each in run.findings if isinstance(each.value, float))
    often = [name for name, n in Counter(each.parameter for each in numbers).items() if 2 * n > len(recording.runs)]
    places = ("l1", "l2", "l3", "l4", "memory")
    found = {place: [name for name in often if f"{name}.".startswith(f"latency.{place}.")] for place in places}
    return {f"{place} answers later": own for place, own in found.items() if own}


def _slower(finding: Finding) -> Finding:
    """The finding with its value and its interval so many times as large."""
    names = ("value", "low", "high")
    moved: dict[str, Any] = {name: end * SLOWER for name in names if isinstance(end := getattr(finding, name), float)}
    return _replace(finding, **moved)

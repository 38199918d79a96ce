"""Fleets of simulated machines whose odd nodes are known.

A few machines are run, equal but for their seeds. Every node's runs are drawn from these recorded ones, each run as a
whole, so that what its findings have in common stays; no node gets one twice. The runs of an odd node are recorded ones
too, with the latencies of one level moved, so that errors and intervals stay those of a real run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from setebench import files, store
from setebench.errors import SetebenchError, UsageError
from setebench.results import Document, Finding, MachineRecord
from setebench.score.tasks import Task, perform

RECORDED, TRUTH = "recorded.json", "truth.json"

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


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is odd about a node, and the parameters, of those that most recorded runs report, that show it."""

    what: str
    parameters: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet to make: `nodes` in all, `odd` of them degraded by the fraction `degrade`, with `runs` runs each."""

    nodes: int
    odd: int
    seed: int
    runs: int = 3
    degrade: float = 0.1


# -- recording --------------------------------------------------------------------------------------------------------


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


def read_recording(path: Path) -> Recording:
    """Raises `UsageError` for a file that is none."""
    try:
        return msgspec.json.decode(files.read_bytes(path), type=Recording)
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} is no recording of a fleet's machines: {error}") from error


# -- making a fleet ---------------------------------------------------------------------------------------------------


Node = tuple[str, Change | None, list[list[Finding]]]
"""A made node: its name, what is odd about it (None: nothing), and the findings of each of its runs."""


def nodes(recording: Recording, plan: Plan) -> Iterator[Node]:
    """The nodes of the fleet, in the order of their names; the same for the same recording and plan.

    Raises `UsageError` where the recording has too few runs, or shows nothing that a node could be odd in."""
    if plan.runs > len(recording.runs):
        raise UsageError(f"{plan.runs} runs a node need as many recorded ones; there are {len(recording.runs)}")
    if plan.odd > plan.nodes:
        raise UsageError(f"{plan.odd} odd nodes among {plan.nodes} are too many")
    rng = np.random.default_rng(plan.seed)
    odd = set(rng.choice(plan.nodes, plan.odd, replace=False).tolist())
    choices = _choices(recording)
    if odd and not choices:
        raise UsageError("the recorded runs report nothing that an odd node could be odd in")
    digits = len(str(plan.nodes))
    for number in range(plan.nodes):
        chosen = rng.choice(len(recording.runs), plan.runs, replace=False)
        runs = [recording.runs[place].findings for place in chosen]
        change = None
        if number in odd:
            change = choices[int(rng.integers(len(choices)))]
            moved, factor = set(change.parameters), 1 + plan.degrade
            runs = [[_times(each, factor) if each.parameter in moved else each for each in run] for run in runs]
        yield f"n{number + 1:0{digits}d}", change, runs


def write(folder: Path, recording: Recording, plan: Plan) -> dict[str, Change]:
    """Write the fleet's results into a new or empty folder, a file a run, and what is true of it beside them. Returns
    the odd nodes. Raises `UsageError`."""
    if store.make_folder(folder):
        raise UsageError(f"the directory {str(folder)!r} holds other files; name another one")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    settings = {"scenario": ", ".join(recording.scenarios), "fast": recording.fast}
    empty = Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind="sim", name="sim:fleet", facts={}, environment={}),
        settings={},
        started=started,
        elapsed_seconds=0.0,
        findings=[],
        evidence={},
    )
    odd: dict[str, Change] = {}
    store.write(folder / RECORDED, msgspec.json.encode(recording) + b"\n")
    for name, change, runs in nodes(recording, plan):
        if change is not None:
            odd[name] = change
        for run, findings in enumerate(runs, 1):
            document = _replace(empty, settings={**settings, "node": name}, findings=findings)
            # not store.save: ten thousand small files, each synchronised to the disk, would take minutes
            (folder / f"{name}.run-{run}.json").write_bytes(store.dumps(document))
    known = {"schema": 1, "plan": store.plain(plan), "odd": store.plain(odd)}
    store.write(folder / TRUTH, msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    return odd


# -- odd nodes --------------------------------------------------------------------------------------------------------


def _choices(recording: Recording) -> list[Change]:
    """Every level, and memory, that may answer later, with what most recorded runs report of its latency."""
    numbers = (each for run in recording.runs for each in run.findings if isinstance(each.value, float))
    often = [name for name, n in Counter(each.parameter for each in numbers).items() if 2 * n > len(recording.runs)]
    found = []
    for place in ("l1", "l2", "l3", "l4", "memory"):
        own = tuple(name for name in often if f"{name}.".startswith(f"latency.{place}."))
        found += [Change(what=f"{place} answers later", parameters=own)] if own else []
    return found


def _times(finding: Finding, factor: float) -> Finding:
    """The finding with its value and its interval so many times as large."""
    ends = {name: None if (end := getattr(finding, name)) is None else end * factor for name in ("low", "high")}
    return _replace(finding, value=float(finding.value) * factor, **ends)  # type: ignore[arg-type]

"""Fleets of simulated machines whose odd nodes are known.

A few machines are run, equal but for their seeds. Every node's runs are drawn from these recorded ones, each run as a
whole, so that what its findings have in common stays; no node gets one twice. An odd node has another truth: its runs
are recorded ones too, with each value moved as the truth moved, so that errors and intervals stay those of a real run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from setebench import files, store
from setebench.errors import SetebenchError, UsageError
from setebench.results import Document, Finding, MachineRecord, Value
from setebench.score.errand import Errand, carry_out
from setebench.score.tasks import with_noise
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load, parse
from setebench.sim.truth.parameters import truth

MOST_RECORDED = 50
"""Machines that are run for one fleet: more say little more of what runs of equal machines have in common."""

RECORDED, TRUTH = "recorded.json", "truth.json"

_replace = msgspec.structs.replace


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run: the seed of its machine, and what was found."""

    seed: int
    findings: list[Finding]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of equal machines; `machine` is the machine file, disturbances included."""

    schema: int = 1
    machine: str
    scenarios: tuple[str, ...]
    fast: bool
    runs: list[Run]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What an odd node has instead of the usual; of the parameters that the recorded runs report."""

    what: str
    parameters: dict[str, tuple[Value, Value]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet to make: `nodes` in all, `odd` of them degraded by the fraction `degrade`, with `runs` runs each."""

    nodes: int
    odd: int
    seed: int
    runs: int = 3
    degrade: float = 0.1


# -- recording --------------------------------------------------------------------------------------------------------


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded: `machine` by name, with the disturbances `noise`; `count` runs, from `seed` on."""

    machine: str
    noise: str
    scenarios: tuple[str, ...]
    fast: bool
    seed: int
    count: int


def record(wanted: Wanted, received: Callable[[int], None] = lambda _done: None) -> Recording:
    """Run the machines, one after the other. `received` is given how many are done.

    Raises `SetebenchError` where a scenario doesn't go through."""
    if not 1 <= wanted.count <= MOST_RECORDED:
        raise UsageError(f"between 1 and {MOST_RECORDED} machines are run, not {wanted.count}")
    machine = with_noise(load(wanted.machine), wanted.noise)
    runs = []
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        reply = carry_out(Errand(machine=machine, scenarios=wanted.scenarios, seed=seed, fast=wanted.fast))
        if reply.failures:
            raise SetebenchError(f"{reply.failures[0].scenario} failed with seed {seed}: {reply.failures[0].reason}")
        runs.append(Run(seed=seed, findings=[_replace(each, evidence="") for each in reply.findings]))
        received(len(runs))
    return Recording(machine=dump(machine), scenarios=wanted.scenarios, fast=wanted.fast, runs=runs)


def save_recording(recording: Recording, path: Path, force: bool = False) -> None:
    """Write a recording for later fleets."""
    store.write(path, msgspec.json.encode(recording) + b"\n", force)


def read_recording(path: Path) -> Recording:
    """Raises `UsageError` for a file that is none."""
    try:
        return msgspec.json.decode(files.read_bytes(path), type=Recording)
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} is no recording of a fleet's machines: {error}") from error


# -- making a fleet ---------------------------------------------------------------------------------------------------


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A made node: its name, what is odd about it (None: nothing), and the findings of each of its runs."""

    name: str
    change: Change | None
    runs: list[list[Finding]]


def nodes(recording: Recording, plan: Plan) -> Iterator[Node]:
    """The nodes of the fleet, in the order of their names; the same for the same recording and plan.

    Raises `UsageError` where the recording has too few runs, or shows nothing that a node could be odd in."""
    if plan.runs > len(recording.runs):
        raise UsageError(f"{plan.runs} runs a node need as many recorded ones; there are {len(recording.runs)}")
    if plan.odd > plan.nodes:
        raise UsageError(f"{plan.odd} odd nodes among {plan.nodes} are too many")
    rng = np.random.default_rng(plan.seed)
    odd = set(rng.choice(plan.nodes, plan.odd, replace=False).tolist())
    machine = parse(recording.machine, "the recorded machine")
    usual = {finding.parameter: finding for finding in truth(machine)}
    choices = _choices(machine, usual, recording, plan.degrade) if odd else []
    if odd and not choices:
        raise UsageError("the recorded runs report nothing that an odd node could be odd in")
    digits = len(str(plan.nodes))
    for number in range(plan.nodes):
        chosen = rng.choice(len(recording.runs), plan.runs, replace=False)
        runs = [recording.runs[place].findings for place in chosen]
        change = None
        if number in odd:
            change, after = choices[int(rng.integers(len(choices)))]
            runs = [[_moved(each, usual, after) for each in run] for run in runs]
        yield Node(name=f"n{number + 1:0{digits}d}", change=change, runs=runs)


def write(folder: Path, recording: Recording, plan: Plan) -> dict[str, Change]:
    """Write the fleet's results into a new or empty folder, a file a run, and what is true of it beside them. Returns
    the odd nodes. Raises `UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        holds = any(folder.iterdir())
    except OSError as error:
        raise UsageError(f"can't use the directory {str(folder)!r}: {error.strerror or error}") from error
    if holds:
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
    save_recording(recording, folder / RECORDED)
    for node in nodes(recording, plan):
        if node.change is not None:
            odd[node.name] = node.change
        for run, findings in enumerate(node.runs, 1):
            document = _replace(empty, settings={**settings, "node": node.name}, findings=findings)
            # not store.save: ten thousand small files, each synchronised to the disk, would take minutes
            (folder / f"{node.name}.run-{run}.json").write_bytes(store.dumps(document))
    known = {"schema": 1, "plan": store.plain(plan), "odd": store.plain(odd)}
    store.write(folder / TRUTH, msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    return odd


# -- odd nodes --------------------------------------------------------------------------------------------------------

Truths = dict[str, Finding]


def _choices(machine: spec.Machine, usual: Truths, recording: Recording, by: float) -> list[tuple[Change, Truths]]:
    """Every level, and memory, that may answer later, where that shows in what most recorded runs report."""
    reported = Counter(each.parameter for run in recording.runs for each in run.findings if each.value is not None)
    often = {
        name: key for name, n in reported.items() if 2 * n > len(recording.runs) and (key := _true_name(name, usual))
    }
    found = []
    for number in range(len(machine.levels) + 1):
        memory, levels = machine.memory, list(machine.levels)
        if number < len(levels):
            what = f"level {number + 1} answers later"
            levels[number] = _replace(levels[number], latency_cycles=levels[number].latency_cycles * (1 + by))
        else:
            what, memory = "memory answers later", _replace(memory, latency_cycles=memory.latency_cycles * (1 + by))
        other = _replace(machine, levels=tuple(levels), memory=memory)
        after = {finding.parameter: finding for finding in truth(other)}
        values = {name: (usual[key].value, after[key].value) for name, key in often.items()}
        if differs := {name: pair for name, pair in values.items() if pair[0] != pair[1]}:
            found.append((Change(what=what, parameters=differs), after))
    return found


def _true_name(name: str, truths: Mapping[str, Finding]) -> str | None:
    """The parameter of the truth that a finding is about: its own, or the one that it is a way to measure
    (latency.l2.chase is about latency.l2)."""
    while name and name not in truths:
        name = name.rpartition(".")[0]
    return name or None


def _moved(finding: Finding, usual: Truths, after: Truths) -> Finding:
    """What the run would have said of the other machine: a number and its interval as the truth moved."""
    key = _true_name(finding.parameter, usual)
    if key is None or not isinstance(finding.value, float) or usual[key].value == after[key].value:
        return finding
    factor = float(after[key].value) / float(usual[key].value)  # type: ignore[arg-type]
    ends = {name: None if (end := getattr(finding, name)) is None else end * factor for name in ("low", "high")}
    return _replace(finding, value=finding.value * factor, **ends)

"""How far twins of random simulated machines are right, and how well `verify` and `fit` tell right from wrong ones.

    python benchmarks/twins.py found --answers FILE   # twins of what a score with these answers found
    python benchmarks/twins.py wrong --machines 50    # exact twins, and four of each machine with a wrong field each
    python benchmarks/twins.py fitted --machines 5    # parts of fresh probes that wrong ones miss, before fit and after

A line of JSON for each twin, then median, least and mean. The numbers of machines without answers follow from a hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from setebench import store
from setebench.results import Document, MachineRecord
from setebench.score.stream import read
from setebench.score.tasks import Answer
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load
from setebench.sim.machine import facts_of
from setebench.truth.fit import changed, fit
from setebench.truth.twin import Twin, fields_of, make_twin, twin_of_file
from setebench.truth.verify.check import Request, Verified, answered, least_difference, scaled, verify
from setebench.truth.verify.document import as_document

WRONG, FACTORS, LEAST_SHIFT = 4, (0.5, 0.7, 1.4, 2.0), 0.02  # of a number; part of the probes that must show it


def found(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    """What the twin of a machine's findings predicts of it, and which part that is of its own answers."""
    facts = facts_of(load(answer.machine))
    document = Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind=facts.kind, name=facts.name, facts=store.plain(facts), environment={}),
        settings={},
        started="",
        elapsed_seconds=0.0,
        findings=answer.findings,
        evidence={"prefetchers": answer.curves},
    )
    checked = as_document(verify(make_twin(document), request), document)
    row = {key: checked[f"verify.all.{key}"].number or 0.0 for key in ("agreement", "ceiling", "defaults")}
    yield {**row, "part": row["agreement"] / row["ceiling"]}


def exact(request: Request) -> Verified:
    """A machine's own file as its twin."""
    return verify(twin_of_file(dump(load(request.machine.removeprefix("sim:"))), request.machine), request)


def wrong(request: Request) -> Iterator[dict[str, Any]]:
    """Whether the exact twin of a machine, and twins with a wrong field, are contradicted."""
    checked = exact(request)
    yield {"false alarm": checked.contradicted}
    for twin, how in mistaken(checked):
        yield {**how, "found": verify(twin, request).contradicted}


def fitted(request: Request) -> Iterator[dict[str, Any]]:
    """The part of fresh probes that a wrong twin answers differently, before it is fitted and after."""
    for twin, how in mistaken(exact(request)):
        better, fresh = fit(twin, replace(request, minutes=1.0)), replace(request, seed=request.seed + 1)
        before, after = (np.mean([row.badness > 0 for row in verify(each, fresh).rows]) for each in (twin, better))
        yield {**how, "before": float(before), "after": float(after)}


def mistaken(checked: Verified) -> Iterator[tuple[Twin, dict[str, Any]]]:
    """Twins with one wrong number that enough probes show; what is wrong, and the part of the probes that do."""
    rng, machine, made = np.random.default_rng(checked.request.seed), checked.twin.machine, 0
    trials, roots = {row.number: row.trial for row in checked.rows}, ("levels", "tlb", "memory", "prefetchers")
    own, around = answered(machine, checked, trials), checked.around
    numbers = [each for each in fields_of(machine) if each[0][0] in roots and type(each[1]) in (int, float)]
    for path, value in (numbers[place] for place in rng.permutation(len(numbers))):
        factor = float(rng.choice(FACTORS))
        other = changed(machine, path, type(value)(value * factor))
        if made == WRONG or not isinstance(other, spec.Machine) or other == machine:
            continue
        given = answered(other, checked, trials)
        apart = [
            np.abs(scaled(trials[at], own[at], around) - scaled(trials[at], given[at], around)).max()
            > least_difference(trials[at], own[at])
            for at in own.keys() & given.keys()
        ]
        if (shift := float(np.mean(apart))) >= LEAST_SHIFT:
            made += 1
            field = f"{'.'.join(map(str, path))} * {factor}"
            yield Twin(other, checked.twin.origins, {}), {"field": field, "shift": shift}


def main() -> None:
    parser, rows = argparse.ArgumentParser(description=__doc__.split("\n")[0]), list[dict[str, Any]]()
    questions = {"wrong": wrong, "fitted": fitted}
    parser.add_argument("question", choices=("found", *questions))
    parser.add_argument("--answers", type=Path, help="of `setebench score`, for `found`")
    parser.add_argument("--machines", type=int, default=60)
    parser.add_argument("--first", type=int, default=1, help="place of the first machine in the list")
    parser.add_argument("--probes", type=int, default=240)
    options = parser.parse_args()
    if (options.question == "found") != (options.answers is not None):
        parser.error("found takes --answers, the others don't")
    done = read(options.answers)[1] if options.answers is not None else {}
    for place in range(options.first, min(options.first + options.machines, len(done) + 1 if done else 1 << 30)):
        digest = hashlib.sha256(f"twins of findings {place}".encode()).digest()
        number = int.from_bytes(digest[:4], "big") % 1_000_000
        name = sorted(done)[place - 1] if done else f"random:{number}"
        request = Request(machine=f"sim:{name}", minutes=None, trials=options.probes, seed=number)
        for row in found(request, done[name]) if done else questions[options.question](request):
            rows.append(row)
            print(json.dumps({"machine": name, **row}), flush=True)
    for key in dict.fromkeys(key for row in rows for key in row if key != "field"):
        values = [float(row[key]) for row in rows if key in row]
        print(
            f"{key}: median {np.median(values):.4g}, least {min(values):.4g}, mean {np.mean(values):.4g}, {len(values)}"
        )


if __name__ == "__main__":
    main()

"""How often `setebench verify` sees that a twin differs from its machine in one field, and how often it says so of an
exact one.

    python benchmarks/verify_detection.py --machines 24 --changes 6 --probes 300 -o detection.json

Random machines (seeds from --first on) are asked twice, and so is their exact twin, and twins with one field changed
at random: kinds of fields are drawn with equal chance, then a field of that kind, then one of its plausible other
values (those that `verify` itself would try). For each changed twin it is also said on which part of the probes it
differs from the exact twin at all: a change that no probe sees can't be detected. Progress goes to standard error,
the figures to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from setebench.judge.proportion import proportion
from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.dump import dump
from setebench.sim.loader import load
from setebench.truth.twin import twin_of_file
from setebench.truth.verify import families
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.check import (
    Request,
    Row,
    Verified,
    answers,
    badness,
    compared,
    opened_twin,
    parted,
    surroundings,
)
from setebench.truth.verify.explain import variants
from setebench.truth.verify.families import drawn
from setebench.truth.verify.trials import Trial

BATCH = 20
VISIBLE = 0.02
"""The issue's bound: changes that shift at least this part of the probes are to be detected."""


@dataclass(frozen=True)
class Case:
    """One twin of one machine."""

    machine: str
    kind: str
    value: str
    shifted: float
    detected: bool


def main() -> None:
    options = _options()
    families.PARAMS = replace(families.PARAMS, most_ring=options.most_ring)
    cases: list[Case] = []
    for seed in range(options.first, options.first + options.machines):
        cases += list(_machine(seed, options))
        print(f"random:{seed}: {sum(case.detected for case in cases)} of {len(cases)}", file=sys.stderr, flush=True)
        if options.output:
            options.output.write_text(json.dumps([asdict(case) for case in cases]))
    _report(cases, options.probes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--machines", type=int, default=24)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=6)
    parser.add_argument("--probes", type=int, default=300)
    parser.add_argument("--most-ring", type=int, default=families.PARAMS.most_ring, help="lines of the largest ring")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


Said = dict[int, Answer]


def _machine(seed: int, options: argparse.Namespace) -> Iterator[Case]:
    name = f"random:{seed}"
    machine = load(name)
    held = (machine.levels[0].latency_cycles, machine.memory.latency_cycles)
    real = open_machine(f"sim:{name}", seed=seed)
    try:
        with opened_twin(machine, seed) as model:
            around = surroundings(machine, real, model)
            trials = {n: trial for n in range(options.probes) if (trial := drawn(seed, n, around)) is not None}
            asker, twin = Asker(real, around, held, seed), Asker(model, around, held, seed + 1)
            first, again = _asked(asker, trials), _asked(asker, trials)
            exact = _asked(twin, trials)
            yield Case(name, "exact", "", 0.0, _detected(machine, trials, (first, again, exact), (asker, twin)))
        for kind, value, changed in _changes(machine, seed, options.changes):
            with opened_twin(changed, seed) as model:
                twin = Asker(model, around, held, seed + 1)
                said = _asked(twin, trials)
                shifted = _shifted(machine, trials, exact, said)
                yield Case(name, kind, value, shifted, _detected(machine, trials, (first, again, said), (asker, twin)))
    finally:
        real.close()


def _asked(asker: Asker, trials: dict[int, Trial]) -> Said:
    found: Said = {}
    numbers = list(trials)
    for begin in range(0, len(numbers), BATCH):
        asker.calibrate()
        found |= dict(answers(asker, {number: trials[number] for number in numbers[begin : begin + BATCH]}))
    return found


def _changes(machine: spec.Machine, seed: int, count: int) -> Iterator[tuple[str, str, spec.Machine]]:
    """Changes of so many kinds of fields: tables and fields without indices."""
    rng = np.random.default_rng(seed)
    kinds = defaultdict(list)
    for path, value, make in variants(twin_of_file(dump(machine), "machine")):
        kinds[".".join(part for part in path if isinstance(part, str))].append((str(value), make))
    found = 0
    for kind in rng.permutation(sorted(kinds)):
        value, make = kinds[kind][int(rng.integers(len(kinds[kind])))]
        changed = make()
        if changed is not None and found < count:
            found += 1
            yield str(kind), value, changed
        if found == count:
            return


def _rows(machine: spec.Machine, trials: dict[int, Trial], said: tuple[Said, Said, Said]) -> list[Row]:
    complete = [number for number in trials if all(number in each for each in said)]
    rows = []
    for number in complete:
        first, again, twin = (each[number] for each in said)
        labelled = compared(trials[number], (first, again, twin), machine)
        rows.append(Row(number, trials[number], first, again, twin, labelled))
    return rows


def _detected(
    machine: spec.Machine, trials: dict[int, Trial], said: tuple[Said, Said, Said], askers: tuple[Asker, Asker]
) -> bool:
    rows = _rows(machine, trials, said)
    again = parted(rows, askers, machine)
    request = Request(minutes=None, trials=len(rows))
    return Verified(twin_of_file(dump(machine), "machine"), request, rows, 0.0, again).contradicted


def _shifted(machine: spec.Machine, trials: dict[int, Trial], exact: Said, said: Said) -> float:
    rows = _rows(machine, trials, (exact, exact, said))
    return sum(badness(row) > 0 for row in rows) / max(len(rows), 1)


def _report(cases: list[Case], probes: int) -> None:
    exact = [case for case in cases if case.kind == "exact"]
    changed = [case for case in cases if case.kind != "exact"]
    visible = [case for case in changed if case.shifted >= VISIBLE]
    print(f"{probes} probes each, rings of at most {families.PARAMS.most_ring} lines")
    for text, chosen in (
        ("false alarms on exact twins", exact),
        ("changed twins detected, all", changed),
        (f"changed twins detected, of those that shift at least {VISIBLE:.0%} of the probes", visible),
    ):
        found = proportion(sum(case.detected for case in chosen), len(chosen))
        print(f"{text}: {found.hits} of {found.trials} [{found.low}, {found.high}]")
    kinds = defaultdict(list)
    for case in changed:
        kinds[case.kind].append(case)
    print("kind, changed twins, detected, median part of probes shifted")
    for kind, each in sorted(kinds.items()):
        part = np.median([case.shifted for case in each])
        print(f"{kind}, {len(each)}, {sum(case.detected for case in each)}, {part:.3f}")


if __name__ == "__main__":
    main()

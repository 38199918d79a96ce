"""How often `setebench verify` sees that a twin differs from its machine in one field, and how often it says so of an
exact one.

    python benchmarks/verify_detection.py --machines 24 --changes 6 --probes 300 -o detection.json

Random machines (seeds from --first on) are asked twice, and so is their exact twin, and twins with one field changed
at random: kinds of fields are drawn with equal chance, then a field of that kind, then one of its plausible other
values (those that `verify` itself would try). For each changed twin it is also said on which part of the probes it
differs from the exact twin at all: a change that no probe sees can't be detected. Progress goes to standard error,
the figures to standard output.

    python benchmarks/verify_detection.py --machines 0 --add detection.json others.json --page

adds up the cases of several runs with the same settings, and puts the figures on the accuracy page.

    python benchmarks/verify_detection.py --machines 12 --probes 200 --by-probes 25 50 100 -o by_probes.json --page

says how often fewer probes would have been enough, from the same answers: what was asked again of the first 25, 50 and
100 alone decides then. Twins of what findings can say are left out, and the page keeps its other figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from accuracy import add

from setebench.judge.shares import proportion
from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load
from setebench.sim.truth.document import truth_document
from setebench.truth.twin import make_twin, twin_of_file
from setebench.truth.verify import families
from setebench.truth.verify.again import asked_again
from setebench.truth.verify.agreement import contradicted, share
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.check import opened_twin, surroundings
from setebench.truth.verify.explain import variants
from setebench.truth.verify.families import drawn
from setebench.truth.verify.rows import Row, answers, row
from setebench.truth.verify.trials import Trial

BATCH = 20
VISIBLE = 0.02
"""Changes that shift at least this part of the probes are to be detected."""

ALIKE = ("exact", "of findings")
"""Twins with nothing changed: the machine's own file, and what a result in which all was found makes of it."""

SHIFTED = 0.002
"""p-value below which a probe counts as shifted: two exact twins of 200 probes rarely have one."""


@dataclass(frozen=True)
class Case:
    """One twin of one machine."""

    machine: str
    kind: str
    value: str
    shifted: float
    detected: bool
    agreement: float | None = None
    ceiling: float | None = None
    by_probes: dict[str, bool] = field(default_factory=dict)  # whether the first so many probes would have told


def main() -> None:
    options = _options()
    families.PARAMS = replace(families.PARAMS, most_ring=options.most_ring)
    cases = [Case(**each) for file in options.add for each in json.loads(file.read_text())]
    for seed in range(options.first, options.first + options.machines):
        cases += list(_machine(seed, options))
        print(f"random:{seed}: {sum(case.detected for case in cases)} of {len(cases)}", file=sys.stderr, flush=True)
        if options.output:
            options.output.write_text(json.dumps([asdict(case) for case in cases]))
    figures = (_figures_by_probes if options.by_probes else _figures)(cases, options)
    print(json.dumps(figures, indent=1))
    if options.page:
        add("verifier_by_probes" if options.by_probes else "verifier", figures)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--machines", type=int, default=24)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=6)
    parser.add_argument("--probes", type=int, default=300)
    parser.add_argument("--most-ring", type=int, default=families.PARAMS.most_ring, help="lines of the largest ring")
    parser.add_argument("--add", nargs="*", default=[], type=Path, metavar="FILE", help="cases of earlier runs")
    parser.add_argument("--by-probes", nargs="+", default=[], type=int, metavar="N", help="fewer probes to decide by")
    parser.add_argument("--page", action="store_true", help="put the figures into docs/accuracy.json and accuracy.md")
    parser.add_argument("-o", "--output", type=Path, help="write the cases to this file as they come")
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
            asker = Asker(real, around, held, seed)
            same = Asker(model, around, held, seed + 1, asker.repetitions)
            own = _asked(asker, trials), _asked(asker, trials)
            exact = _asked(same, trials), _asked(same, trials)
            yield _alike((name, "exact"), (machine, trials, (*own, exact[0])), (asker, same), options.by_probes)
        if not options.by_probes:
            made = make_twin(truth_document(machine, name, datetime.now(UTC))).machine
            with opened_twin(made, seed) as other:
                twin = Asker(other, around, held, seed + 2, asker.repetitions)
                yield _alike((name, "of findings"), (machine, trials, (*own, _asked(twin, trials))), (asker, twin), [])
        with opened_twin(machine, seed) as model:
            same = Asker(model, around, held, seed + 1, asker.repetitions)
            for kind, value, changed in _changes(machine, seed, options.changes):
                with opened_twin(changed, seed) as other:
                    twin = Asker(other, around, held, seed + 2, asker.repetitions)
                    said = _asked(twin, trials)
                    shifts = _doubts(machine, trials, (*exact, said), (same, twin))
                    shifted = sum(each < SHIFTED for each in shifts.values()) / len(trials)
                    doubts = _doubts(machine, trials, (*own, said), (asker, twin))
                    fewer = _by_probes(doubts, options.by_probes)
                    yield Case(name, kind, value, shifted, _contradicted(doubts), by_probes=fewer)
    finally:
        real.close()


def _alike(
    named: tuple[str, str],
    asked: tuple[spec.Machine, dict[int, Trial], tuple[Said, Said, Said]],
    askers: tuple[Asker, Asker],
    fewer: list[int],
) -> Case:
    """A twin that ought to be like the machine, with how many levels of lines it predicts."""
    doubts = _doubts(*asked, askers)
    rows = [each.compared for each in _rows(*asked) if each.by_level]
    agreement, ceiling = share(rows, "twin").value, share(rows, "again").value
    return Case(*named, "", 0.0, _contradicted(doubts), agreement, ceiling, _by_probes(doubts, fewer))


def _contradicted(doubts: dict[int, float]) -> bool:
    return contradicted(list(doubts.values()))


def _by_probes(doubts: dict[int, float], fewer: list[int]) -> dict[str, bool]:
    """Whether what was asked again of the first so many probes contradicts the twin."""
    return {str(most): _contradicted({n: doubt for n, doubt in doubts.items() if n < most}) for most in fewer}


def _doubts(
    machine: spec.Machine, trials: dict[int, Trial], said: tuple[Said, Said, Said], askers: tuple[Asker, Asker]
) -> dict[int, float]:
    return asked_again(_rows(machine, trials, said), askers, machine)


def _asked(asker: Asker, trials: dict[int, Trial]) -> Said:
    found: Said = {}
    numbers = list(trials)
    for begin in range(0, len(numbers), BATCH):
        asker.alone()
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
    first, again, twin = said
    return [row(number, trials[number], (first[number], again[number], twin[number]), machine) for number in complete]


def _figures_by_probes(cases: list[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Of the accuracy page's table by number of probes. What shifts is known from all probes in every row."""
    seeds = sorted({int(case.machine.rpartition(":")[2]) for case in cases})
    found: dict[str, Any] = {}
    for most in (*map(str, sorted(options.by_probes)), str(options.probes)):
        then = [replace(case, detected=case.by_probes.get(most, case.detected)) for case in cases]
        changed = [case for case in then if case.kind not in ALIKE]
        found[most] = {
            "exact": _contradicted_of([case for case in then if case.kind == "exact"]),
            "visible": _contradicted_of([case for case in changed if case.shifted >= VISIBLE]),
            "fewer": _contradicted_of([case for case in changed if 0 < case.shifted < VISIBLE]),
            "none": _contradicted_of([case for case in changed if not case.shifted]),
        }
    return {"commands": [_command(options, seeds)], "machines": len(seeds), "by_probes": found}


def _command(options: argparse.Namespace, seeds: list[int]) -> str:
    command = (
        f"python benchmarks/verify_detection.py --first {seeds[0]} --machines {seeds[-1] - seeds[0] + 1} "
        f"--changes {options.changes} --probes {options.probes} --most-ring {options.most_ring}"
    )
    return command + (f" --by-probes {' '.join(map(str, options.by_probes))}" if options.by_probes else "")


def _figures(cases: list[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Of the accuracy page."""
    changed = [case for case in cases if case.kind not in ALIKE]
    kinds = defaultdict(list)
    for case in changed:
        kinds[case.kind].append(case)
    seeds = sorted({int(case.machine.rpartition(":")[2]) for case in cases})
    return {
        "commands": [_command(options, seeds)],
        "machines": len(seeds),
        "probes": options.probes,
        "alike": {kind: _of_alike([case for case in cases if case.kind == kind]) for kind in ALIKE},
        "changed": {
            "visible": _contradicted_of([case for case in changed if case.shifted >= VISIBLE]),
            "fewer": _contradicted_of([case for case in changed if 0 < case.shifted < VISIBLE]),
            "none": _contradicted_of([case for case in changed if not case.shifted]),
            "all": _contradicted_of(changed),
        },
        "kinds": {
            kind: {
                "changed": len(each),
                "shifting": sum(case.shifted > 0 for case in each),
                "contradicted": sum(case.detected for case in each),
            }
            for kind, each in sorted(kinds.items())
        },
    }


def _of_alike(cases: list[Case]) -> dict[str, Any]:
    """Of twins that ought to be like their machines; levels predicted in per cent of the ceiling."""
    parts = [100 * case.agreement / case.ceiling for case in cases if case.agreement and case.ceiling]
    return {"contradicted": _contradicted_of(cases), "median": float(np.median(parts)), "least": min(parts)}


def _contradicted_of(cases: list[Case]) -> dict[str, Any]:
    return msgspec.to_builtins(proportion(sum(case.detected for case in cases), len(cases)))


if __name__ == "__main__":
    main()

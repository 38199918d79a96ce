"""How well twins of what was found predict their machines: of every machine of a score that kept its answers.

    setebench score --sealed NONCE --machines 50 --answers answers.jsonl
    python benchmarks/verify_twins.py answers.jsonl --probes 200 -o twins.jsonl

A machine's findings are made a result, the result a twin, and the twin is verified against the machine on random probes
(`setebench verify`). Agreement of levels is the mean over families with their weights, and is shown relative to the
machine's agreement with itself. With --truths also the twin of all that findings could say is verified, which tells
what inference loses from what no finding names. With --results DIR each machine's result is kept, for `setebench twin`
and `setebench verify` by hand. The file of answers may still grow: what -o holds already is not asked again, and the
same command goes on. Progress goes to standard error, the figures to standard output.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from accuracy import add

from setebench import store
from setebench.errors import SetebenchError
from setebench.judge.shares import Proportion, proportion
from setebench.results import Document
from setebench.score.stream import Plan, read
from setebench.score.workers.tasks import Answer
from setebench.sim.files.loader import load
from setebench.sim.truth.document import truth_document
from setebench.sim.truth.parameters import truth
from setebench.truth.twin import make_twin
from setebench.truth.verify import Request, families, verify
from setebench.truth.verify.document import findings

GOAL = 99.0
"""Per cent of the ceiling."""

PERCENTILES = (0, 10, 25, 50, 75, 90)
SHOWN = 10
"""Machines that are named, the worst ones."""

FOUND, TRUE = "found", "true"
"""What a twin is made of."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One twin of what was found, or is true. `figures` are those of `setebench verify` without that word, `fields`
    counts the twin's fields by their origins; `failed` says why there is nothing else."""

    machine: str
    of: str
    figures: dict[str, float] = {}
    contradicted: bool = False
    fields: dict[str, int] = {}
    seconds: float = 0.0
    failed: str | None = None

    def part(self, family: str = "all") -> float | None:
        """Agreement in per cent of the ceiling; None where that was not asked."""
        agreement, ceiling = (self.figures.get(f"{family}.{name}") for name in ("agreement", "ceiling"))
        return 100 * agreement / ceiling if agreement is not None and ceiling else None


def main() -> None:
    options = _options()
    families.PARAMS = replace(families.PARAMS, most_ring=options.most_ring)
    plan, done = read(options.answers)
    if plan.noise != "drawn":
        sys.exit("verify_twins: the machines of a score with another noise than their own can't be opened by name")
    kept = _kept(options.output)
    answers = list(done.values())[: options.machines]
    for answer, of in ((answer, of) for answer in answers for of in (FOUND, TRUE)[: 1 + options.truths]):
        if (answer.machine, of) in kept:
            continue
        if not _same(answer):
            sys.exit(f"verify_twins: the simulator has changed: {answer.machine} is not the machine that was asked")
        result = _result(answer, plan, of)
        if options.results and of == FOUND:
            _keep(result, options.results / f"{answer.machine.replace(':', '-')}.json")
        checked = _checked(result, Request(seed=plan.machines[answer.machine], minutes=None, trials=options.probes), of)
        kept[answer.machine, of] = checked
        with options.output.open("ab") as file:
            file.write(msgspec.json.encode(checked) + b"\n")
        print(_line(checked), file=sys.stderr, flush=True)
    for of in (FOUND, TRUE):
        if rows := [each for each in kept.values() if each.of == of]:
            print("\n".join(_report(rows, f"twins of what is {of}, {options.probes} probes each")))
    if options.page:
        add("twins", _figures(list(kept.values()), plan, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("answers", type=Path, metavar="ANSWERS", help="file of answers of setebench score")
    parser.add_argument("--machines", type=int, metavar="N", help="only the first N that answered")
    parser.add_argument("--probes", type=int, default=200)
    parser.add_argument("--most-ring", type=int, default=families.PARAMS.most_ring, help="lines of the largest ring")
    parser.add_argument("--truths", action="store_true", help="verify twins of what is true too")
    parser.add_argument("--page", action="store_true", help="put the figures into docs/accuracy.json and accuracy.md")
    parser.add_argument("--results", type=Path, metavar="DIR", help="keep each machine's result")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="a line of JSON a twin")
    return parser.parse_args()


def _kept(path: Path) -> dict[tuple[str, str], Checked]:
    """What was verified before, by machine and what the twin is of."""
    if not path.exists():
        return {}
    rows = [msgspec.json.decode(line, type=Checked) for line in path.read_bytes().splitlines()]
    return {(row.machine, row.of): row for row in rows}


def _same(answer: Answer) -> bool:
    """Whether the machine of that name still is what was true of it when it was asked."""
    now = {each.parameter: each.value for each in truth(load(answer.machine))}
    return all(now.get(each.parameter, each.value) == each.value for each in answer.truths)


def _result(answer: Answer, plan: Plan, of: str) -> Document:
    """What `setebench characterize` would have written of the machine, or what is true of it."""
    when = datetime.fromisoformat(plan.begun) if plan.begun else datetime.now(UTC)
    return msgspec.structs.replace(
        truth_document(load(answer.machine), answer.machine, when),
        findings=answer.findings if of == FOUND else answer.truths,
        settings={"scenario": "score", "machine": f"sim:{answer.machine}", "seed": plan.machines[answer.machine]},
        elapsed_seconds=answer.cpu_seconds,
    )


def _keep(result: Document, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    store.save(result, file, force=True)


def _checked(result: Document, request: Request, of: str) -> Checked:
    name = result.machine.name
    try:
        twin = make_twin(result)
        checked = verify(twin, replace(request, machine=name))
        figures = {each.parameter.removeprefix("verify."): each.value for each in findings(checked)}
    except SetebenchError as error:
        return Checked(machine=name.removeprefix("sim:"), of=of, failed=str(error))
    return Checked(
        machine=name.removeprefix("sim:"),
        of=of,
        figures={key: float(value) for key, value in figures.items() if isinstance(value, float)},
        contradicted=checked.contradicted,
        fields=dict(Counter(origin.origin for origin in twin.origins.values())),
        seconds=round(checked.seconds, 1),
    )


def _line(checked: Checked) -> str:
    start = f"{checked.machine} ({checked.of}): "
    if checked.failed is not None:
        return start + checked.failed
    figures = [f"{checked.figures.get(f'all.{name}', 0.0):.1f} %" for name in ("agreement", "ceiling")]
    return f"{start}levels predicted {figures[0]}, the machine itself {figures[1]}, {checked.seconds} s"


def _report(rows: Sequence[Checked], title: str) -> Iterator[str]:
    parts = {row.machine: part for row in rows if (part := row.part()) is not None}
    failed = [row for row in rows if row.failed is not None]
    yield f"{title}: {len(rows)} machines, {len(failed)} without a twin or a figure"
    yield from (f"  {row.machine}: {row.failed}" for row in failed)
    if not parts:
        return
    levels = list(parts.values())
    names = {0: "least", 50: "median"}
    quantiles = (f"{names.get(each, f'{each} %')} {np.percentile(levels, each):.1f}" for each in PERCENTILES)
    yield f"levels predicted, % of the machine's agreement with itself: {', '.join(quantiles)}"
    yield f"{GOAL:.0f} % or more: {_of(proportion(sum(each >= GOAL for each in levels), len(levels)))}"
    yield f"contradicted: {_of(proportion(sum(row.contradicted for row in rows), len(rows) - len(failed)))}"
    yield "family, machines, median, least"
    for family in (each.name for each in families.FAMILIES):
        own = [part for row in rows if (part := row.part(family)) is not None]
        if own:
            yield f"  {family}, {len(own)}, {np.median(own):.1f}, {min(own):.1f}"
    yield "the worst machines, and their worst families"
    worst = sorted((row for row in rows if row.machine in parts), key=lambda row: parts[row.machine])
    for row in worst[:SHOWN]:
        yield f"  {row.machine}: {parts[row.machine]:.1f} %; {', '.join(_families(row))}"


def _figures(rows: Sequence[Checked], plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Of the accuracy page."""
    score = ["setebench", "score", *(("--sealed", plan.nonce) if plan.nonce else ("--seed", str(plan.seed)))]
    score += ["--machines", str(len(plan.machines)), "--answers", "answers.jsonl", *(["--fast"] if plan.fast else [])]
    asked = f"--probes {options.probes} --most-ring {options.most_ring}{' --truths' if options.truths else ''}"
    return {
        "commands": [shlex.join(score), f"python benchmarks/verify_twins.py answers.jsonl {asked} -o twins.jsonl"],
        "inference": plan.inference,
        "simulator": plan.simulator,
        "machines": len({row.machine for row in rows}),
        "probes": options.probes,
        "of": {of: _of_kind([row for row in rows if row.of == of]) for of in dict.fromkeys(row.of for row in rows)},
    }


def _of_kind(rows: Sequence[Checked]) -> dict[str, Any]:
    parts = [part for row in rows if (part := row.part()) is not None]
    return {
        "failed": sum(row.failed is not None for row in rows),
        "quantiles": {str(each): float(np.percentile(parts, each)) for each in PERCENTILES},
        "at_goal": msgspec.to_builtins(proportion(sum(part >= GOAL for part in parts), len(parts))),
        "contradicted": msgspec.to_builtins(proportion(sum(row.contradicted for row in rows), len(parts))),
    }


def _families(row: Checked) -> Iterator[str]:
    found = {each.name: part for each in families.FAMILIES if (part := row.part(each.name)) is not None}
    yield from (f"{name} {found[name]:.0f} %" for name in sorted(found, key=lambda each: found[each])[:2])


def _of(found: Proportion) -> str:
    if found.low is None or found.high is None:
        return "none"
    return f"{found.hits} of {found.trials} [{100 * found.low:.0f}, {100 * found.high:.0f} %]"


if __name__ == "__main__":
    main()

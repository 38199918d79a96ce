"""`setebench score`: how often each inferred parameter is right, wrong, or honestly unresolved."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from setebench import registry, store
from setebench.cli.options import file_options
from setebench.cli.output import file_or_none
from setebench.errors import UsageError
from setebench.judge import summary
from setebench.scenario import Scenario
from setebench.score import NOISES, Answer, Task, judge_all, perform_all
from setebench.sim.loader import shipped


@click.command()
@click.option("--machines", default=20, show_default=True, type=click.IntRange(0, 100_000), help="Random machines.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the first random machine.")
@click.option("--presets/--no-presets", default=True, show_default=True, help="Also the shipped machine files.")
@click.option("--scenario", "names", multiple=True, metavar="NAME", help="Only this scenario (may be repeated).")
@click.option("--noise", type=click.Choice(NOISES), default="drawn", show_default=True, help="How noisy they are.")
@click.option("--fast", is_flag=True, help="Let scenarios take fewer samples.")
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: all CPUs]")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@file_options
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def score(
    machines: int,
    seed: int,
    presets: bool,
    names: tuple[str, ...],
    noise: str,
    fast: bool,
    workers: int | None,
    form: str,
    output: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Score the inference on simulated machines whose truth is known.

    Random machines are numbered from --seed on, and each is run with its number as the seed: what a wrong line says
    of random:17, `setebench score --machines 1 --seed 17` says again.
    """
    output = file_or_none(output)
    if output is not None:
        store.check_target(output, force)
    chosen = _scenarios(names)
    seeds = {f"random:{seed + number}": seed + number for number in range(machines)}
    if presets:
        seeds |= {name: seed for name, _ in shipped()}
    listed = list(seeds)
    if not listed:
        raise UsageError("no machines to score on; give --machines or --presets")
    tasks = [Task(machine=name, scenarios=tuple(chosen), noise=noise, seed=seeds[name], fast=fast) for name in listed]
    answers = list(perform_all(tasks, min(workers or os.cpu_count() or 1, len(tasks)), _silent if quiet else _tell))
    document = summary(seed, seeds, judge_all(answers, *_judged(chosen, bool(names))))
    text = _json(document) if form == "json" else _table(document, answers)
    if output is not None:
        store.write(output, text.encode(), force)
    else:
        click.echo(text, nl=False)


def _scenarios(names: tuple[str, ...]) -> dict[str, Scenario]:
    catalogue = registry.catalogue()
    unknown = [name for name in names if name not in catalogue]
    if unknown:
        raise UsageError(f"unknown scenario {unknown[0]!r}; there are {', '.join(sorted(catalogue))}")
    loaded = {name: catalogue[name].load() for name in (names or sorted(catalogue))}
    return {name: scenario for name, scenario in loaded.items() if names or not scenario.on_request}


def _judged(chosen: dict[str, Scenario], by_name: bool) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Prefixes of the parameters that are judged (None: of all), and of those that nobody was asked for."""
    if by_name:
        return tuple(prefix for scenario in chosen.values() for prefix in scenario.parameters), ()
    others = (entry.load() for name, entry in registry.catalogue().items() if name not in chosen)
    return None, tuple(prefix for scenario in others for prefix in scenario.parameters)


def _tell(message: str) -> None:
    click.echo(message, err=True)


def _silent(_message: str) -> None:
    """Progress that nobody reads."""


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _share(coverage: float | None) -> str:
    return "" if coverage is None else f"{coverage:.1%}"


def _table(document: dict[str, Any], answers: list[Answer]) -> str:
    """Parameters that anything was told of, one a row; those never told in one line; every wrong one with its seed.
    `at least` counts those of the right ones that are bounds only."""
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter")
    for heading in ("right", "at least", "wrong", "unresolved", "coverage"):
        table.add_column(heading, justify="right")
    rows = document["parameters"]
    told = {name: count for name, count in rows.items() if count["right"] or count["wrong"]}
    for name, count in told.items():
        counts = (str(count[key]) for key in ("right", "at_least", "wrong", "unresolved"))
        table.add_row(name, *counts, _share(count["interval_coverage"]))
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 100, highlight=False)
    with console.capture() as capture:
        console.print(table)
    totals = document["totals"]
    coverage = totals["interval_coverage"]
    lines = [
        f"{len(document['machines'])} machines, seed {document['seed']}: {totals['right']} right "
        f"({totals['at_least']} of them bounds), "
        f"{totals['wrong']} wrong, {totals['unresolved']} unresolved"
        + (f"; {_share(coverage)} of intervals hold the truth" if coverage is not None else "")
    ]
    if len(told) < len(rows):
        lines.append(f"{len(rows) - len(told)} further parameters were never told (all unresolved)")
    lines += [
        f"wrong: --machine sim:{item['machine']} --seed {item['seed']}: "
        f"{item['parameter']} told {item['value']!r} ({item['outcome']}), truth {item['truth']!r}"
        for item in document["wrong"]
    ]
    lines += [f"not run: {failure}" for answer in answers for failure in answer.failures]
    return capture.get() + "\n".join(lines) + "\n"

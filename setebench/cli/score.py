"""`setebench score`: how often each inferred parameter is right, wrong, or honestly unresolved."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import registry
from setebench.cli.options import file_options, is_given
from setebench.cli.output import target_of
from setebench.errors import INTERRUPTED, UsageError
from setebench.report.accuracy import scored
from setebench.scenario import Scenario
from setebench.score import NOISES, Answer, Plan, stream
from setebench.score.run import NEVER_JUDGED, Place, carry_out, document, scope_of, sealing
from setebench.score.sealed_log import SealedLog, log_path
from setebench.score.seeds import inference_hash, sealed_seeds, simulator_hash
from setebench.score.stream import Done
from setebench.score.versions import commit_of
from setebench.sim.files.loader import shipped

ASKED = ("machines", "seed", "presets", "names", "noise", "fast", "from_findings", "sealed")
"""Options that decide what is asked; a run against another has them from that one's file."""

PLANNING = (*ASKED, "inference", "against", "answers")
"""Those that a run which goes on has from its own file."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; `answers` is the file of answers, `done` what an earlier run left there."""

    plan: Plan
    place: Place
    quiet: bool
    answers: Path | None = None
    resumed: bool = False
    force: bool = False
    done: Done = field(default_factory=dict)


@click.command()
@click.option(
    "--machines", default=20, show_default=True, type=click.IntRange(0, 100_000), help="Number of random machines."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the first random machine.")
@click.option(
    "--presets/--no-presets", default=None, help="Also score the shipped machine files.  [default: unless sealed]"
)
@click.option("--scenario", "names", multiple=True, metavar="NAME", help="Only this scenario (may be repeated).")
@click.option("--noise", type=click.Choice(NOISES), default="drawn", show_default=True, help="How noisy they are.")
@click.option("--fast", is_flag=True, help="Let scenarios take fewer samples.")
@click.option(
    "--from-findings",
    is_flag=True,
    help="Give scenarios that build on others' findings these findings, instead of the truth.",
)
@click.option("--sealed", metavar="NONCE", help="Derive the seeds from NONCE and the hash of the inference.")
@click.option("--inference", metavar="COMMIT", help="Ask the inference of this commit instead of the present one.")
@click.option(
    "--against",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Ask what the run with these --answers was asked, and compare both machine by machine.",
)
@click.option("--workers", type=click.IntRange(1), help="Number of processes.  [default: all CPUs]")
@click.option("--on", "address", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler has this address.")
@click.option("--answers", metavar="FILE", type=click.Path(path_type=Path), help="Write answers to FILE as they come.")
@click.option("--resume", metavar="FILE", type=click.Path(path_type=Path), help="Continue the run in FILE.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@file_options
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def score(**values: Any) -> None:
    """Score the inference on simulated machines whose truth is known.

    Random machines are numbered from --seed on, and each is run with its number as the seed: `setebench score
    --machines 1 --seed 17` repeats random:17.

    With --sealed the seeds can't be chosen, and every run is logged. A run with --answers that was stopped is continued
    by --resume.
    """
    write = target_of(values["output"], values["force"])
    request = _resumed(values) if values["resume"] else _new(values)
    made = _scored(request)
    if values["form"] == "json":
        text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"
    else:
        text = scored.render(made, os.get_terminal_size().columns if sys.stdout.isatty() else None)
    write(text.encode())


def _scored(request: Request) -> dict[str, Any]:
    """The document; what is sealed is logged, however it ends."""
    plan = request.plan
    log = SealedLog(plan, request.resumed) if plan.nonce is not None else None
    try:
        made = _measured(request)
    except BaseException as error:
        if log is not None:
            log.stopped(error)
        if isinstance(error, KeyboardInterrupt):
            click.echo(f"\nInterrupted; {_way_on(request)}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        raise
    if log is not None:
        made["sealed"] = sealing(plan) | {"log": str(log_path())}
        log.ended(made)
    return made


def _measured(request: Request) -> dict[str, Any]:
    plan, asked, path = request.plan, scope_of(request.plan), request.answers
    done = itertools.count(len(request.done) + 1)
    opened = stream.gone_on(path) if request.resumed and path else stream.begun(path, plan, request.force)
    with opened as answers:

        def heard(answer: Answer) -> None:
            answers.add(answer)
            if not request.quiet:
                click.echo(f"{next(done)} of {len(plan.machines)} machines: {answer.machine}", err=True)

        return document(plan, carry_out(plan, request.place, request.done, heard), asked)


def _way_on(request: Request) -> str:
    if request.answers is None:
        return "nothing was kept (with --answers FILE, --resume FILE could go on from here)."
    return f"go on with: setebench score --resume {request.answers}"


# -- what is asked --------------------------------------------------------------------------------------------------


def _new(values: dict[str, Any]) -> Request:
    plan = _plan(values) if values["against"] is None else _plan_against(values)
    return _request(values, plan, answers=values["answers"], force=values["force"])


def _request(values: dict[str, Any], plan: Plan, **how: Any) -> Request:
    place = Place(workers=values["workers"] or os.cpu_count() or 1, address=values["address"])
    return Request(plan=plan, place=place, quiet=values["quiet"], **how)


def _identity(values: dict[str, Any]) -> dict[str, Any]:
    """Which inference is asked, on which simulator, and when."""
    commit = None if values["inference"] is None else commit_of(values["inference"])
    return {
        "inference": commit or inference_hash(),
        "commit": commit,
        "simulator": simulator_hash(),
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _plan_against(values: dict[str, Any]) -> Plan:
    """That of another run, for this inference. It isn't sealed: its machines could be known beforehand."""
    path = values["against"]
    _refuse(ASKED, f"--against asks what was asked in {str(path)!r}")
    other, _ = stream.read(path)
    return msgspec.structs.replace(other, nonce=None, against=str(path), **_identity(values))


def _plan(values: dict[str, Any]) -> Plan:
    nonce = values["sealed"]
    if nonce is not None and is_given("seed"):
        raise UsageError("--sealed and --seed exclude each other: sealed seeds follow from the nonce and the inference")
    if nonce is not None and values["presets"]:
        raise UsageError("--sealed and --presets exclude each other: everybody knows the shipped machines")
    chosen = _scenarios(values["names"])
    identity = _identity(values)
    machines = _machines(values, identity["inference"])
    if not machines:
        raise UsageError("no machines to score on; give --machines or --presets")
    return Plan(
        machines=machines,
        seed=values["seed"] if nonce is None else next(iter(machines.values())),
        scenarios=tuple(chosen),
        by_name=bool(values["names"]),
        noise=values["noise"],
        fast=values["fast"],
        nonce=nonce,
        from_findings=values["from_findings"],
        **identity,
    )


def _resumed(values: dict[str, Any]) -> Request:
    """Raises `UsageError` where it would go on as another run than it was begun."""
    path = values["resume"]
    _refuse(PLANNING, f"--resume goes on with the settings in {str(path)!r}")
    plan, done = stream.read(path)
    if plan.against is not None:
        stream.read(Path(plan.against))  # it is needed at the end, so it should be missed now
    if (plan.inference, plan.simulator) != (plan.commit or inference_hash(), simulator_hash()):
        raise UsageError(
            f"{str(path)!r} was begun with another inference or simulator than this one; begin anew, or go back to it"
        )
    return _request(values, plan, answers=path, resumed=True, done=done)


def _refuse(options: tuple[str, ...], why: str) -> None:
    """Raises `UsageError` where the user gave one of them."""
    given = [name for name in options if is_given(name)]
    if given:
        name = {"names": "scenario"}.get(given[0], given[0]).replace("_", "-")
        raise UsageError(f"{why}; leave out --{name}")


def _machines(values: dict[str, Any], inference: str) -> dict[str, int]:
    """The seed of each machine by its name."""
    if values["sealed"] is not None:
        drawn = sealed_seeds(values["sealed"], inference, values["machines"])
        return {f"random:{seed}": seed for seed in drawn}
    first = values["seed"]
    seeds = {f"random:{first + number}": first + number for number in range(values["machines"])}
    shown = [] if values["presets"] is False else shipped()
    return seeds | {name: first for name, _ in shown}


def _scenarios(names: tuple[str, ...]) -> dict[str, Scenario]:
    catalogue = registry.catalogue()
    unknown = [name for name in names if name not in catalogue]
    if unknown:
        raise UsageError(f"unknown scenario {unknown[0]!r}; there are {', '.join(sorted(catalogue))}")
    loaded = {name: catalogue[name].load() for name in (names or sorted(catalogue))}
    return {
        name: scenario
        for name, scenario in loaded.items()
        if names or not (scenario.on_request or name in NEVER_JUDGED)
    }

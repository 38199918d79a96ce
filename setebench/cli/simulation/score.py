"""`setebench score`: how often each inferred parameter is right, wrong, or honestly unresolved."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import registry, store
from setebench.cli.options import PATH, fast_option, file_options, form_option, is_given, quiet_option
from setebench.cli.output import Output, Progress
from setebench.errors import UsageError
from setebench.report.accuracy import scored
from setebench.score import NOISES, Answer, Plan, stream
from setebench.score.run import NEVER_JUDGED, carry_out, document, sealing
from setebench.score.seeds import drawn, inference_hash, sealed_seeds, simulator_hash
from setebench.score.stream import Done, log_path, logged
from setebench.sim.files.loader import shipped

DECIDING = ("machines", "seed", "presets", "names", "noise", "fast", "from_findings", "sealed")
"""Options that decide what is run; a run against another has them from that one's file."""

PLANNING = (*DECIDING, "against", "answers")
"""Those that a run which goes on has from its own file."""

Values = dict[str, Any]


@click.command()
@click.option("--machines", default=20, type=click.IntRange(0, 100_000), help="Number of random machines.")
@click.option("--seed", default=1, type=click.IntRange(0), help="Seed of the first random machine.")
@click.option(
    "--presets/--no-presets", default=None, help="Also score the shipped machine files.  [default: unless sealed]"
)
@click.option("--scenario", "names", multiple=True, metavar="NAME", help="Only this scenario (may be repeated).")
@click.option("--noise", type=click.Choice(NOISES), default="drawn", help="How noisy they are.")
@fast_option
@click.option(
    "--from-findings",
    is_flag=True,
    help="Give scenarios that build on others' findings these findings, instead of the truth.",
)
@click.option(
    "--sealed",
    is_flag=False,
    flag_value="",
    metavar="[NONCE]",
    help="Derive the seeds from the hash of the inference, and from NONCE if a judge gives one.",
)
@click.option(
    "--against", metavar="FILE", type=PATH, help="Run what the run with these --answers ran, and compare by machine."
)
@click.option("--workers", type=click.IntRange(1), help="Number of processes.  [default: all CPUs]")
@click.option("--on", "address", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler has this address.")
@click.option("--answers", metavar="FILE", type=PATH, help="Write answers to FILE as they come.")
@click.option("--resume", metavar="FILE", type=PATH, help="Continue the run in FILE.")
@form_option
@file_options
@quiet_option
def score(**values: Any) -> None:
    """Score the inference on simulated machines whose truth is known.

    Random machines are numbered from --seed on: `setebench score --machines 1 --seed 17` repeats random:17. The seed
    that each is run with follows from its number.

    With --sealed the seeds can't be chosen, and every run is logged. A run with --answers that was stopped is continued
    by --resume.
    """
    target = Output.choose(values)
    plan, done = _resumed(values) if values["resume"] else (_against(values) if values["against"] else _new(values), {})
    made = _scored(plan, done, values)
    target.write(store.pretty(made) if values["form"] == "json" else scored.render(made))


def _scored(plan: Plan, done: Done, values: Values) -> Values:
    """The document of all machines, of which some are done; what is sealed is logged, however it ends."""
    resume, numbers = values["resume"], itertools.count(len(done) + 1)
    file, mode = resume or values["answers"], "r+b" if resume else "wb" if values["force"] else "xb"
    nothing = "nothing was kept (with --answers FILE, --resume FILE could go on from here)."
    go_on = f"go on with: setebench score --resume {file}" if file else nothing
    with (
        Progress(values["quiet"], lambda: go_on) as progress,
        logged(plan, resume is not None) as ended,
        stream.kept(file, plan, mode) as write,
    ):

        def add(answer: Answer) -> None:
            write(answer)
            progress(f"{next(numbers)} of {len(plan.machines)} machines: {answer.machine}")

        workers = values["workers"] or os.cpu_count() or 1
        made = document(plan, carry_out(plan, done, add, workers, values["address"]))
        if plan.nonce is not None:
            made["sealed"] = sealing(plan) | {"log": str(log_path())}
        ended(made)
    return made


# -- what is run ------------------------------------------------------------------------------------------------------


def _identity() -> Values:
    """Which inference is run, on which simulator, and when."""
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    return {"inference": inference_hash(), "simulator": simulator_hash(), "begun": begun}


def _against(values: Values) -> Plan:
    """That of another run, for this inference. It isn't sealed: its machines could be known beforehand."""
    path = values["against"]
    _refuse(DECIDING, f"--against runs what was run in {str(path)!r}")
    other, _ = stream.read(path)
    return msgspec.structs.replace(other, nonce=None, against=str(path), **_identity())


def _new(values: Values) -> Plan:
    nonce, first = values["sealed"], values["seed"]
    if nonce is not None and is_given("seed"):
        raise UsageError("--sealed and --seed exclude each other: sealed seeds follow from the inference")
    if nonce is not None and values["presets"]:
        raise UsageError("--sealed and --presets exclude each other: everybody knows the shipped machines")
    scenarios, identity, count = _scenarios(values["names"]), _identity(), values["machines"]
    numbers = range(first, first + count) if nonce is None else sealed_seeds(nonce, identity["inference"], count)
    machines = drawn(numbers)
    if nonce is None and values["presets"] is not False:
        machines |= {name: first for name, _ in shipped()}
    if not machines:
        raise UsageError("no machines to score on; give --machines or --presets")
    return Plan(
        machines=machines,
        seed=first if nonce is None else numbers[0],
        scenarios=scenarios,
        by_name=bool(values["names"]),
        nonce=nonce,
        **{name: values[name] for name in ("noise", "fast", "from_findings")},
        **identity,
    )


def _scenarios(names: tuple[str, ...]) -> tuple[str, ...]:
    chosen = map(registry.command_name, names or sorted(registry.catalogue()))
    loaded = {name: registry.scenario(name) for name in chosen}
    return tuple(name for name, each in loaded.items() if names or not (each.on_request or name in NEVER_JUDGED))


def _resumed(values: Values) -> tuple[Plan, Done]:
    """Raises `UsageError` where it would go on as another run than it was begun."""
    path = values["resume"]
    _refuse(PLANNING, f"--resume goes on with the settings in {str(path)!r}")
    plan, done = stream.read(path)
    if plan.against is not None:
        stream.read(Path(plan.against))  # it is needed at the end, so it should be missed now
    if (plan.inference, plan.simulator) != (inference_hash(), simulator_hash()):
        raise UsageError(
            f"{str(path)!r} was begun with another inference or simulator than this one; begin anew, or go back to it"
        )
    return plan, done


def _refuse(options: tuple[str, ...], why: str) -> None:
    """Raises `UsageError` where the user gave one of them."""
    for name in filter(is_given, options):
        raise UsageError(f"{why}; leave out --{'scenario' if name == 'names' else name.replace('_', '-')}")

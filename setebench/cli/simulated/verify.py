"""`setebench verify`: the twin of a result against the machine, on random probes."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import references, store
from setebench.cli.options import no_wait_option, output_options
from setebench.cli.output import Output
from setebench.cli.progress import Progress
from setebench.results import Document

DIFFERS = 3
"""Exit status with --exit-code where the twin is contradicted."""

LONGEST_LINE = 240


@click.command("verify")
@click.argument("result", metavar="RESULT", type=click.Path(path_type=Path))
@click.option("--machine", default="native", show_default=True, metavar="NAME", help="The machine that was measured.")
@click.option(
    "--twin", "file", metavar="FILE", type=click.Path(path_type=Path), help="Use this machine file as the twin."
)
@click.option(
    "--cpu", type=click.IntRange(min=0), metavar="N", help="CPU to measure on.  [default: the machine's choice]"
)
@no_wait_option
@click.option("--minutes", type=click.FloatRange(0.01), default=2.0, show_default=True, help="Duration in minutes.")
@click.option("--probes", type=click.IntRange(1), metavar="N", help="Number of probes, instead of --minutes.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the probes.")
@click.option("--exit-code", is_flag=True, help="Exit with status 3 where the twin is contradicted.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_options
def verify_command(
    result: Path,
    machine: str,
    file: Path | None,
    cpu: int | None,
    minutes: float,
    probes: int | None,
    seed: int,
    exit_code: bool,
    quiet: bool,
    form: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Compare the twin of the result file RESULT with the machine, on random probes.

    Each probe runs twice on the machine and once on the twin. How far the machine agrees with itself limits how far a
    twin can agree with it.

    Exit status: 0 checked, 1 it could not be run, 2 bad use; with --exit-code 3 where the twin is contradicted.
    """
    from setebench.sim.files.loader import read_file
    from setebench.truth.twin import make_twin, twin_of_file
    from setebench.truth.verify import Request, as_document, verify

    target = Output.choose(output, form, force)
    target.check()
    document = store.load(result)
    request = Request(machine=machine, cpu=cpu, seed=seed, minutes=None if probes else minutes, trials=probes)

    progress = Progress(quiet=quiet)
    twin = make_twin(document) if file is None else twin_of_file(read_file(str(file)), str(file))
    checked = verify(twin, request, progress)
    progress.close()
    said = references.of_the_system(document.machine.environment)
    made = as_document(checked, document, said)
    target.deliver(made)
    if target.path is None and target.form == "table":
        click.echo("\n".join(_below(made)))
    if exit_code and checked.contradicted:
        raise click.exceptions.Exit(DIFFERS)


def _below(document: Document) -> list[str]:
    """The worst probes, in lines that a terminal holds."""
    worst = document.evidence["verify"]["worst"]
    form = "#{number} {family}: {machine}, twin {twin}: {probe}"
    lines = (form.format(**each) for each in worst)
    return ["", *(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…" for line in lines)]

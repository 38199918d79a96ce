"""`setebench fit`: the twin of a result, with fields that the machine contradicts improved."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import store
from setebench.cli.options import file_options, no_wait_option
from setebench.cli.output import file_or_none, print_text
from setebench.cli.progress import Progress
from setebench.cli.simulated.twin import SUFFIX
from setebench.errors import UsageError


@click.command("fit", epilog="Check it with 'setebench verify RESULT --twin FILE', which asks other probes.")
@click.argument("result", metavar="RESULT", type=click.Path(path_type=Path))
@click.option("--machine", default="native", show_default=True, metavar="NAME", help="The machine that was measured.")
@click.option("--twin", "file", metavar="FILE", type=click.Path(path_type=Path), help="Start from this machine file.")
@click.option(
    "--cpu", type=click.IntRange(min=0), metavar="N", help="CPU to measure on.  [default: the machine's choice]"
)
@no_wait_option
@click.option("--minutes", type=click.FloatRange(0.01), default=10.0, show_default=True, help="Time limit in minutes.")
@click.option("--probes", type=click.IntRange(1), metavar="N", help="Number of probes for each field.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the probes.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@file_options
def fit_command(
    result: Path,
    machine: str,
    file: Path | None,
    cpu: int | None,
    minutes: float,
    probes: int | None,
    seed: int,
    quiet: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Make a machine file of the result file RESULT that predicts the machine better than what was found alone.

    Fields that random probes contradict get another value, one at a time, if it predicts the machine better on new
    probes. The result file is not changed; the machine file says which fields were fitted and why.

    Exit status: 0 written, 1 it could not be run, 2 bad use.
    """
    from setebench.sim.files.loader import read_file
    from setebench.truth.fit import fit
    from setebench.truth.twin import as_toml, make_twin, twin_of_file
    from setebench.truth.verify import Request

    output = file_or_none(output)
    if output is not None:
        if output.suffix != SUFFIX:
            raise UsageError(f"{str(output)!r} must end in {SUFFIX}, or --machine sim:FILE would not find it")
        store.check_target(output, force)
    document = store.load(result)
    request = Request(machine=machine, cpu=cpu, seed=seed, minutes=minutes, trials=probes)

    progress = Progress(quiet=quiet)
    twin = make_twin(document) if file is None else twin_of_file(read_file(str(file)), str(file))
    better, steps = fit(twin, request, progress)
    progress.result(f"{len(steps)} fields fitted")
    text = as_toml(better).encode()
    if output is None:
        print_text(text)
    else:
        store.write(output, text, force)

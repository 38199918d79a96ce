"""`setebench infer`: today's inference on what a machine answered back then."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import campaign, session, store
from setebench.campaign import Listener
from setebench.cli.options import output_options
from setebench.cli.output import Output
from setebench.cli.progress import Progress
from setebench.errors import SetebenchError, UsageError
from setebench.results import Document


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_options
def infer(file: Path, quiet: bool, form: str | None, output: str | None, force: bool) -> None:
    """Run the inference again on the machine's answers recorded in FILE, without the machine.

    FILE is a result of characterize -o, or of a scenario with --raw.

    Exit status: 0 inferred, 1 all scenarios ask other questions than in the version that recorded, 2 nothing was
    recorded.
    """
    target = Output.choose(output, form, force)
    target.check()
    document = store.load(file)
    progress = Progress(quiet=quiet)
    try:
        inferred = _inferred(document, progress)
    except UsageError as error:
        raise UsageError(f"can't infer from {str(file)!r}: {error}") from error
    except SetebenchError:
        raise
    except Exception as error:  # a recording comes from anybody's file, and what a damaged one leads to is endless
        raise SetebenchError(
            f"can't infer from {str(file)!r}, which may be damaged: {campaign.reason(error)}"
        ) from error
    finally:
        progress.close()
    target.deliver(inferred)
    steps = campaign.steps_of(inferred)
    if steps and all(step.state != "done" for step in steps):
        raise SetebenchError("no scenario could be inferred; the table says why")


def _inferred(document: Document, progress: Progress) -> Document:
    if document.settings.get("scenario") != campaign.NAME:
        return session.infer(document, progress)

    def fail(scenario: str, error: BaseException) -> None:
        progress.result(f"{scenario} failed: {campaign.reason(error)}")

    return campaign.infer(document, Listener(progress=progress, failed=fail))

"""Score documents that are fit to be published: of sealed runs alone, also of one that isn't complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from setebench import files
from setebench.errors import UsageError
from setebench.score import stream
from setebench.score.run import asked_of, document
from setebench.score.seeds import sealed_seeds
from setebench.score.stream import Plan

NEEDED = ("accuracy", "by_machine", "settings", "cpu_seconds", "sealed")
"""Keys without which a score document can't be published; older versions wrote some of them not."""


def sealing(plan: Plan) -> dict[str, Any]:
    """What says that nobody chose the seeds: they follow from it."""
    return {"nonce": plan.nonce, "inference": plan.inference, "seeds": list(plan.machines.values())}


def read_document(path: Path) -> dict[str, Any]:
    """The score document in `path`, or that of the answers so far in a file of answers (`score --answers`), whichever
    inference gave them, with `planned`, how many machines the run was to have.

    Raises `UsageError` where it is neither, was made by an older version, or isn't sealed."""
    made = _document(path) or _judged(path)
    missing = [key for key in NEEDED if key not in made]
    if missing:
        raise UsageError(f"{str(path)!r} has no {missing[0]!r}: a score that is not sealed, or of an older setebench")
    sealed, planned = made["sealed"], made.setdefault("planned", len(made["machines"]))
    if not set(sealed["seeds"]) <= set(sealed_seeds(sealed["nonce"], sealed["inference"], planned)):
        raise UsageError(f"{str(path)!r} is not sealed: its seeds don't follow from its nonce and its inference")
    return made


def _document(path: Path) -> dict[str, Any] | None:
    """None where the file isn't a single JSON object, or none of a score."""
    try:
        made = msgspec.json.decode(files.read_bytes(path))
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    except msgspec.DecodeError:
        return None
    return made if isinstance(made, dict) and "machines" in made else None


def _judged(path: Path) -> dict[str, Any]:
    plan, done = stream.read(path)
    answers = [done[name] for name in plan.machines if name in done]
    if not answers:
        raise UsageError(f"{str(path)!r} holds no answers yet")
    answered = msgspec.structs.replace(
        plan,
        machines={answer.machine: plan.machines[answer.machine] for answer in answers},
        against=None,
    )
    made = document(answered, answers, asked_of(answered))
    made["planned"] = len(plan.machines)
    if plan.nonce is not None:
        made["sealed"] = sealing(answered)
    return made

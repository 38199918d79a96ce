"""Machine files: finding, reading and checking them.

Whatever a file holds, it gives a `spec.Machine` or a `UsageError` of one line that names the file, the field and what
is allowed there; of a file that isn't TOML, its line.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from setebench.errors import UsageError
from setebench.files import read_bytes
from setebench.sim import spec
from setebench.sim.files.origins import Origin, take_origins
from setebench.sim.random.machine import random_machine
from setebench.sim.spec.checks import Problem, converted, sense_problems
from setebench.text import visible

MOST_BYTES = 1 << 18
MOST_LINE_CHARACTERS = 1000
"""Limits that no honest machine file comes near; they keep the TOML parser's time on a hostile one short."""

_SEED = re.compile(r"[0-9]{1,18}")


def load(name: str) -> spec.Machine:
    """The machine `name`: a shipped one, `random:SEED`, or the path of a TOML file (with a '/' or ending in .toml).

    Raises `UsageError` for a name that leads nowhere and for a file that is not a valid machine file.
    """
    if name.startswith("random:"):
        return random_machine(_seed(name.removeprefix("random:")))
    if is_path(name):
        return parse(read_file(name), visible(name))
    return parse(shipped_text(name), f"{name}.toml")


def is_path(name: str) -> bool:
    """True where `name` means a file of the user rather than a shipped machine."""
    return "/" in name or name.endswith(".toml")


def shipped() -> list[tuple[str, str]]:
    """(name, description) of every shipped machine file, sorted by name."""
    return [(name, load(name).description) for name in sorted(_presets())]


def shipped_text(name: str) -> str:
    """The text of a shipped machine file, comments included. Raises `UsageError` for an unknown name."""
    presets = _presets()
    if name not in presets:
        known = ", ".join(sorted(presets))
        raise UsageError(
            f"no simulated machine {visible(name)[:100]!r}; there are {known}, random:SEED, or the path of a .toml file"
        )
    return presets[name].read_text(encoding="utf-8")


def parse(text: str, file: str) -> spec.Machine:
    """The machine that the TOML `text` of `file` describes; `file` is only used in messages."""
    data = _parse_toml(text, file)
    take_origins(data, file)
    machine = converted(data)
    problems = [machine] if isinstance(machine, Problem) else sense_problems(machine)
    if isinstance(machine, spec.Machine) and not problems:
        return machine
    first, others = problems[0], f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    raise UsageError(": ".join(filter(None, (file, first.name, f"{first.message}{others}"))))


def origins(text: str, file: str) -> dict[str, Origin]:
    """Where the fields come from, by the machine file's own `[origins]`; empty where it says nothing."""
    return take_origins(_parse_toml(text, file), file)


def read_file(path: str) -> str:
    """The text of a user's file. Raises `UsageError` where there is none to be had."""
    try:
        content = read_bytes(path, MOST_BYTES)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{visible(path)}:{line}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{visible(path)}: can't be read: {error.strerror or error}") from error


def _presets() -> dict[str, Traversable]:
    folder = files("setebench.sim") / "presets"
    return {each.name.removesuffix(".toml"): each for each in folder.iterdir() if each.name.endswith(".toml")}


def _seed(text: str) -> int:
    if not _SEED.fullmatch(text):
        raise UsageError(
            f"random:{visible(text)[:100]}: the seed must be a whole number of at most 18 digits, as in random:17"
        )
    return int(text)


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MOST_LINE_CHARACTERS:
            raise UsageError(f"{file}:{number}: a line longer than {MOST_LINE_CHARACTERS} characters")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{file}: values nested too deeply") from error
    except ValueError as error:  # e.g. a number of more digits than Python converts
        raise UsageError(f"{file}: {error}") from error

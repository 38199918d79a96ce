"""Machine files: finding, reading and checking them.

Whatever a file holds, it gives a `spec.Machine` or a `UsageError` of one line that names the file, the field and what
is allowed there; of a file that isn't TOML, its line.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from setebench.errors import UsageError
from setebench.files import read_bytes
from setebench.sim import spec
from setebench.sim.files.origins import Origin, take_origins
from setebench.sim.random.machine import random_machine
from setebench.sim.spec.checks import Problem, checked
from setebench.text import visible

MOST_BYTES = 1 << 18
MOST_LINE_CHARACTERS = 1000
"""Limits that no honest machine file comes near; they keep the TOML parser's time on a hostile one short."""


def load(name: str) -> spec.Machine:
    """The machine `name`: a shipped one, `random:SEED`, or the path of a TOML file (with a '/' or ending in .toml).

    Raises `UsageError` for a name that leads nowhere and for a file that is not a valid machine file.
    """
    if name.startswith("random:"):
        seed = name.removeprefix("random:")
        if not re.fullmatch(r"[0-9]{1,18}", seed):
            raise UsageError(f"{visible(name)[:100]}: the seed is a whole number of at most 18 digits, as in random:17")
        return random_machine(int(seed))
    if name in (known := presets()):
        return parse(known[name].read_text(encoding="utf-8"), f"{name}.toml")
    if "/" in name or name.endswith(".toml"):
        return parse(read_file(name), visible(name))
    there = f"{', '.join(known)}, random:SEED, or the path of a .toml file"
    raise UsageError(f"no simulated machine {visible(name)[:100]!r}; there are {there}")


def presets() -> dict[str, Path]:
    """The files of the shipped machines, by name in its order."""
    return {path.stem: path for path in sorted((Path(__file__).parents[1] / "presets").glob("*.toml"))}


def shipped() -> list[tuple[str, str]]:
    """(name, description) of every shipped machine file, by name."""
    return [(name, load(name).description) for name in presets()]


def parse(text: str, file: str) -> spec.Machine:
    """The machine that the TOML `text` of `file` describes; `file` is only used in messages."""
    data = _parse_toml(text, file)
    take_origins(data, file)
    if isinstance(levels := data.get("levels"), list):
        data["levels"] = [_unsliced(level) for level in levels]
    machine = checked(data)
    if isinstance(machine, Problem):
        raise UsageError(": ".join(filter(None, (file, machine.name, machine.message))))
    return machine


def _unsliced(level: Any) -> Any:
    """A level as earlier versions wrote it, with `slices` that a hash chooses: so many times the sets, by a hash."""
    sets, slices = (level.get(name) for name in ("sets", "slices")) if isinstance(level, dict) else (None, None)
    if not isinstance(sets, int) or not isinstance(slices, int):
        return level
    rest = {name: value for name, value in level.items() if name != "slices"}
    return {**rest, "sets": sets * slices, "hashed_index": slices > 1 or level.get("hashed_index", False)}


def origins(text: str, file: str) -> dict[str, Origin]:
    """Where the fields come from, by the machine file's own `[origins]`; empty where it says nothing."""
    return take_origins(_parse_toml(text, file), file)


def read_file(path: str) -> str:
    """The text of a user's file. Raises `UsageError` where there is none to be had."""
    try:
        return read_bytes(path, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{visible(path)}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{visible(path)}: can't be read: {error.strerror or error}") from error


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    if max(map(len, text.split("\n"))) > MOST_LINE_CHARACTERS:
        raise UsageError(f"{file}: a line longer than {MOST_LINE_CHARACTERS} characters")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{file}: values nested too deeply") from error
    except ValueError as error:  # also a number of more digits than Python converts
        raise UsageError(f"{file}: not TOML: {error}") from error

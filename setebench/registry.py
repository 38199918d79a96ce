"""Which scenarios there are: every module and every folder (package) of `setebench.scenarios` with a `SCENARIO`, and
entry points of other packages.

Listing reads source text and package metadata only. A scenario's module, and numpy and Numba behind it, is imported
when that scenario is used: `setebench --help` would take seconds otherwise.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from setebench import files
from setebench.errors import SetebenchError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from setebench.results import Finding
    from setebench.scenario import Context, Scenario

PACKAGE = "setebench.scenarios"
ENTRY_POINT_GROUP = "setebench.scenarios"


@dataclass(frozen=True, slots=True)
class Entry:
    """A scenario that could be loaded. `module` is set for the project's own, `entry_point` for others'."""

    name: str
    summary: str
    module: str = ""
    entry_point: EntryPoint | None = None

    def load(self) -> Scenario:
        """Import it. Raises `SetebenchError` in one line where another author's can't be loaded or is no scenario."""
        from setebench.scenario import Scenario

        if self.entry_point is None:
            own: Scenario = importlib.import_module(self.module).SCENARIO
            return own
        origin = f"scenario {self.name!r} of the package {_distribution(self.entry_point)!r}"
        try:
            scenario: object = self.entry_point.load()
        except (Exception, SystemExit) as error:  # another author's module may raise anything while it is imported
            raise SetebenchError(f"{origin} can't be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(scenario, Scenario):
            raise SetebenchError(f"{origin} is no setebench Scenario but a {type(scenario).__name__}")
        return scenario


def command_name(module: str) -> str:
    """The name on the command line of a scenario's module: `software_prefetch` is `software-prefetch`."""
    return module.replace("_", "-")


@cache
def catalogue() -> dict[str, Entry]:
    """All scenarios by command name, sorted, without importing one. A name of the project's own is never taken by
    another package: that scenario is listed as `PACKAGE.NAME`."""
    entries = {entry.name: entry for entry in _own()}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value)):
        name = command_name(point.name)
        if name in entries:
            name = f"{_distribution(point)}.{name}"
        entries[name] = Entry(name, f"from the package {_distribution(point)}", entry_point=point)
    return dict(sorted(entries.items()))


def scenario(name: str) -> Scenario:
    """The scenario of that command name. Raises `UsageError` for an unknown name, `SetebenchError` for a broken one."""
    entry = catalogue().get(command_name(name))
    if entry is None:
        raise UsageError(f"unknown scenario {name!r}; one of {', '.join(catalogue())}")
    return entry.load()


def foundations(scenario: Scenario, context: Context) -> list[Finding]:
    """The findings of the scenarios that one builds on, measured now on the same machine, with fewer samples. What
    can't be measured there is left open, and progress says why."""
    found: list[Finding] = []
    for name in scenario.builds_on:
        own = replace(context, fast=True, options={}, evidence={})
        try:
            found += catalogue()[name].load().answer(own)
            context.calibration, context.layouts = own.calibration, own.layouts
        except UnsupportedError as error:
            context.progress(f"{name} can't be measured here: {error}")
    return found


# -- files ------------------------------------------------------------------------------------------------------------


def _own() -> list[Entry]:
    folder = own_folder()
    if folder is None:
        return []
    paths = {path.stem: path for path in folder.glob("*.py")}
    paths |= {path.parent.name: path for path in folder.glob("*/__init__.py")}
    summaries = {name: _declared_summary(path) for name, path in paths.items()}
    return [
        Entry(command_name(name), text, f"{PACKAGE}.{name}") for name, text in summaries.items() if text is not None
    ]


def own_folder() -> Path | None:
    """Where the scenarios' files lie."""
    spec = find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _declared_summary(path: Path) -> str | None:
    """The summary that the module's `SCENARIO = Scenario(summary="...")` declares, a text of one line; None for a
    module without."""
    found = re.search(r'^SCENARIO = .*?\bsummary="(.*?)"', files.read_bytes(path).decode(), re.MULTILINE | re.DOTALL)
    return found and found[1]


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module

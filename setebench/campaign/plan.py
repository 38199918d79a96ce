"""What is asked of a run of all scenarios: which ones, in which order, with which settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from setebench import registry
from setebench.errors import UsageError
from setebench.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked: which scenarios, in this order, and with which settings. With `msr` prefetchers' registers may
    be written. For `patience` seconds what is still open at the end is asked again."""

    scenarios: tuple[str, ...]
    machine: str = "native"
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False
    patience: float = 0.0


def runs_code(machine: str) -> bool:
    """Whether a machine's name is that of a function of any module, `module:factory`: one that a file names is only run
    where the user names it too, because the file may come from anybody."""
    return ":" in machine and not machine.startswith("sim:")


def choose(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the scenarios to run, in the order that they declare: those in `only`, else all but those on request,
    without those in `skip`. Raises `UsageError` for a name that there is not.

    A scenario of another package that can't be loaded stays in: it fails when its turn comes, and alone."""
    catalogue = registry.catalogue()
    only, skip = list(map(registry.command_name, only)), list(map(registry.command_name, skip))
    unknown = [name for name in (*only, *skip) if name not in catalogue]
    if unknown:
        raise UsageError(f"unknown scenario {unknown[0]!r}; one of {', '.join(catalogue)}")
    wanted = [name for name in only or catalogue if name not in skip and (only or not _on_request(name))]
    if not wanted:
        raise UsageError("no scenario is left to run")
    return tuple(sorted(set(wanted), key=lambda name: (_order(name), name)))


def _on_request(name: str) -> bool:
    scenario = loadable(name)
    return scenario is not None and scenario.on_request


def _order(name: str) -> int:
    scenario = loadable(name)
    return Scenario.order if scenario is None else scenario.order


def loadable(name: str) -> Scenario | None:
    """The scenario, None where it can't be loaded: that is reported when its turn comes, as its failure alone."""
    try:
        return registry.catalogue()[name].load()
    except (Exception, SystemExit):  # another author's file may raise anything while it runs
        return None


def declared_seconds(name: str) -> float:
    """About how long the scenario takes, by what it says; 0 where it can't be loaded."""
    scenario = loadable(name)
    return 0.0 if scenario is None else scenario.seconds

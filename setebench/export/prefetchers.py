"""Which hardware prefetchers a result shows, for simulators that have only some kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from setebench.export.source import Source
from setebench.export.values import Known, Open, Value, assumed, weakest

PREFIX = "prefetcher."


def kinds(source: Source, level: int) -> list[str]:
    """Kinds of prefetchers at that level which the result has a finding of, present or not."""
    start = f"{PREFIX}l{level}."
    names = (finding.parameter for finding in source.document.findings)
    return [name.split(".")[2] for name in names if name.startswith(start) and name.endswith(".present")]


def presence(source: Source, level: int, kind: str) -> Known:
    """Whether there is such a prefetcher."""
    return source.flag(f"{PREFIX}l{level}.{kind}.present")


def parameter(source: Source, level: int, kind: str, name: str) -> Known:
    """What was found of it."""
    return source.count(f"{PREFIX}l{level}.{kind}.{name}")


def present(source: Source, level: int) -> list[str]:
    """Kinds found at that level."""
    found = ((kind, presence(source, level, kind)) for kind in kinds(source, level))
    return [kind for kind, known in found if isinstance(known, Value) and known.value]


def not_expressed(there: Sequence[str], kind: str) -> str:
    """What is said of the kinds beside the one that a simulator is given; nothing where there are none."""
    others = [other for other in there if other != kind]
    return f"; not expressed: {', '.join(others)}" if others else ""


def nearest(source: Source, level: int, names: Sequence[tuple[str, str]], none: str) -> Known:
    """The simulator's name for the first of `names` (kind, name) that is present; `none` where every kind was looked
    for and is absent; open where nothing that it has was found and something is unsettled."""
    there = present(source, level)
    for kind, name in names:
        if kind in there:
            why = f"nearest in kind to l{level}.{kind}{not_expressed(there, kind)}"
            return replace(assumed(name, "", why), parameters=(f"{PREFIX}l{level}.{kind}.present",))
    if there:
        return Open(f"{PREFIX}l{level}", f"the simulator has no kind like {', '.join(there)}")
    return _none(source, level, none)


def _none(source: Source, level: int, none: str) -> Known:
    looked = [presence(source, level, kind) for kind in kinds(source, level)]
    unsettled = [known for known in looked if isinstance(known, Open)]
    if unsettled or not looked:
        return (
            unsettled[0] if unsettled else Open(f"{PREFIX}l{level}", "this result has no finding of prefetchers there")
        )
    absent = [known for known in looked if isinstance(known, Value)]
    names = tuple(name for known in absent for name in known.parameters)
    return Value(none, "", weakest(absent), "all kinds absent", parameters=names)

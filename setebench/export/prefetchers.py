"""Which hardware prefetchers a result shows, for simulators that have only some kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from setebench.export.source import Source
from setebench.export.values import Known, Open, Value, assumed, weakest


def presences(source: Source, level: int) -> dict[str, Known]:
    """Whether there is a prefetcher of each kind at that level, of those that the result has a finding of."""
    start, end = f"prefetcher.l{level}.", ".present"
    names = [each.parameter for each in source.document.findings]
    kinds = [name[len(start) : -len(end)] for name in names if name.startswith(start) and name.endswith(end)]
    return {kind: source.flag(f"{start}{kind}{end}") for kind in kinds}


def parameter(source: Source, level: int, kind: str, name: str) -> Known:
    """What was found of it."""
    return source.count(f"prefetcher.l{level}.{kind}.{name}")


def present(source: Source, level: int) -> list[str]:
    """Kinds found at that level."""
    return [kind for kind, each in presences(source, level).items() if isinstance(each, Value) and each.value]


def not_expressed(there: Sequence[str], kind: str) -> str:
    """What is said of the kinds beside the one that a simulator is given; nothing where there are none."""
    others = [other for other in there if other != kind]
    return f"; not expressed: {', '.join(others)}" if others else ""


def nearest(source: Source, level: int, names: Sequence[tuple[str, str]], none: str | None = None) -> Known:
    """The simulator's name for the first of `names` (kind, name) that is present; `none` where every kind was looked
    for and is absent; open where nothing that it has was found and something is unsettled."""
    there, where = present(source, level), f"prefetcher.l{level}"
    for kind, name in names:
        if kind in there:
            why = f"nearest in kind to l{level}.{kind}{not_expressed(there, kind)}"
            return replace(assumed(name, "", why), parameters=(f"{where}.{kind}.present",))
    if there:
        return Open(where, f"the simulator has no kind like {', '.join(there)}")
    looked = list(presences(source, level).values())
    unsettled = [known for known in looked if isinstance(known, Open)]
    if unsettled or not looked or none is None:
        return unsettled[0] if unsettled else Open(where, "this result has found none there that the simulator has")
    absent = [known for known in looked if isinstance(known, Value)]
    names_of = tuple(name for known in absent for name in known.parameters)
    return Value(none, "", weakest(absent), "all kinds absent", parameters=names_of)

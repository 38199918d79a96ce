"""Which kinds of access train a prefetcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from setebench.mapping.laboratory import Laboratory
from setebench.mapping.visit import Kind, Visit

Test = Callable[[Visit], bool | None]


def by_kind(visit: Visit, how: Kind, anchor: int) -> Visit:
    """The visit with its loads replaced by accesses of another kind; those that hammer a line stay loads."""
    steps = tuple(replace(access, how=how) if access.how == "load" else access for access in visit.steps)
    hinted = how not in ("load", "store")
    return replace(visit, steps=steps, anchor=anchor if hinted else None)


def trained_by(lab: Laboratory, visit: Visit, test: Test, anchor: int) -> tuple[list[str] | None, str]:
    """Kinds of access that a visit (which loads train) works with too, in the order load, store, prefetch; or why that
    can't be told. A software prefetch counts if any hint trains: hints go to different levels."""
    found: list[str] = []
    for name, kinds in (("load", ("load",)), ("store", ("store",)), ("prefetch", _hints(lab))):
        told = [test(by_kind(visit, kind, anchor)) for kind in kinds]
        if True in told:
            found.append(name)
        elif None in told or not told:
            return None, f"it stays unclear whether a {name} trains it; run again at a quieter time"
    if "load" not in found:
        return None, "the accesses that showed it did not show it again"
    return found, ""


def _hints(lab: Laboratory) -> tuple[Kind, ...]:
    offered = lab.context.machine.facts.prefetch_hints
    wanted: tuple[Kind, ...] = ("t0", "t1", "nta")
    return tuple(hint for hint in wanted if hint in offered)

"""Which kinds of access train a prefetcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.visit import Kind, Visit

Test = Callable[[Visit], bool | None]

ALL_KINDS = ("load", "store", "prefetch")


def by_kind(visit: Visit, how: Kind, anchor: int | None) -> Visit:
    """The visit with its loads replaced by accesses of another kind."""
    steps = tuple(replace(access, how=how) if access.how == "load" else access for access in visit.steps)
    return replace(visit, steps=steps, anchor=anchor)


def trained_by(lab: Laboratory, visit: Visit, test: Test, anchor: int) -> tuple[list[str] | None, str]:
    """Kinds of access that a visit (which loads train) works with too, in the order load, store, prefetch; or why that
    can't be told. A software prefetch counts if any hint trains: hints go to different levels."""
    found: list[str] = []
    asked: tuple[tuple[Kind, ...], ...] = (("load",), ("store",), _hints(lab))
    for name, kinds in zip(ALL_KINDS, asked, strict=True):
        told = [test(by_kind(visit, kind, _anchor(lab, visit, kind, anchor))) for kind in kinds]
        if True in told:
            found.append(name)
        elif None in told or not told:
            return None, f"it stays unclear whether a {name} trains it; run again at a quieter time"
    if "load" not in found:
        return None, "the accesses that showed it did not show it again; run again at a quieter time"
    return found, ""


def _anchor(lab: Laboratory, visit: Visit, how: Kind, anchor: int) -> int | None:
    """An anchor is one access more, so it is only used where software prefetches are not done without it, or where that
    can't be seen because the lines are in level 1 anyway."""
    line = visit.steps[-1].at // lab.line_size
    if how in ("load", "store"):
        return None
    if line in (*visit.warm, *visit.demoted):
        return anchor
    return None if lab.brings(by_kind(visit, how, None), line) else anchor


def _hints(lab: Laboratory) -> tuple[Kind, ...]:
    offered = lab.context.machine.facts.prefetch_hints
    wanted: tuple[Kind, ...] = ("t0", "t1", "nta")
    return tuple(hint for hint in wanted if hint in offered)

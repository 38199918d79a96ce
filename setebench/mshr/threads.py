"""What the threads of a core take from each other."""

from __future__ import annotations

from setebench.infer.in_flight import Evidence
from setebench.infer.mshr import fills_first, fills_second
from setebench.measure.siblings import siblings_of
from setebench.mshr.climber import Climber

NOT_KEPT = "level 2 hardly keeps a line behind a walk, so beside another thread it may not; run again at a quieter time"


def ask_siblings(climber: Climber, evidence: Evidence, levels: tuple[str, ...], walk_bytes: float) -> None:
    """What the threads of a core take from each other, added to the evidence; behind a walk over `walk_bytes` a line
    ought to be in level 2."""
    cpus = siblings_of(climber.context.machine.facts, climber.context.cpu)
    evidence.one_thread = len(cpus) < 2
    if evidence.one_thread:
        return
    climber.context.progress("threads of a core together")
    climber.volleys.refresh()
    first, blocked = fills_first(evidence), evidence.blocked
    if isinstance(first, str):
        evidence.beside = first
    # a hit in level 1 would wait for nothing, one further out always; and a line that stays only behind a walk of
    # another length was once told not to wait beside a pool that is shared
    elif blocked is None or not blocked.in_level_two or blocked.walk_bytes != walk_bytes:
        evidence.beside = NOT_KEPT
    else:
        evidence.beside = climber.volleys.beside(cpus, first, climber.cycles["memory"], walk_bytes)
    if "l2" in levels:
        limit = fills_second(evidence, len(cpus))
        evidence.together = limit if isinstance(limit, str) else climber.volleys.at_once(cpus, limit, climber.rng)

"""What the threads of a core take from each other."""

from __future__ import annotations

from setebench.infer.in_flight import Evidence
from setebench.infer.mshr import fills_first, fills_second
from setebench.infer.siblings import Beside
from setebench.measure.siblings import siblings_of
from setebench.mshr.climber import Climber

NOT_KEPT = "beside another thread a line didn't stay in level 2; run again at a quieter time"


def ask_siblings(climber: Climber, evidence: Evidence, levels: tuple[str, ...]) -> None:
    """What the threads of a core take from each other, added to the evidence."""
    cpus = siblings_of(climber.context.machine.facts, climber.context.cpu)
    evidence.one_thread = len(cpus) < 2
    if evidence.one_thread:
        return
    climber.context.progress("threads of a core together")
    climber.volleys.refresh()
    evidence.beside = _beside(climber, evidence, cpus)
    if "l2" in levels:
        limit = fills_second(evidence, len(cpus))
        evidence.together = limit if isinstance(limit, str) else climber.volleys.at_once(cpus, limit, climber.rng)


def _beside(climber: Climber, evidence: Evidence, cpus: tuple[int, ...]) -> Beside | str:
    """The hit of one thread beside another's misses, or why it isn't asked for. A hit in level 1 would wait for
    nothing, one further out for what level 2 lacks; and what the other thread's lines push out may be the line."""
    filling, blocked = fills_first(evidence), evidence.blocked
    if isinstance(filling, str) or blocked is None:
        return filling if isinstance(filling, str) else NOT_KEPT
    volleys, memory = climber.volleys, climber.cycles["memory"]
    if climber.levels_off(lambda size: volleys.beside_one(cpus, filling, memory, size), blocked.walk_bytes) != 0:
        return NOT_KEPT
    return volleys.beside(cpus, filling, memory, blocked.walk_bytes)

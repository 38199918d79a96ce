"""What the threads of a core take from each other."""

from __future__ import annotations

from setebench.infer.in_flight import Evidence
from setebench.infer.mshr import fills_first, fills_second
from setebench.measure.siblings import siblings_of
from setebench.mshr.climber import Climber


def ask_siblings(climber: Climber, evidence: Evidence, levels: tuple[str, ...], walk_bytes: float | None) -> None:
    """What the threads of a core take from each other, added to the evidence."""
    cpus = siblings_of(climber.context.machine.facts, climber.context.cpu)
    evidence.one_thread = len(cpus) < 2
    if evidence.one_thread:
        return
    climber.context.progress("threads of a core together")
    climber.volleys.refresh()
    first = fills_first(evidence)
    if isinstance(first, str) or walk_bytes is None:
        evidence.beside = str(first)
    else:
        hint, entries = first
        evidence.beside = climber.volleys.beside(cpus, entries, hint, climber.cycles["memory"], walk_bytes)
    if "l2" in levels:
        limit = fills_second(evidence, len(cpus))
        evidence.together = limit if isinstance(limit, str) else climber.volleys.at_once(cpus, *limit, climber.rng)

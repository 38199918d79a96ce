"""How many misses are in flight at once at each level: entries of miss queues (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: time n independent accesses to distinct lines, and see at which n time jumps,
because the next access has to wait for an entry. Loads, stores and software prefetches are asked apart, for they may draw
on different pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from setebench.calibrate import step_ticks
from setebench.climb import Staircase, climb
from setebench.infer.mshr import Blocked, Evidence, Prefetching, findings
from setebench.infer.steps import calm_level
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.sweep import find_levels, working_memory
from setebench.volley import LANDING_LINES, Volleys

MOST = 256
"""Requests that are tried at most; no level-1 or level-2 miss queue of a published core is larger."""

WAVES = 3

CHASE_SHARE, MOST_STEPS = 0.8, 100
"""The chase behind a hit takes so much of a miss, which shows when it comes on top of one; and steps beyond which its own
loads might fill the load queue."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the levels asked for."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        inside = find_levels(context, region)
        cycles = context.known["level_cycles"]
        asker = _Asker(context, Volleys(context, region, context.rng(3)), cycles)
        evidence = Evidence(loads=asker.loads())
        if "l2" in levels:
            evidence.stores = asker.stores()
            evidence.chases = asker.chases(evidence.loads)
        if "l1" in levels and "l2" in inside:
            evidence.blocked = asker.blocked(inside["l2"], evidence.loads)
        evidence.prefetching = asker.prefetching(levels)
    finally:
        context.machine.release(region)
    _keep(context, evidence)
    yield from findings(evidence, levels)


class _Asker:
    """Climbs the staircases, one after the other."""

    def __init__(self, context: Context, volleys: Volleys, cycles: dict[str, float]) -> None:
        self._context, self._volleys, self._cycles = context, volleys, cycles
        self._rng = context.rng(4)

    def _climb(self, what: str, measure: Any, first: int) -> Staircase:
        self._context.progress(what)
        self._volleys.refresh()
        return climb(measure, first, MOST, self._cycles["memory"], self._rng)

    def loads(self) -> Staircase:
        """Loads from memory."""
        return self._climb("loads", self._volleys.loads, 1)

    def stores(self) -> Staircase:
        """Stores to memory."""
        return self._climb("stores", self._volleys.stores, 1)

    def blocked(self, walk_bytes: float, loads: Staircase) -> Blocked:
        """A hit in level 2 behind misses, and whether its line came from there."""
        step = self._volleys.ring_step_cycles()
        steps = max(min(int(CHASE_SHARE * self._cycles["memory"] / step), MOST_STEPS), 1)
        near = self._near_cycles(steps, walk_bytes)
        in_level_two = near < (self._cycles["l2"] * self._behind_level_two()) ** 0.5
        stairs = self._climb("hits behind misses", lambda n: self._volleys.blocked(n, steps, walk_bytes), 1)
        at_once = stairs.level(1) - loads.level(1) > 0.5 * steps * step
        return Blocked(stairs, at_once, in_level_two)

    def _near_cycles(self, steps: int, walk_bytes: float) -> float:
        """What a load of the line takes that ought to be in level 2, against one that is in level 1."""
        far, near = (
            np.mean([calm_level(self._volleys.blocked(0, steps, size)) for _ in range(16)]) for size in (walk_bytes, 0)
        )
        return float(far - near) + self._cycles["l1"]

    def _behind_level_two(self) -> float:
        return min(cycles for cycles in self._cycles.values() if cycles > 1.2 * self._cycles["l2"])

    def chases(self, loads: Staircase) -> float | None:
        """Misses that the throughput of parallel chases keeps in flight, by Little's law: the most of twice as many
        chases as loads can be in flight, and as many."""
        if loads.step is None:
            return None
        self._context.progress("parallel chases")
        one = self._wave_cycles(1)
        return max(count * one / self._wave_cycles(count) for count in (loads.step.last, 2 * loads.step.last))

    def _wave_cycles(self, count: int) -> float:
        long, short = (
            calm_level(np.concatenate([self._volleys.waves(count, waves) for _ in range(8)])) for waves in (WAVES, 1)
        )
        return (long - short) / (WAVES - 1)

    # -- software prefetches -----------------------------------------------------------------------------------------

    def _hints(self) -> tuple[str, ...]:
        return self._context.machine.facts.prefetch_hints

    def prefetching(self, levels: tuple[str, ...]) -> list[Prefetching]:
        """Where every hint fills, and staircases of one hint per level asked for."""
        fills = self._fills()
        if fills and not {"l1", "l2"} & set(fills.values()):
            self._volleys.escorted = True
            fills = self._fills()
        chosen = [next((hint for hint in fills if fills[hint] == level), None) for level in levels]
        if "l2" in levels and chosen[-1] is None:
            chosen.append(next((hint for hint in fills if fills[hint] == "l1"), None))
        return [
            self._one_hint(hint, fills[hint]) if hint in chosen else Prefetching(hint, fills[hint]) for hint in fills
        ]

    def _fills(self) -> dict[str, str]:
        """By hint the level in which a chase finds lines that were prefetched."""
        self._context.progress("where prefetches land")
        loaded = np.mean([calm_level(self._volleys.landing(None, first=True)) for _ in range(8)])
        found = {}
        for hint in self._hints():
            taken = np.mean([calm_level(self._volleys.landing(hint)) for _ in range(8)])
            cycles = max((taken - loaded) / LANDING_LINES, 0.0) + self._cycles["l1"]
            found[hint] = min(self._cycles, key=lambda level: abs(np.log(cycles / self._cycles[level])))
        return found

    def _one_hint(self, hint: str, fills: str) -> Prefetching:
        plain = self._hint_stairs(hint, fills)
        if self._volleys.escorted or plain.kept is None or plain.kept.step is None:
            return plain
        self._volleys.escorted = True  # dropped, perhaps because the first TLB lacked the page
        again = self._hint_stairs(hint, fills)
        self._volleys.escorted = False
        return again

    def _hint_stairs(self, hint: str, fills: str) -> Prefetching:
        ask = self._volleys.prefetches
        return Prefetching(
            hint,
            fills,
            self._climb(f"prefetch {hint}", lambda n: ask(n, hint, delayed=True)[:, 0], 0),
            self._climb(f"prefetch {hint}, until there", lambda n: ask(n, hint, delayed=False).sum(axis=1), 1),
            self._climb(f"prefetch {hint}, then load", lambda n: ask(n, hint, delayed=True)[:, 1], 1),
        )


def _keep(context: Context, evidence: Evidence) -> None:
    """Staircases as plain lists, for the result file and the plot."""
    named = {"loads": evidence.loads, "stores": evidence.stores, "blocked": evidence.blocked and evidence.blocked.stairs}
    for own in evidence.prefetching:
        named |= {f"prefetch.{own.hint}.{way}": getattr(own, way) for way in ("phase", "total", "kept")}
    context.evidence["staircases"] = {name: _plain(stairs) for name, stairs in named.items() if stairs is not None}
    context.evidence["prefetch_fills"] = {own.hint: own.fills for own in evidence.prefetching}


def _plain(stairs: Staircase) -> dict[str, Any]:
    numbers, cycles = stairs.curve()
    step = stairs.step
    return {
        "numbers": numbers.tolist(),
        "cycles": [round(float(each), 1) for each in cycles],
        "step": None if step is None else [step.last, step.low, step.high],
        "repeats": stairs.repeats,
    }


SCENARIO = Scenario(
    name="mshr",
    summary="how many misses each level keeps in flight, for loads and for software prefetches",
    answer=answer,
    parameters=("mshr.",),
    options=(
        Option(name="level", help="Which level's miss queue.", default="all", choices=("L1", "L2", "all")),
    ),
)

"""How many misses are in flight at once at each level: entries of miss queues (MSHRs, line fill buffers).

Fang et al. 2014, 5.2.2 and section 6: time n independent accesses to distinct lines, and see at which n time jumps,
because the next access has to wait for an entry. Loads, stores and software prefetches are asked apart, for they may
draw on different pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.infer.in_flight import Blocked, Evidence, Prefetching
from setebench.infer.landing import NEAR, UNSTEADY, Landing, landed
from setebench.infer.mshr import fills_first, fills_second, findings
from setebench.infer.steps import WINDOW_BEHIND, Staircase, calm_level
from setebench.infer.ticks import mean_ticks, over_replicates
from setebench.measure.calibrate import step_ticks
from setebench.measure.climb import FAST, THOROUGH, Effort, Measure, climb, once_more
from setebench.measure.serving import levels_of
from setebench.measure.siblings import Siblings, siblings_of
from setebench.measure.sweep import working_memory
from setebench.measure.volley import LANDING_LINES
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

MOST = 256
"""Requests that are tried at most; no level-1 or level-2 miss queue of a published core is larger."""

WAVES = 3

CHASE_SHARE, MOST_STEPS, HIDES_TWO = 1.6, 400, 1.25
"""The chase behind a hit takes so many times as long as a miss; its most steps (where they don't fit into the core's
window, the last ones begin when the first misses have left it); and what it takes at least to show behind two waves of
misses, which is what more misses than level 2 has entries take."""

NEAR_RUNS, NEAR_BATCHES, NEAR_MOST = 6, 4, 24
"""Runs whose mean tells the latency of the line of the hit, how many such means are taken at a time, and at most."""

FIRST_TLB_PAGES = 24
"""The first TLB of any core of the last twenty years holds more pages."""

AT_ONCE = 0.5
"""Prefetches that set out within this share of a miss are surely in flight together."""

AT_JUMP_ROUNDS = 12
"""Rounds in which a hit behind as many misses as can be in flight is timed, and behind one less."""

PASSED_RATIO = 2
"""Where prefetches had to wait at a number, dropped or late ones are looked for up to so many times that number: only a
smaller limit than the one found would change the answer, and a climb needs to see what lies behind a jump."""

APART_ROUNDS, APART_GROUPS = 6, 4
"""Rounds in which prefetches come in groups, and how many groups: in each far fewer than may be in flight, yet enough
in all."""

LANDINGS, MOST_LANDINGS = 12, 36
"""Times that a hint's lines are looked for before it's judged where they land, and at most."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of the levels asked for."""
    level = context.options.get("level", "all")
    levels = ("l1", "l2") if level == "all" else (level.lower(),)
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        inside = levels_of(context, region)
        cycles = context.known["level_cycles"]
        asker = _Asker(context, Siblings(context, region, context.rng(3)), cycles)
        evidence = Evidence(loads=asker.loads())
        if "l2" in levels:
            evidence.stores = asker.stores()
            evidence.chases = asker.chases(evidence.loads)
        if "l1" in levels and "l2" in inside:
            evidence.blocked = asker.blocked(inside["l2"].bytes, evidence.loads)
        evidence.prefetching = asker.prefetching(levels)
        asker.at_other_times()
        asker.siblings(evidence, levels, inside["l2"].bytes if "l2" in inside else None)
    finally:
        context.machine.release(region)
    _keep(context, evidence)
    yield from findings(evidence, levels)


class _Asker:
    """Climbs the staircases, one after the other."""

    def __init__(self, context: Context, volleys: Siblings, cycles: dict[str, float]) -> None:
        self._context, self._volleys, self._cycles = context, volleys, cycles
        self._rng = context.rng(4)
        self._effort: Effort = FAST if context.fast else THOROUGH
        self._escorted = False
        self._climbed: list[tuple[str, Staircase, Measure, int]] = []

    def _climb(self, what: str, measure: Measure, first: int, most: int = MOST, unit: float | None = None) -> Staircase:
        self._context.progress(what)
        self._volleys.refresh()
        found = climb(measure, first, most, unit or self._cycles["memory"], self._rng, self._effort)
        self._climbed.append((what, found, measure, first))
        return found

    def at_other_times(self) -> None:
        """Every jump once more, when all staircases have been climbed, and again: each time after all others."""
        for time in range(self._effort.again):
            for what, stairs, measure, first in self._climbed:
                self._context.progress(f"{what}, time {time + 2}")
                self._volleys.refresh()
                once_more(stairs, measure, first, self._rng, self._effort)

    def loads(self) -> Staircase:
        """Loads from memory."""
        return self._climb("loads", self._volleys.loads, 1)

    def stores(self) -> Staircase:
        """Stores to memory."""
        return self._climb("stores", self._volleys.stores, 1)

    def blocked(self, walk_bytes: float, loads: Staircase) -> Blocked:
        """How much longer misses with a hit in level 2 behind them take than the longer of both; and whether the line
        of the hit came from level 2."""
        memory, volleys = self._cycles["memory"], self._volleys
        step = volleys.ring_step_cycles()
        steps = max(min(int(CHASE_SHARE * memory / step), MOST_STEPS), 1)
        hides = steps * step / memory
        in_level_two = self._in_level_two(walk_bytes)
        alone = calm_level(np.stack([volleys.blocked(0, steps, walk_bytes) for _ in range(8)]))

        def excess(count: int) -> NDArray[np.float64]:
            misses = calm_level(volleys.loads(count)) if count else 0.0
            return volleys.blocked(count, steps, walk_bytes) - max(misses, alone)

        # misses of a second wave take twice as long as one: a chase no longer than that would never show behind them
        waves = 2 if hides > HIDES_TWO else 1
        most = MOST if loads.step is None else min(waves * loads.step.high, MOST)
        unit = memory * (hides - 1 if waves == 2 else min(hides, 1.0))
        stairs = self._climb("hits behind misses", excess, 0, most, unit)
        if loads.step is not None:
            for number in AT_JUMP_ROUNDS * (max(loads.step.last - 1, 0), loads.step.last):
                stairs.samples.setdefault(number, []).append(excess(number))
        return Blocked(stairs, in_level_two)

    def _in_level_two(self, walk_bytes: float) -> bool:
        """Whether the line of the hit really comes from level 2, by its latency; asked until that is clear, for near
        levels may differ by less than a clock step."""
        ordered = sorted(self._cycles.values())
        inner, own, outer = ordered[(at := ordered.index(self._cycles["l2"])) - 1 : at + 2]
        low, high = (inner * own) ** 0.5, (own * outer) ** 0.5
        found: list[float] = []
        while len(found) < NEAR_MOST:
            found += [self._near_cycles(walk_bytes) for _ in range(NEAR_BATCHES)]
            near = over_replicates(found)
            if near.high < low or low < near.low < near.high < high or near.low > high:
                break
        return bool(low < near.value < high)

    def _near_cycles(self, walk_bytes: float) -> float:
        """What a load of the line takes that ought to be in level 2, against one that is in level 1."""

        def of(size: float) -> float:
            return self._mean(lambda: self._volleys.blocked(0, 1, size), NEAR_RUNS)

        return of(walk_bytes) - of(0.0) + self._cycles["l1"]

    def _mean(self, measure: Callable[[], NDArray[np.float64]], runs: int) -> float:
        """Mean cycles of so many runs: small differences need a mean that the clock's step doesn't bias."""
        return self._mean_of(np.concatenate([measure() for _ in range(runs)]))

    def _mean_of(self, times: NDArray[Any]) -> float:
        return mean_ticks(times, self._volleys.cycles_per_tick * step_ticks(self._context))

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
        self._context.progress("where prefetches land")
        fills = self._landed(self._hints())
        if fills and not set(NEAR) & set(fills.values()):
            self._escorted = True
            fills = self._landed(self._hints())
        found = {hint: Prefetching(hint, fills[hint]) for hint in fills}
        for level in levels:
            # an L1 hint's lines come through level 2 as well, which at least bounds what that keeps in flight
            any(self._steady(found, each) for each in (("l1",) if level == "l1" else ("l2", "l1")))
        return list(found.values())

    def _steady(self, found: dict[str, Prefetching], level: str) -> bool:
        """Climb for the first hint that fills `level` and goes on doing so; whether there is one."""
        for hint, own in found.items():
            if own.fills == level and own.phase is None:
                found[hint] = self._one_hint(hint, level)
            if found[hint].fills == level:
                return True
        return False

    def _landed(self, hints: tuple[str, ...]) -> dict[str, str]:
        """By hint the level in which a chase finds lines that were prefetched; asked until that is clear. Each round
        compares with lines that were loaded: what the clock rate does then falls on both."""
        landing, cycles = partial(self._volleys.landing, escorted=self._escorted), self._cycles
        rounds: dict[str, list[Landing]] = {hint: [] for hint in hints}
        found: dict[str, str] = {}
        for _ in range(MOST_LANDINGS // LANDINGS):
            for _ in range(LANDINGS):
                loaded = landing(None, first=True)
                for hint, own in rounds.items():
                    chase = landing(hint)
                    median = float(np.median(chase) - np.median(loaded)) / LANDING_LINES
                    mean = (self._mean_of(chase) - self._mean_of(loaded)) / LANDING_LINES
                    own.append(Landing(median + cycles["l1"], mean + cycles["l1"]))
            found = {hint: landed(own, cycles) for hint, own in rounds.items()}
            if UNSTEADY not in found.values():
                break
        return found

    def _one_hint(self, hint: str, fills: str) -> Prefetching:
        """Staircases of a hint. Where lines beyond what a first TLB may hold were dropped, it may be for that, so
        once more with the TLB warmed between prefetches; if that lets them set out fast enough to be in flight
        together."""
        plain = self._hint_stairs(hint, fills, self._escorted)
        dropped = plain.kept.step if plain.kept else None
        if self._escorted or dropped is None or dropped.last < FIRST_TLB_PAGES:
            return plain
        again = self._hint_stairs(hint, fills, True)
        assert again.phase is not None
        setting_out = again.phase.level(min(again.phase.samples, key=lambda n: abs(n - dropped.last)))
        return again if setting_out - again.phase.level(0) < AT_ONCE * self._cycles["memory"] else plain

    def _hint_stairs(self, hint: str, fills: str, escorted: bool) -> Prefetching:
        ask = partial(self._volleys.prefetches, hint=hint, escorted=escorted)
        phase = self._climb(f"prefetch {hint}", lambda n: ask(n, delayed=True)[:, 0], 0)
        fills = self._still(hint, fills)
        passed = phase.step.high + WINDOW_BEHIND if phase.step else MOST
        most = min(PASSED_RATIO * passed, MOST)
        total = self._climb(f"prefetch {hint}, until there", lambda n: ask(n, delayed=False).sum(axis=1), 1, most)
        kept = self._climb(f"prefetch {hint}, then load", lambda n: ask(n, delayed=True)[:, 1], 1, most)
        apart = None
        if kept.step is not None:  # what loads take behind the jump when fewer prefetches are in flight at once
            count = min(number for number in kept.samples if number > kept.step.high)
            rounds = [ask(count, delayed=True, groups=APART_GROUPS)[:, 1] for _ in range(APART_ROUNDS)]
            apart = calm_level(np.stack(rounds))
        return Prefetching(hint, self._still(hint, fills), phase, total, kept, apart)

    def _still(self, hint: str, fills: str) -> str:
        """Where a hint fills, asked again: some machines ignore a hint for a stretch of time, and what was timed
        then tells nothing."""
        return fills if (self._landed((hint,))[hint] in NEAR) == (fills in NEAR) else UNSTEADY

    # -- SMT -----------------------------------------------------------------------------------------------------------

    def siblings(self, evidence: Evidence, levels: tuple[str, ...], walk_bytes: float | None) -> None:
        """What the threads of a core take from each other, added to the evidence."""
        cpus = siblings_of(self._context.machine.facts, self._context.cpu)
        evidence.one_thread = len(cpus) < 2
        if evidence.one_thread:
            return
        self._context.progress("threads of a core together")
        self._volleys.refresh()
        first = fills_first(evidence)
        if isinstance(first, str) or walk_bytes is None:
            evidence.beside = str(first)
        else:
            hint, entries = first
            evidence.beside = self._volleys.beside(cpus, entries, hint, self._cycles["memory"], walk_bytes)
        if "l2" in levels:
            limit = fills_second(evidence, len(cpus))
            evidence.together = limit if isinstance(limit, str) else self._volleys.at_once(cpus, *limit, self._rng)


def _keep(context: Context, evidence: Evidence) -> None:
    """Staircases as plain lists, for the result file and the plot."""
    named = {
        "loads": evidence.loads,
        "stores": evidence.stores,
        "blocked": evidence.blocked.stairs if evidence.blocked else None,
    }
    for own in evidence.prefetching:
        named |= {f"prefetch.{own.hint}.{way}": getattr(own, way) for way in ("phase", "total", "kept")}
    context.evidence["staircases"] = {name: _plain(stairs) for name, stairs in named.items() if stairs is not None}
    context.evidence["siblings"] = [
        asdict(own) if not isinstance(own, str) else own for own in (evidence.beside, evidence.together)
    ]
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


def plot(document: dict[str, Any]) -> Any:
    """The staircases with their jumps."""
    from setebench.report.staircases import staircase_figure  # matplotlib is only loaded for a plot

    return staircase_figure(document)


SCENARIO = Scenario(
    name="mshr",
    summary="how many misses each level keeps in flight, for loads and for software prefetches",
    answer=answer,
    parameters=("mshr.",),
    plot=plot,
    options=(Option(name="level", help="Which level's miss queue.", default="all", choices=("L1", "L2", "all")),),
    order=30,
    seconds=15.0,
)

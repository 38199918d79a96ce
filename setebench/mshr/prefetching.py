"""Software prefetches in flight: where each hint fills, and how many are under way before the next has to wait."""

from __future__ import annotations

from functools import partial

import numpy as np

from setebench.infer.in_flight import Prefetching
from setebench.infer.landing import NEAR, UNSTEADY, Landing, landed
from setebench.infer.prefetch_entries import dropped_when_full
from setebench.infer.steps import WINDOW_BEHIND, calm_level
from setebench.measure.volley import LANDING_LINES
from setebench.mshr.climber import MOST, Climber

FIRST_TLB_PAGES = 24
"""The first TLB of any core of the last twenty years holds more pages."""

APART_RATIO = 1.6
"""Third levels of published cores take twice as long as the second or more. One that is nearer may be the second, seen
beside lines that stayed in the first."""

AT_ONCE = 0.5
"""Prefetches that set out within this share of a miss are surely in flight together."""

PASSED_RATIO = 2
"""Where prefetches had to wait at a number, dropped or late ones are looked for up to so many times that number: only a
smaller limit than the one found would change the answer, and a climb needs to see what lies behind a jump."""

APART_ROUNDS, APART_GROUPS = 6, 4
"""Rounds in which prefetches come in groups, and how many groups: in each far fewer than may be in flight, yet enough
in all."""

LANDINGS, MOST_LANDINGS = 12, 36
"""Times that a hint's lines are looked for before it's judged where they land, and at most."""


class Hints:
    """Staircases of software prefetches."""

    def __init__(self, climber: Climber) -> None:
        self._climber, self._escorted = climber, False

    def _hints(self) -> tuple[str, ...]:
        return self._climber.context.machine.facts.prefetch_hints

    def ask(self, levels: tuple[str, ...]) -> list[Prefetching]:
        """Where every hint fills, and staircases of one hint per level asked for."""
        self._climber.context.progress("where prefetches land")
        fills = self._landed(self._hints())
        if fills and not set(NEAR) & set(fills.values()):
            self._escorted = True
            fills = self._landed(self._hints())
        fills = {hint: UNSTEADY if level == "l3" and self._doubtful() else level for hint, level in fills.items()}
        found = {hint: Prefetching(hint, fills[hint]) for hint in fills}
        for level in levels:
            # an L1 hint's lines come through level 2 as well, which at least bounds what that keeps in flight
            any(self._steady(found, each) for each in (("l1",) if level == "l1" else ("l2", "l1")))
        return list(found.values())

    def _doubtful(self) -> bool:
        """Whether what is taken for a third level may be the second one, and that a mixture with the first."""
        cycles = self._climber.cycles
        return "l3" in cycles and cycles["l3"] < APART_RATIO * cycles["l2"]

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
        landing, cycles = partial(self._climber.volleys.landing, escorted=self._escorted), self._climber.cycles
        rounds: dict[str, list[Landing]] = {hint: [] for hint in hints}
        found: dict[str, str] = {}
        for _ in range(MOST_LANDINGS // LANDINGS):
            for _ in range(LANDINGS):
                loaded = landing(None, first=True)
                for hint, own in rounds.items():
                    chase = landing(hint)
                    median = float(np.median(chase) - np.median(loaded)) / LANDING_LINES
                    mean = (self._climber.mean_of(chase) - self._climber.mean_of(loaded)) / LANDING_LINES
                    own.append(Landing(median + cycles["l1"], mean + cycles["l1"]))
            found = {hint: landed(own, cycles) for hint, own in rounds.items()}
            if UNSTEADY not in found.values():
                break
        return found

    def _one_hint(self, hint: str, fills: str) -> Prefetching:
        """Staircases of a hint. Where lines beyond what a first TLB may hold were dropped, and just as well when fewer
        were asked for at a time, it may be for that, so once more with the TLB warmed between prefetches; if that lets
        them set out fast enough to be in flight together. Not else: the loads that warm it are also the second access
        to a page, with which prefetchers of regions bring lines that were dropped."""
        plain = self._hint_stairs(hint, fills, self._escorted)
        dropped = plain.kept.step if plain.kept and not dropped_when_full(plain) else None
        if self._escorted or dropped is None or dropped.last < FIRST_TLB_PAGES:
            return plain
        again = self._hint_stairs(hint, fills, True)
        assert again.phase is not None
        setting_out = again.phase.level(min(again.phase.samples, key=lambda n: abs(n - dropped.last)))
        return again if setting_out - again.phase.level(0) < AT_ONCE * self._climber.cycles["memory"] else plain

    def _hint_stairs(self, hint: str, fills: str, escorted: bool) -> Prefetching:
        ask = partial(self._climber.volleys.prefetches, hint=hint, escorted=escorted)
        phase = self._climber.climb(f"prefetch {hint}", lambda n: ask(n, delayed=True)[:, 0], 0)
        fills = self._still(hint, fills)
        passed = phase.step.high + WINDOW_BEHIND if phase.step else MOST
        most = min(PASSED_RATIO * passed, MOST)
        total = self._climber.climb(
            f"prefetch {hint}, until there", lambda n: ask(n, delayed=False).sum(axis=1), 1, most
        )
        kept = self._climber.climb(f"prefetch {hint}, then load", lambda n: ask(n, delayed=True)[:, 1], 1, most)
        apart = None
        if kept.step is not None:  # what loads take behind the jump when fewer prefetches are in flight at once
            count = min(number for number in kept.samples if number > kept.step.high)
            rounds = [ask(count, delayed=True, groups=APART_GROUPS)[:, 1] for _ in range(APART_ROUNDS)]
            apart = calm_level(np.stack(rounds))
        return Prefetching(hint, self._still(hint, fills), phase, total, kept, apart, escorted)

    def _still(self, hint: str, fills: str) -> str:
        """Where a hint fills, asked again: some machines ignore a hint for a stretch of time, and what was timed
        then tells nothing."""
        return fills if (self._landed((hint,))[hint] in NEAR) == (fills in NEAR) else UNSTEADY

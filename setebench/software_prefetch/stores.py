"""Cycles of stores to lines that other cores held, after a shared prefetch and after an exclusive one.

Asked at several times of a run: a hypervisor that moves a virtual CPU to another die makes such a store several times
as long, for seconds on end, which no spread within one time shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from setebench.infer import held_up
from setebench.infer.software_prefetch import Answer
from setebench.infer.ticks import mean_ticks, over_rounds
from setebench.measure.calibrate import quick_cycles_per_tick
from setebench.measure.placing import BASELINE_ADDITIONS
from setebench.results import Finding
from setebench.software_prefetch import sharing
from setebench.software_prefetch.fills import answers, chosen
from setebench.software_prefetch.run import Run, unavailable

STORE_ROUNDS, FAST_STORE_ROUNDS, STORE_REPETITIONS = 8, 4, 120
"""Rounds of one time."""

MORE_OFTEN = 3
"""So many times the rounds at most, where they differ among themselves: a neighbour comes and goes within a second."""

FURTHER_ROUNDS = 2
"""Rounds of one time with more than one other core, which are only evidence."""

MOST_HOLDERS = 8
"""Stores are timed with 1, 2, 4, ... other cores holding the line, up to so many."""

LEAST_TIMES = 2


class Stores:
    """What stores take, by how many other cores hold the line, by kind and by time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        facts = run.context.machine.facts
        self._own = facts.cpus[-1] if run.context.cpu is None else run.context.cpu
        self._others = sharing.one_cpu_per_core(facts, self._own)
        self._cycles: dict[int, dict[str, list[list[float]]]] = {}

    def time(self) -> None:
        """Measure at this time, after every hint that is known to fill level 1 by now, and after w: whether that does
        may only be clear later, when this time is over."""
        available = set(self._run.context.machine.facts.prefetch_hints)
        hints = sorted(set(self._wanted().values()) | {"w"} & available)
        if not hints:
            return
        for count in (1, 2, 4, MOST_HOLDERS):
            if count <= len(self._others):
                told = self._one_holder(hints) if count == 1 else self._rounds(count, hints, FURTHER_ROUNDS)
                for kind, cycles in told.items():
                    self._cycles.setdefault(count, {}).setdefault(kind, []).append(cycles)

    def _one_holder(self, hints: Sequence[str]) -> dict[str, list[float]]:
        """Rounds with one other core, until they are close to each other or there are enough."""
        rounds = STORE_ROUNDS if not self._run.context.fast else FAST_STORE_ROUNDS
        told = self._rounds(1, hints, rounds)
        for _ in range(MORE_OFTEN - 1):
            if all(held_up.close_enough(told[hint]) for hint in hints):
                break
            more = self._rounds(1, hints, rounds)
            told = {kind: cycles + more[kind] for kind, cycles in told.items()}
        return told

    def findings(self) -> Iterator[Finding]:
        """What all times together tell."""
        facts, wanted = self._run.context.machine.facts, self._wanted()
        self._keep(wanted)
        reason = "" if self._others else "only one core is at hand: nobody else can hold the line"
        for state in ("shared", "exclusive"):
            parameter = f"software_prefetch.store_after.{state}"
            if reason or not facts.prefetch_hints or (state == "exclusive" and "w" not in facts.prefetch_hints):
                yield unavailable(parameter, "cycles", reason or "this machine has no prefetch hint w")
                continue
            method = f"store and full fence after prefetch {wanted.get(state, '')} of a line that another core loaded"
            times = self._cycles.get(1, {}).get(wanted.get(state, ""), [])
            if state not in wanted or len(times) < LEAST_TIMES:
                lacking = f"no {state} prefetch was seen to fill level 1 all the time"
                yield Answer(reason=lacking).finding(parameter, "cycles", "store after a prefetch")
            else:
                yield held_up.store_latency(parameter, times, method)

    def _wanted(self) -> dict[str, str]:
        """By state of the line the hint that brings it to level 1 so."""
        answers(self._run)  # later looks may tell what the first one did not
        fills = self._run.fills
        hints = {
            "shared": chosen({hint: each for hint, each in fills.items() if hint != "w"}, self._run.ignored),
            "exclusive": "w",
        }
        return {state: hint for state, hint in hints.items() if fills.get(hint, Answer()).value == "l1"}

    def _rounds(self, count: int, hints: Sequence[str], rounds: int) -> dict[str, list[float]]:
        run, kinds = self._run, (sharing.OWN, sharing.NONE, *hints)
        cycles: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(rounds):
            run.context.progress(f"stores to lines that {count} other cores hold, round {number + 1} of {rounds}")
            ticks = sharing.stores_after(
                run.context,
                run.region,
                self._own,
                self._others[:count],
                (sharing.ADDITIONS, *kinds),
                STORE_REPETITIONS,
            )
            per_tick = quick_cycles_per_tick(run.context)
            base = mean_ticks(ticks[sharing.ADDITIONS], run.step)
            for kind, told in cycles.items():
                told.append((mean_ticks(ticks[kind], run.step) - base) * per_tick + BASELINE_ADDITIONS)
        return cycles

    def _keep(self, wanted: dict[str, str]) -> None:
        if not self._cycles:
            return
        times = {
            count: {kind: [over_rounds(each).value for each in own] for kind, own in kinds.items()}
            for count, kinds in self._cycles.items()
        }
        self._run.context.evidence["store_after"] = {
            "hints": wanted,
            "cycles_by_holders": {
                str(count): {kind: sum(own) / len(own) for kind, own in kinds.items()} for count, kinds in times.items()
            },
            "cycles_by_time": times.get(1, {}),
        }

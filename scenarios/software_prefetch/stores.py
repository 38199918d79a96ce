"""Cycles of stores to lines that other cores held, after a shared prefetch and after an exclusive one (Fang et al.
2014, 5.2.3 and Figure 5).

Asked at several times of a run: a hypervisor that moves a virtual CPU to another die makes such a store several times
as long, for seconds on end, which no spread within one time shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from setebench.experiments.lines.layout import GROUP_PAGES
from setebench.experiments.lines.placing import BASELINE_ADDITIONS, SETTLE_CYCLES, Place
from setebench.machine import Facts, Ticks
from setebench.probe import Probe
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.drift import over_time
from setebench.stats.estimate import Interval
from setebench.stats.ticks.location import mean_ticks

from .answers import QUIETER, Answer
from .fills import chosen, landed
from .params import Params
from .run import Run

ADDITIONS, OWN, NONE = "additions", "own", "none"
"""Kinds beside hints: chained additions in place of the store (the baseline that time is counted from), a line that
this core wrote last, and a line that others hold and nobody prefetched."""


def one_cpu_per_core(facts: Facts, own: int) -> list[int]:
    """A CPU of every other core than the one that holds `own`."""
    return [min(cpus) for cpus in facts.siblings if own not in cpus]


class Stores:
    """What stores take, by how many other cores hold the line, by kind and by time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        facts = run.context.machine.facts
        self._own = facts.cpus[-1] if run.context.cpu is None else run.context.cpu
        self._others = one_cpu_per_core(facts, self._own)
        self._cycles: dict[int, dict[str, list[list[float]]]] = {}

    def time(self) -> None:
        """Measure at this time, after every hint that is known to fill level 1 by now, and after w: whether that does
        may only be clear later, when this time is over."""
        available = set(self._run.context.machine.facts.prefetch_hints)
        hints = sorted(set(self._wanted().values()) | {"w"} & available)
        params = self._run.params
        holders = [2**n for n in range(params.most_holders.bit_length())]
        for count in holders if hints else ():
            if count <= len(self._others) and (count == 1 or count not in self._cycles):  # several are evidence only
                rounds = self._one_holder(hints) if count == 1 else self._rounds(count, hints, params.holder_rounds)
                for kind, cycles in rounds.items():
                    self._cycles.setdefault(count, {}).setdefault(kind, []).append(cycles)

    def findings(self) -> Iterator[Finding]:
        """What all times together show."""
        facts, wanted = self._run.context.machine.facts, self._wanted()
        self._keep(wanted)
        reason = "" if self._others else "only one core is at hand: nobody else can hold the line"
        for state in ("shared", "exclusive"):
            parameter = f"software_prefetch.store_after.{state}"
            if reason or not facts.prefetch_hints or (state == "exclusive" and "w" not in facts.prefetch_hints):
                yield decide.unavailable(parameter, "cycles", reason or "this machine has no prefetch hint w")
                continue
            method = f"store and full fence after prefetch {wanted.get(state, '')} of a line that another core loaded"
            times = self._cycles.get(1, {}).get(wanted.get(state, ""), [])
            if state not in wanted or len(times) < self._run.params.least_times:
                lacking = f"no {state} prefetch was seen to fill level 1 all the time"
                yield Answer(reason=lacking).finding(parameter, "cycles", "store after a prefetch")
            else:
                yield store_latency(parameter, times, method, self._run.params)

    def _wanted(self) -> dict[str, str]:
        """By state of the line the hint that brings it to level 1 so."""
        fills = landed(self._run)  # later samples may show what the first one did not
        hints = {
            "shared": chosen({hint: each for hint, each in fills.items() if hint != "w"}, self._run.ignored),
            "exclusive": "w",
        }
        return {state: hint for state, hint in hints.items() if fills.get(hint, Answer()).value == "l1"}

    def _one_holder(self, hints: Sequence[str]) -> dict[str, list[float]]:
        """Rounds with one other core, until they are close to each other or there are enough."""
        params = self._run.params
        found = self._rounds(1, hints, params.store_rounds)
        for _ in range(params.more_rounds - 1):
            if all(close_enough(found[hint], params) for hint in hints):
                break
            more = self._rounds(1, hints, params.store_rounds)
            found = {kind: cycles + more[kind] for kind, cycles in found.items()}
        return found

    def _rounds(self, count: int, hints: Sequence[str], rounds: int) -> dict[str, list[float]]:
        run, kinds = self._run, (OWN, NONE, *hints)
        cycles: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(rounds):
            run.context.progress(f"stores to lines that {count} other cores hold, round {number + 1} of {rounds}")
            ticks = self._stores_after(self._others[:count], (ADDITIONS, *kinds))
            per_tick = run.cycles_per_tick()
            base = mean_ticks(ticks[ADDITIONS], run.step)
            for kind, found in cycles.items():
                found.append((mean_ticks(ticks[kind], run.step) - base) * per_tick + BASELINE_ADDITIONS)
        return cycles

    def _stores_after(self, others: Sequence[int], kinds: Sequence[str]) -> dict[str, Ticks]:
        """Ticks of stores to lines that all `others` have loaded, by kind: a hint that prefetches the line first, or
        one of the three kinds above. A full fence behind the store waits until it is written. Shapes (n,)."""
        context, repetitions = self._run.context, self._run.params.store_repetitions
        place = Place(context, self._run.region, "memory", 0.0)
        rng = np.random.default_rng((context.seed, context.layouts, len(others)))
        dealt = [kinds[n] for n in rng.permutation(np.arange(GROUP_PAGES) % len(kinds))]
        probe, holder = place.placed().barrier().barrier(), Probe().barrier()
        for number, kind in enumerate(dealt):
            probe = _store(probe, place, number, kind)
        for target in place.targets:  # the other cores load every line once this core has flushed them
            holder = holder.load(target)
        probes = {self._own: probe, **dict.fromkeys(others, holder.fence().barrier())}
        ticks = context.machine.run_together(probes, place.placements(repetitions + 2), warmup=2)[self._own]
        return {kind: ticks[:, [each == kind for each in dealt]].ravel() for kind in kinds}

    def _keep(self, wanted: dict[str, str]) -> None:
        if not self._cycles:
            return
        times = {
            count: {kind: [over_time(each).value for each in own] for kind, own in kinds.items()}
            for count, kinds in self._cycles.items()
        }
        self._run.context.evidence["store_after"] = {
            "hints": wanted,
            "cycles_by_holders": {
                str(count): {kind: sum(own) / len(own) for kind, own in kinds.items()} for count, kinds in times.items()
            },
            "cycles_by_time": times.get(1, {}),
        }


def _store(probe: Probe, place: Place, number: int, kind: str) -> Probe:
    target = place.targets[number]
    probe = place.ready(probe, number, 1)
    if kind == OWN:
        probe = probe.store(target)
    elif kind not in (ADDITIONS, NONE):
        probe = probe.prefetch(target, kind)
    # stores may have a TLB of their own, which no load warms: another line of the page is stored to before
    probe = place.ready(probe.wait(SETTLE_CYCLES).fence(), number, 1)
    probe = probe.store(place.warmers[number]).fence().start(number)
    probe = probe.add(BASELINE_ADDITIONS) if kind == ADDITIONS else probe.store(target)
    return probe.fence().stop(number)


def close_enough(cycles: Sequence[float], params: Params) -> bool:
    """Whether rounds of one time show a store latency well enough."""
    found = over_time(cycles)
    return found.half_width <= max(params.vague_cycles, params.vague * abs(found.value))


def store_latency(parameter: str, times: Sequence[Sequence[float]], method: str, params: Params) -> Finding:
    """The latency of a store, if it is known well enough, from cycles per round at several times, which are the epochs:
    what lies between two cores changes from one to the next, by more than rounds of one time differ."""
    means = [over_time(own).value for own in times]
    every = over_time(means)
    value, half = every.value, max(every.half_width, params.least_cycles)
    if half > max(params.vague_cycles, params.vague * abs(value)) or value < 0:
        seen = ", ".join(f"{mean:.0f}" for mean in means)
        reason = f"between {value - half:.1f} and {value + half:.1f} cycles ({seen} at {len(times)} times); {QUIETER}"
        return decide.unresolved(parameter, "cycles", reason, method)
    return decide.measured(parameter, Interval(value, value - half, value + half), "cycles", method, "store_after")

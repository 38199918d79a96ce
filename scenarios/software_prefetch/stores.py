"""Latency of stores to lines that another core holds, after a shared and after an exclusive prefetch (Fang et al. 2014,
5.2.3 and Figure 5).

It is measured at several times of a run: where a hypervisor moves a virtual CPU to another die, such a store takes
several times as long for seconds, which samples of one time don't show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from setebench.experiments.bursts.bursts import PAGE_BYTES
from setebench.probe import Base, Operand, Probe
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

from .fills import answers
from .params import Params
from .trials import QUIETER, Answer, Trials

ADDITIONS, OWN, NONE = "additions", "own", "none"
"""Kinds of stores besides the hints: dependent additions in place of the store (the baseline), a line that this core
wrote last, and a line that other cores hold and that was not prefetched."""

BASELINE_ADDITIONS, LINES = 8, 8
"""Additions of the baseline: so many that brackets can't hide any. Lines of each kind, one per page, whose stores are
timed together: a clock of 30 ticks a step is too coarse for one store of 3 cycles."""

TARGETS = Base("stored lines")


class Stores:
    """Cycles of stores to lines that another core holds: for each kind of store (after a prefetch hint, or a control) a
    list with one value per call of `time`."""

    def __init__(self, trials: Trials) -> None:
        self._trials, facts = trials, trials.context.machine.facts
        self._own = trials.context.own_cpu
        self._others = [min(cpus) for cpus in facts.siblings if self._own not in cpus]
        self._cycles: dict[str, list[float]] = {}

    def time(self) -> None:
        """Measure once more: stores after every hint that is known to fill L1, and after the hint w."""
        hints = sorted(set(self._wanted().values()) | {"w"} & set(self._trials.fills))
        if not hints or not self._others:
            return
        self._trials.context.progress("stores to lines that another core holds")
        kinds = (ADDITIONS, OWN, NONE, *hints)
        rounds = [self._stores_after(kinds) for _ in range(self._trials.params.store_rounds)]
        for kind in kinds[1:]:
            cycles = float(np.median([each[kind] - each[ADDITIONS] for each in rounds])) + BASELINE_ADDITIONS
            self._cycles.setdefault(kind, []).append(cycles)

    def findings(self) -> Iterator[Finding]:
        """Yield the latencies of stores after shared and exclusive prefetches, from all times so far."""
        wanted, hints = self._wanted(), self._trials.context.machine.facts.prefetch_hints
        if self._cycles:
            self._trials.context.evidence["store_after"] = {"hints": wanted, "cycles_by_time": self._cycles}
        reason = "" if self._others else "only one core is at hand: nobody else can hold the line"
        for state in ("shared", "exclusive"):
            parameter = f"software_prefetch.store_after.{state}"
            if reason or not hints or (state == "exclusive" and "w" not in hints):
                yield decide.unavailable(parameter, "cycles", reason or "this machine has no prefetch hint w")
                continue
            times = self._cycles.get(wanted.get(state, ""), [])
            if len(times) < 2:
                lacking = f"no {state} prefetch was seen to fill level 1 all the time"
                yield Answer(reason=lacking).finding(parameter, "cycles", "store after a prefetch")
                continue
            method = f"store and full fence after prefetch {wanted[state]} of a line that another core loaded"
            yield store_latency(parameter, times, method, self._trials.params)

    def _wanted(self) -> dict[str, str]:
        """Return the hint that brings a line into L1 in each state: shared, and exclusive."""
        first = [hint for hint, each in answers(self._trials.fills).items() if each.value == "l1"]
        shared = sorted((hint for hint in first if hint != "w"), key=lambda hint: len(set(self._trials.fills[hint])))
        return ({"shared": shared[0]} if shared else {}) | ({"exclusive": "w"} if "w" in first else {})

    def _stores_after(self, kinds: Sequence[str]) -> dict[str, float]:
        """Return mean cycles by kind of a store to a line that another core has loaded, with a fence that awaits it."""
        bursts, context = self._trials.bursts, self._trials.context
        pages, half = LINES * len(kinds), PAGE_BYTES // 2
        targets = np.array(bursts.targets(pages)).reshape(len(kinds), LINES).tolist()
        order = bursts.rng.permutation(len(kinds)).tolist()
        probe, holder = Probe(), Probe().barrier()
        for target in np.ravel(targets).tolist():
            probe, holder = probe.flush(TARGETS + target), holder.load(TARGETS + target)
        probe = bursts.settled(probe).barrier().barrier()
        for number in order:
            lines = [(TARGETS + at, TARGETS + (at ^ half)) for at in targets[number]]
            probe = self._stored(probe, lines, number, kinds[number])
        bursts.refresh()
        placed = {TARGETS: np.array([bursts.base(pages) for _ in range(bursts.params.alone_repetitions + 2)])}
        probes = {self._own: probe, self._others[0]: holder.fence().barrier()}
        ticks = context.machine.run_together(probes, placed, warmup=2)[self._own]
        times = np.asarray(ticks * bursts.cycles_per_tick, dtype=np.float64)
        return {kind: self._trials.mean(times[:, number]) / LINES for number, kind in enumerate(kinds)}

    def _stored(self, probe: Probe, lines: Sequence[tuple[Operand, Operand]], number: int, kind: str) -> Probe:
        """Append to `probe` the interval `number`, of stores to `lines`, each with another line of its page."""
        for target, warmer in lines:
            probe = probe.load(warmer).fence()
            if kind == OWN:
                probe = probe.store(target)
            elif kind not in (ADDITIONS, NONE):
                probe = probe.prefetch(target, kind)
            probe = self._trials.bursts.settled(probe)
        # stores may have a TLB of their own, which loads don't fill: store to another line of each page before
        for _, warmer in lines:
            probe = probe.store(warmer)
        probe = probe.fence().start(number)
        for target, _ in lines:
            probe = (probe.add(BASELINE_ADDITIONS) if kind == ADDITIONS else probe.store(target)).fence()
        return probe.stop(number)


def store_latency(parameter: str, cycles: Sequence[float], method: str, params: Params) -> Finding:
    """Return a store's latency from its `cycles` at several moments of the run; unresolved if they differ too much."""
    found = quantile_of_rounds(cycles, MIDDLE, (params.least_cycles, params.least_cycles))
    if found.high - found.low > 2 * max(params.vague_cycles, params.vague * abs(found.value)) or found.value < 0:
        seen = ", ".join(f"{each:.0f}" for each in cycles)
        reason = f"between {found.low:.1f} and {found.high:.1f} cycles ({seen} at {len(cycles)} times); {QUIETER}"
        return decide.unresolved(parameter, "cycles", reason, method)
    return decide.measured(parameter, found, "cycles", method, "store_after")

"""Whether a core is ours alone just now, and work done while it is.

A hypervisor may run somebody else, a tenant, on the other thread of a core, which no list of CPUs shows. While he runs,
the core gives him miss entries, part of its queues and issue slots; then one counts what is left, not what there is.
Issue slots tell: independent instructions, which take nothing but these, run slower than they ever did beside a chain
that only waits for itself and so keeps its pace. That holds for any clock rate, and asks for no right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from setebench.errors import UnsupportedError
from setebench.machine import Machine, Ticks
from setebench.probe import Probe
from setebench.scenario import Context

Result = TypeVar("Result")

NOPS, ROUNDS, RULER = 120, 100, 1000
"""No-operations in a loop (a longer one fits a cache of decoded instructions now and then only, and its pace changes
with that), its rounds, and the chained additions beside. Each takes a thousand cycles or more, of which a step of the
coarsest clock is a few percent."""

REPETITIONS, WARMUP, THREADS_WARMUP = 5, 1, 5
"""Of a look. All but the slowest count, into which an interrupt may have fallen: who mostly waits for memory slows down
some of them only. A CPU that was asleep until its thread was begun takes longer to come to pace."""

ALONE_SHARE = 0.9
"""Of the fastest pace seen. Coarse clocks blur a look by some percent. A thread that runs beside takes a quarter or
more: one instruction of its takes all slots of a cycle. One that mostly waits for memory takes less and is missed."""

LOOKS, PAUSE_CYCLES = 60, 1 << 21
"""Looks from which the fastest pace is known at first, and what lies between two: somebody who runs for some
milliseconds mustn't fill them all."""

PATIENCE, FAST_PATIENCE = 24000, 5000
"""Pauses in which a scenario waits for the other thread to stop, altogether: some ten seconds, and two with --fast."""

LITTLE_PATIENCE = 0.2
"""Share of that for what is right without, if with wider intervals."""

LOOK = Probe().start(0).repeat(ROUNDS, Probe().nop(NOPS)).stop(0).start(1).add(RULER).stop(1)
PAUSE = Probe().wait(PAUSE_CYCLES)


def watch(context: Context, cpu: int | None = None) -> None:
    """Note how fast the issue slots of a CPU's core ever are, by default the one that is measured (`Context.known`).
    The longer ago this began, the surer it is that the core was alone meanwhile, so scenarios that have no use for it
    yet call it as well."""
    cpu = context.cpu if cpu is None else cpu
    for _ in range(LOOKS):
        _look(context, (cpu,))
        context.machine.run(PAUSE, 1, cpu=cpu)


def _look(context: Context, cpus: Sequence[int | None]) -> bool:
    """Whether cores are ours alone, as far as is known; always on a machine that has no no-operations. All are looked
    at at once: then CPUs slow each other down that a hypervisor has put on one core unsaid."""
    try:
        times = _times(context.machine, cpus)
    except UnsupportedError:
        return True
    fastest = context.known.setdefault("issue_pace", {})
    free = True
    for cpu, (nops, ruler) in zip(cpus, (own.T for own in times), strict=True):
        # a chain that was held up would make the pace look faster than any that there is
        pace = float(ruler.min() / max(np.sort(nops)[-2], 1))
        fastest[cpu] = max(pace, fastest.get(cpu, 0.0))
        free = free and pace > ALONE_SHARE * fastest[cpu]
    return bool(free)


def _times(machine: Machine, cpus: Sequence[int | None]) -> list[Ticks]:
    """Of both intervals on every CPU, shape (repetitions, 2) each."""
    if len(cpus) == 1:
        return [machine.run(LOOK, REPETITIONS + WARMUP, cpu=cpus[0], warmup=WARMUP)]
    several = {cpu: LOOK for cpu in cpus if cpu is not None}
    found = machine.run_together(several, REPETITIONS + THREADS_WARMUP, warmup=THREADS_WARMUP)
    return [found[cpu] for cpu in several]


class Alone:
    """Runs work while the cores that do it are ours alone, for as long as there is patience to wait for that."""

    def __init__(self, context: Context, cpus: Iterable[int | None] = (), patience: float = 1.0) -> None:
        """The cores are those of the `cpus`, by default the one that is measured; `patience` is a share of what there
        is at most."""
        self._context, self._cpus = context, tuple(cpus) or (context.cpu,)
        self._patience = patience * (FAST_PATIENCE if context.fast else PATIENCE)
        self._runs = self._shared = 0
        self.disturbances = 0
        """How often work had to wait, or to be done again: who ran meanwhile left his lines in the caches."""
        self.lately = True
        """Whether the latest work was done while the cores were ours alone."""
        for cpu in self._cpus:
            watch(context, cpu)
        self._free: dict[tuple[int | None, ...], bool] = {}

    @property
    def shared_share(self) -> float:
        """Share of the work that was done while a core wasn't ours alone, patience being gone."""
        return self._shared / max(self._runs, 1)

    def run(
        self,
        work: Callable[[], Result],
        cpus: Iterable[int | None] = (),
        pauses: Callable[[Result], float] = lambda _: 1.0,
    ) -> Result:
        """What `work` returns, done once more where somebody else ran right before it or right after on one of the
        cores, or on those of some of the CPUs. What it gave took about as long as so many `pauses`."""
        chosen = self._one_of_each_core(tuple(cpus) or self._cpus)
        while True:
            before = self._waited(chosen)
            result = work()
            self.lately = self._looked(chosen) and before
            if self.lately or self._patience <= 0:
                self._runs += 1
                self._shared += not self.lately
                return result
            self._patience -= pauses(result)
            self.disturbances += 1

    def _one_of_each_core(self, cpus: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Threads of one core that are known as such may well slow each other down."""
        known = self._context.machine.facts.siblings if len(cpus) > 1 else ()
        core = {cpu: next((group for group in known if cpu in group), (cpu,)) for cpu in cpus}
        return tuple(cpu for number, cpu in enumerate(cpus) if not any(one in core[cpu] for one in cpus[:number]))

    def _looked(self, cpus: tuple[int | None, ...]) -> bool:
        self._free[cpus] = _look(self._context, cpus)
        return self._free[cpus]

    def _waited(self, cpus: tuple[int | None, ...]) -> bool:
        """Wait until the cores are ours alone, and say whether they are."""
        free = self._free[cpus] if cpus in self._free else self._looked(cpus)
        while not free and self._patience > 0:
            self._context.machine.run(PAUSE, 1, cpu=cpus[0])
            self._patience -= 1
            self.disturbances += 1
            free = self._looked(cpus)
        return free

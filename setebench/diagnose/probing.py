"""Probing memory latency beside a program, on a core that has nothing else to do.

Chases over lines that were flushed before, so every step is served by memory: how long it takes grows as the program
uses the memory's bandwidth up (Helm and Taura 2019, section 6: latency rises steeply where bandwidth ends). It needs no
PMU, and it says of the whole memory what counters say of one program.
"""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.memory import memory_ns
from setebench.host.tree import Tree, parse_cpu_list
from setebench.machine import open_machine
from setebench.native.perf.opened import Counters
from setebench.native.threads import allowed_cpus
from setebench.scenario import Context


@dataclass(frozen=True, kw_only=True)
class Params:
    """How memory latency is probed beside a program."""

    room_bytes: int = 4 << 20  # in which lines are drawn anew for each point
    idle_points: int = 9  # before the program begins
    idle_percent: float = 90.0  # of an idle core's time, at least: what every system does now and then is less
    idle_seconds: float = 0.5  # CPUs are observed for so long to find an idle one: 50 of the kernel's ticks


PARAMS = Params()


def idle_core() -> int:
    """A CPU whose whole core is idle, beside at least one more core for the program.

    Raises `UnsupportedError` where there is none."""
    system = Tree(Path("/"))
    before = _ticks(system)
    time.sleep(PARAMS.idle_seconds)
    passed = {cpu: ticks - before.get(cpu, ticks) for cpu, ticks in _ticks(system).items()}
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    cores = {system.value(siblings.format(cpu), parse_cpu_list) or (cpu,) for cpu in passed}
    # a CPU that sleeps without ticks counts none
    idle = {cpu for cpu, (resting, every) in passed.items() if 100 * resting >= PARAMS.idle_percent * every}
    usable = [cpu for core in cores for cpu in core if idle.issuperset(core) and cpu in allowed_cpus()]
    if len(cores) < 2 or not usable:
        raise UnsupportedError("--probe-latency needs a second core that is idle, and there is none now")
    return max(usable)  # the first ones serve most interrupts


def _ticks(tree: Tree) -> dict[int, NDArray[np.int64]]:
    """By CPU its idle ticks and all its ticks so far."""
    rows = re.findall(r"^cpu(\d+)((?: \d+){8})", tree.text("proc/stat") or "", re.MULTILINE)
    ticks = {int(cpu): np.fromstring(words, dtype=np.int64, sep=" ") for cpu, words in rows}
    return {cpu: np.array([each[3] + each[4], each.sum()]) for cpu, each in ticks.items()}


class LatencyProbe(AbstractContextManager["LatencyProbe"]):
    """Takes a point of chases at every interval (a `native.perf.program.run.Observer`): `points` are seconds and ns a
    step, `idle_ns` is what a step took before the program began. A context, at whose end the core is let go."""

    points: tuple[tuple[float, float], ...] = ()
    idle_ns: float | None = None

    def open(self, _process: int, _counters: Counters) -> None:
        """See `Observer.open`. This thread is kept on the idle core from here on only, as the program, which is a child
        of it, would be kept there as well. Raises `UnsupportedError` where no core is idle."""
        machine = open_machine("native", cpu=idle_core())
        self._context = Context(machine=machine)
        self._region = self._context.allocate(PARAMS.room_bytes, min(machine.facts.page_sizes))
        self.idle_ns = float(np.median([self.latency_ns() for _ in range(PARAMS.idle_points)]))
        self._begin = time.monotonic()

    def latency_ns(self) -> float:
        """The time of a step now, ns."""
        return memory_ns(self._context, self._region)

    def tick(self) -> None:
        """See `Observer.tick`."""
        self.points += ((time.monotonic() - self._begin, self.latency_ns()),)

    def __exit__(self, *_: object) -> None:
        if self.idle_ns is not None:
            self._context.machine.close()

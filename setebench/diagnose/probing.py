"""Probing memory latency beside a program, from a thread on a core that has nothing else to do.

A short chase over lines that were flushed before, so every step is served by memory: how long it takes grows as the
program uses the memory's bandwidth up (Helm and Taura 2019, section 6: latency rises steeply where bandwidth ends). It
needs no PMU, and it says of the whole memory what counters say of one program.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from setebench.diagnose.records import Timeline
from setebench.errors import UnsupportedError
from setebench.host.tree import Tree, parse_cpu_list
from setebench.machine import Machine
from setebench.native.threads import allowed_cpus
from setebench.probe import Base, Probe


@dataclass(frozen=True, kw_only=True)
class Params:
    """How memory latency is probed beside a program."""

    lines: int = 24  # of a chase, each in a page of its own: fewer than any first TLB has entries
    pages: int = 1024  # from which those are drawn anew for each chase
    repetitions: int = 16  # chases whose median a point is: some 0.1 ms
    idle_points: int = 9  # before the program begins
    idle_percent: float = 90.0  # of an idle core's time, at least: what every system does now and then is less
    idle_seconds: float = 0.5  # CPUs are observed for so long to find an idle one: 50 of the kernel's ticks
    most_wait_ns: int = 100_000  # for its CPU: a point that waited longer was disturbed, and is dropped


PARAMS = Params()


def idle_core(tree: Tree | None = None, seconds: float = PARAMS.idle_seconds) -> int:
    """A CPU whose whole core is idle, beside at least one more core for the program.

    Raises `UnsupportedError` where there is none."""
    system = tree or Tree(Path("/"))
    before = _ticks(system)
    time.sleep(seconds)
    after = _ticks(system)
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    cores = {system.value(siblings.format(cpu), parse_cpu_list) or (cpu,) for cpu in after}
    # a CPU that sleeps without ticks counts none
    passed = {cpu: after[cpu] - before[cpu] for cpu in after.keys() & before.keys()}
    idle = {cpu for cpu, (idle, every) in passed.items() if 100 * idle >= PARAMS.idle_percent * every}
    usable = [cpu for core in cores for cpu in core if idle.issuperset(core) and cpu in allowed_cpus()]
    if len(cores) < 2:
        raise UnsupportedError("--probe-latency needs a core beside that of the program; this machine has one")
    if not usable:
        raise UnsupportedError("--probe-latency needs an idle core, and every one has something to do; try it later")
    return max(usable)  # the first ones serve most interrupts


def _ticks(tree: Tree) -> dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """By CPU its idle ticks and all its ticks so far."""
    rows = re.findall(r"^cpu(\d+)((?: \d+){8})", tree.text("proc/stat") or "", re.MULTILINE)
    ticks = {int(cpu): [int(word) for word in words.split()] for cpu, words in rows}
    return {cpu: np.array([each[3] + each[4], sum(each)]) for cpu, each in ticks.items()}


class LatencyProbe(threading.Thread):
    """Takes a point of a chase at every interval, in a thread on the idle core."""

    def __init__(self, machine: Machine, cpu: int, interval: float) -> None:
        super().__init__(name="setebench-probe", daemon=True)
        self._machine, self._cpu, self._interval = machine, cpu, interval
        self._rng = np.random.default_rng(1)
        self._region = machine.allocate(PARAMS.pages * 4096, min(machine.facts.page_sizes))
        self._over = threading.Event()
        self._points: list[tuple[float, float]] = []
        self._dropped = 0
        first = [self.latency_ns() for _ in range(PARAMS.idle_points + 1)][1:]  # the first one stitches the code
        self.idle_ns = float(np.median(first))

    def latency_ns(self) -> float:
        """The median over `Params.repetitions` of the time of a step, ns."""
        machine, base, line = self._machine, Base("probed"), self._machine.facts.line_size
        pages = self._rng.permutation(PARAMS.pages)[: PARAMS.lines].astype(np.int64)
        offsets = pages * 4096 + self._rng.integers(0, 4096 // line, PARAMS.lines) * line
        machine.link(self._region, self._region.address + offsets)
        probe = Probe()
        for offset in offsets.tolist():  # an access first: a flush may leave the page's translation unloaded
            probe = probe.load(base + offset).flush(base + offset, machine.facts.flushes[0])
        probe = probe.fence().wait(2000).fence()
        probe = probe.start(0, dither=False).chase(base + int(offsets[0]), PARAMS.lines).stop(0)
        placements = {base: np.full(PARAMS.repetitions, self._region.address)}
        ticks = machine.run(probe, placements, cpu=self._cpu, warmup=1)
        return float(np.median(ticks[:, 0])) / PARAMS.lines / (machine.facts.ticks_per_second / 1e9)

    def run(self) -> None:
        """In a thread of its own."""
        while not self._over.wait(self._interval):
            before, begin = _waited_ns(), time.monotonic()
            latency = self.latency_ns()
            if _waited_ns() - before > PARAMS.most_wait_ns:
                self._dropped += 1
            else:
                self._points.append(((begin + time.monotonic()) / 2, latency))

    def end(self) -> None:
        """End the thread, and give back its memory."""
        self._over.set()
        self.join()
        self._machine.release(self._region)

    def added_to(self, timeline: Timeline, begin: float, end: float) -> Timeline:
        """The timeline with the points between two times of `time.monotonic`, in seconds from the first of them, and
        the latency without the program; without points with the reason."""
        points = tuple((at - begin, ns) for at, ns in self._points if begin <= at <= end)
        reason = "" if points else "the program ended before its first point"
        if self._dropped > len(points):
            points, reason = (), "the probing core was not idle for most of the run: the program used it, too"
        return msgspec.structs.replace(timeline, probed=points, idle_ns=self.idle_ns, unprobed=reason)


def _waited_ns() -> int:
    """How long the calling thread was ready and had to wait for its CPU, since it began (proc/.../schedstat)."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return 0

"""This CPU as a machine: probes are stitched from snippets and run here."""

from __future__ import annotations

import platform
import signal
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setebench.errors import ProbeError, ProbeFault, UnsupportedError, UsageError
from setebench.host import lock
from setebench.host.environment import read_environment
from setebench.loops import Policy
from setebench.machine import PrefetcherSwitch, Region, Ticks
from setebench.native import _engine
from setebench.native.facts import clock_brackets, native_facts, prefetch_hints
from setebench.native.loops.native_loops import NativeLoops
from setebench.native.memory import NativeRegion, bind, map_region
from setebench.native.perf.native_counters import NativeCounters
from setebench.native.registers.prefetchers import NativeSwitches
from setebench.native.stitching import Stitched
from setebench.native.threads import allowed_cpus, choose_cpu, pin, pinned, unpin
from setebench.probe import Kind, Placements, Probe, placement_table
from setebench.stats.ticks.clock import clock_step
from setebench.text import GIGA

KEPT_PROBES = 256
"""Stitched probes kept for the next run; each holds at least one page of memory."""

_UNCALIBRATED_DITHER_CYCLES = 256.0


class NativeMachine(NativeCounters):
    """A `Machine` on the CPU under our feet.

    The thread that opens it stays pinned to its CPU until it, or another one of that thread, is closed; every thread is
    pinned while it runs a probe. Until then no other process measures (`host.lock`)."""

    def __init__(self, cpu: int | None = None, msr: bool = False) -> None:
        """Find out what this CPU offers, and how its clock goes (about 50 ms). With `msr` its prefetchers may be
        switched off, which writes model-specific registers.

        Raises `UnsupportedError` off x86-64 Linux, `UsageError` for a CPU that this process may not use, and what
        `host.lock.acquire` raises."""
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
            raise UnsupportedError(
                f"native measures x86-64 CPUs under Linux, this is {platform.machine()}; use sim:..."
            )
        self._cpus = allowed_cpus()
        self._cpu = choose_cpu(cpu, self._cpus)
        environment = read_environment()
        self._switches = NativeSwitches(environment.cpu, environment.topology, allowed=msr)
        _engine.guard_install()
        self._open = True
        self._loops = NativeLoops(prefetch_hints())
        self._stitched = lru_cache(KEPT_PROBES)(lambda probe, together: Stitched(probe, self._bracket, together))
        self._rng = np.random.default_rng()
        self._bracket = clock_brackets()[0]
        self._dither_cycles = _UNCALIBRATED_DITHER_CYCLES
        lock.acquire()
        pin(self._cpu)
        self._thread = threading.get_native_id()
        try:
            self._calibrate()
            self.facts = native_facts(environment, self._cpus, self._cpu, self._ticks_per_second)
        except BaseException:
            self.close()
            raise

    # -- the Machine protocol ---------------------------------------------------------------------------------------

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `Machine.allocate`."""
        return map_region(size, page_size, populate)

    def bind(self, region: Region, node: int) -> bool:
        """See `setebench.machine.BindsMemory`."""
        return bind(region, node)

    def release(self, region: Region) -> None:
        """See `Machine.release`."""
        _own(region).release()

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """See `Machine.link`."""
        _own(region).link(np.asarray(addresses, dtype=np.int64))

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        return self._switches.offered(self._cpu)

    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> AbstractContextManager[None]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        for cpu in cpus:
            choose_cpu(cpu, self._cpus)
        return self._switches.off(names, cpus)

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """See `setebench.loops.RunsLoops`. Raises `UsageError` also for a distance beyond the loop's arrays."""
        with pinned(self._cpu if cpu is None else choose_cpu(cpu, self._cpus)):
            return self._loops.run(name, policies, rounds, seed)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `Machine.run`."""
        # also where the thread is pinned already: another machine may have moved it since
        with pinned(self._cpu if cpu is None else choose_cpu(cpu, self._cpus)):
            return self._run(probe, placements, warmup)

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """See `Machine.run_together`."""
        for cpu in probes:
            choose_cpu(cpu, self._cpus)
        meeting, counting = _engine.Meeting(len(probes)), self._counting

        def work(cpu: int, probe: Probe) -> Ticks:
            try:
                with pinned(cpu):
                    return self._run(probe, placements, warmup, meeting)
            except BaseException:
                meeting.abandon()
                raise

        # what can fail is tried before any thread waits for another
        if len({int((probe.rows[:, 0] == Kind.BARRIER).sum()) for probe in probes.values()}) > 1:
            raise ProbeError("probes that run together need equally many barriers, or some would wait for ever")
        for probe in probes.values():
            placement_table(probe, placements)
            self._stitched(probe, True)
        joint = counting.around_joint_run() if counting is not None else nullcontext()
        with joint, ThreadPoolExecutor(len(probes)) as threads:
            try:
                running = {cpu: threads.submit(work, cpu, probe) for cpu, probe in probes.items()}
            except RuntimeError:
                meeting.abandon()  # or those that have begun would wait for ever
                raise
        return {cpu: each.result() for cpu, each in running.items()}

    def close(self) -> None:
        """See `Machine.close`."""
        if self._open:
            self._open = False
            self._stitched.cache_clear()
            self._loops.close()
            unpin(set(self._cpus), self._thread)
            lock.release()

    # -- stitching and running --------------------------------------------------------------------------------------

    def _run(self, probe: Probe, placements: Placements, warmup: int, meeting: _engine.Meeting | None = None) -> Ticks:
        table = ~placement_table(probe, placements)  # as the driver wants them: no prefetcher can follow the rows
        stitched = self._stitched(probe, meeting is not None)
        # filled, not only reserved: a page fault while results are stored would fall into the measurement
        results = np.full((len(table), stitched.intervals), -1, dtype=np.int64)
        dither = self._dither(len(table) * stitched.dithers)
        code = stitched.address, stitched.code_bytes
        with nullcontext() if self._counting is None else self._counting.around_run(meeting is not None) as leaders:
            fault = _engine.run(*code, table, results, dither, meeting, leaders)
        if fault is not None:
            number, instruction, address = fault
            operation = stitched.operation_at(instruction)
            what = str(list(probe.operations)[operation].kind.name).lower() if operation >= 0 else ""
            raise ProbeFault(signal.Signals(number).name, operation, address, what)
        return results[warmup:]

    def _dither(self, count: int) -> NDArray[np.int32]:
        """Waits of a triangular distribution over two clock steps.

        One uniform wait over exactly one step would do, but the step in cycles drifts with the frequency; the sum of
        two leaves only the square of that error."""
        return self._rng.triangular(0.0, self._dither_cycles, 2 * self._dither_cycles, count).astype(np.int32)

    # -- the clock --------------------------------------------------------------------------------------------------

    def _calibrate(self) -> None:
        """Find the tick rate, the clock's step, and how many cycles of dither cover it."""
        begin = _clock_pair()
        began = time.perf_counter()
        waits = [self._run(Probe().start().wait(1 + n * n).stop(), 24, 4).ravel() for n in range(48)]
        self.step_ticks = clock_step(np.concatenate(waits))
        self._dither_cycles = max(self.step_ticks * self._cycles_per_tick(), 4.0)
        time.sleep(max(0.0, 0.02 - (time.perf_counter() - began)))
        end = _clock_pair()
        self._ticks_per_second = (end[0] - begin[0]) / (end[1] - begin[1]) * GIGA

    def _cycles_per_tick(self) -> float:
        """From the median of pairs of chains that are a thousand additions apart: it bears pairs that another program
        disturbed, which would make the dither hundreds of steps long or none at all, and spoil every later sample."""
        pair = Probe().start(0).add(200).stop(0).start(1).add(1200).stop(1)
        ticks = self._run(pair, 400, 8)
        return 1000.0 / max(float(np.median(ticks[:, 1] - ticks[:, 0])), 1.0)


def _clock_pair() -> tuple[int, int]:
    """Ticks and nanoseconds, read as close together as fifty attempts allow: one point to find the tick rate from."""
    tries = [(_engine.rdtsc(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), _engine.rdtsc()) for _ in range(50)]
    before, nanoseconds, after = min(tries, key=lambda each: each[2] - each[0])
    return (before + after) // 2, nanoseconds


def _own(region: Region) -> NativeRegion:
    if not isinstance(region, NativeRegion):
        raise UsageError("this region belongs to another machine")
    return region

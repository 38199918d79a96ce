"""This CPU as a machine: probes are stitched from snippets and run here."""

from __future__ import annotations

import platform
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.core import _engine
from setebench.core.memory import HUGE_PAGE, SMALL_PAGE, NativeRegion, available_bytes, map_region
from setebench.core.numa import bind, memory_nodes, node_of
from setebench.core.prefetchers import NativeSwitches
from setebench.core.threads import allowed_cpus, choose_cpu, hold, let_go, pinned
from setebench.errors import ProbeError, ProbeFault, UnsupportedError, UsageError
from setebench.host.environment import Environment, read_environment
from setebench.host.tree import Tree
from setebench.infer.clock import clock_step
from setebench.infer.ticks import mean_ticks
from setebench.kernels import KERNELS
from setebench.machine import Facts, PrefetcherSwitch, Region, Ticks
from setebench.probe import (
    ACCESS_SIZES,
    BRACKETS,
    FENCES,
    FLUSHES,
    HINTS,
    Base,
    Kind,
    Placements,
    Probe,
    placement_table,
)

KEPT_PROBES = 256
"""Stitched probes kept for the next run; each holds at least one page of memory."""

_UNCALIBRATED_DITHER_CYCLES = 256.0

_SLOW_BRACKET_SECONDS = 10e-6
"""A few instructions and a bracket take a tenth of this, unless the bracket leaves for a hypervisor."""


class BracketFigures(NamedTuple):
    """What was measured of a clock bracket, all in ticks.

    `empty_ticks`: an interval with nothing in it. `miss_ticks`: a load from memory, over the empty interval; a bracket
    that lets the load out of its interval sees less than others. `load_bias_ticks`: what it adds to a load more than to
    an addition. `hidden_ticks`: by how much the first instructions differ from the later ones.
    """

    empty_ticks: float
    miss_ticks: float
    load_bias_ticks: float
    hidden_ticks: float

    @property
    def demerit(self) -> float:
        """Bias first, then cost. (The spread of an empty interval would say nothing: on a coarse clock it is small
        where the mean happens to be a whole number of steps.)"""
        return self.load_bias_ticks + self.hidden_ticks + 0.01 * self.empty_ticks


class NativeMachine:
    """A `Machine` on the CPU under our feet.

    The thread that opens it stays pinned to its CPU until `close`; other threads are pinned while they run a probe."""

    def __init__(self, cpu: int | None = None) -> None:
        """Find out what this CPU offers and which clock bracket serves best (about 50 ms).

        Raises `UnsupportedError` off x86-64 Linux, `UsageError` for a CPU that this process may not use."""
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
            raise UnsupportedError(
                f"native measures x86-64 CPUs under Linux, this is {platform.machine()}; use sim:..."
            )
        self._cpus = allowed_cpus()
        self._cpu = choose_cpu(cpu, self._cpus)
        environment = read_environment()
        self._switches = NativeSwitches(environment.cpu, environment.topology)
        _engine.prepare(frozenset(environment.cpu.flags))
        _engine.guard_install()
        self._open = True
        self._stitched: OrderedDict[tuple[Probe, bool], _engine.Stitched] = OrderedDict()
        self._rng = np.random.default_rng()
        self._bracket = BRACKETS.index("lfence")
        self._dither_cycles = _UNCALIBRATED_DITHER_CYCLES
        self._thread = hold(self._cpu)
        try:
            self._calibrate()
            brackets = self._rank_brackets()
            self._bracket = BRACKETS.index(brackets[0])
            self.facts = _facts(environment, self._cpus, brackets, self._ticks_per_second)
        except BaseException:
            self.close()
            raise

    # -- the Machine protocol ---------------------------------------------------------------------------------------

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `Machine.allocate`."""
        return map_region(size, page_size, populate)

    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        """See `setebench.machine.BindsMemory`."""
        region = map_region(size, page_size, False)
        try:
            bind(region.address, region.size, node)
        except BaseException:
            region.release()
            raise
        return region

    def node_of(self, region: Region, offset: int) -> int | None:
        """See `setebench.machine.BindsMemory`."""
        return node_of(region.address + offset)

    def release(self, region: Region) -> None:
        """See `Machine.release`."""
        _own(region).release()

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """See `Machine.link`."""
        _own(region).link(np.asarray(addresses, dtype=np.int64))

    def read_numbers(self, region: Region, first: int = 0, count: int | None = None) -> NDArray[np.float64]:
        """See `setebench.machine.HoldsNumbers`."""
        return _own(region).numbers()[first : None if count is None else first + count].copy()

    def write_numbers(self, region: Region, numbers: NDArray[np.float64], first: int = 0) -> None:
        """See `setebench.machine.HoldsNumbers`."""
        _own(region).numbers()[first : first + len(numbers)] = numbers

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        return self._switches.offered(self._cpu)

    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> AbstractContextManager[None]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        for cpu in cpus:
            choose_cpu(cpu, self._cpus)
        return self._switches.off(names, cpus)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `Machine.run`."""
        # also where the thread is pinned already: another machine may have moved it since
        with pinned(self._cpu if cpu is None else choose_cpu(cpu, self._cpus)):
            return self._run(probe, placements, warmup, None)

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """See `Machine.run_together`."""
        for cpu in probes:
            choose_cpu(cpu, self._cpus)
        meeting = _engine.Meeting(len(probes))
        results: dict[int, Ticks] = {}
        errors: list[BaseException] = []

        def work(cpu: int, probe: Probe) -> None:
            try:
                with pinned(cpu):
                    results[cpu] = self._run(probe, placements, warmup, meeting)
            except BaseException as error:
                meeting.abandon()
                errors.append(error)

        # what can fail is tried before any thread waits for another
        if len({int((probe.rows[:, 0] == Kind.BARRIER).sum()) for probe in probes.values()}) > 1:
            raise ProbeError("probes that run together need equally many barriers, or some would wait for ever")
        for probe in probes.values():
            placement_table(probe, placements)
            self.stitch(probe, together=True)
        threads = [threading.Thread(target=work, args=item) for item in probes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def close(self) -> None:
        """See `Machine.close`."""
        if self._open:
            self._open = False
            self._stitched.clear()
            _engine.guard_remove()
            let_go(self._thread)

    # -- stitching and running --------------------------------------------------------------------------------------

    def stitch(self, probe: Probe, *, together: bool = False) -> _engine.Stitched:
        """The probe's machine code, from memory if it was stitched lately."""
        key = (probe, together)
        known = self._stitched.get(key)
        if known is not None:
            self._stitched.move_to_end(key)
            return known
        placed = [address.bits for address in probe.instruction_addresses]
        stitched = _engine.Stitched(probe.rows, len(probe.bases), probe.intervals, placed, self._bracket, together)
        self._stitched[key] = stitched
        if len(self._stitched) > KEPT_PROBES:
            self._stitched.popitem(last=False)
        return stitched

    def _run(self, probe: Probe, placements: Placements, warmup: int, meeting: _engine.Meeting | None) -> Ticks:
        table = placement_table(probe, placements)
        stitched = self.stitch(probe, together=meeting is not None)
        # filled, not only reserved: a page fault while results are stored would fall into the measurement
        results = np.full((len(table), stitched.intervals), -1, dtype=np.int64)
        fault = stitched.run(table, results, self._dither(len(table) * stitched.dithers), meeting)
        if fault is not None:
            number, operation, address = fault
            what = str(list(probe.operations)[operation].kind.name).lower() if operation >= 0 else ""
            raise ProbeFault(signal.Signals(number).name, operation, address, what)
        return results[warmup:]

    def _dither(self, count: int) -> NDArray[np.int32]:
        """Waits of a triangular distribution over two clock steps.

        One uniform wait over exactly one step would do, but the step in cycles drifts with the frequency; the sum of
        two leaves only the square of that error."""
        first, second = self._rng.random((2, count)) * self._dither_cycles
        waits: NDArray[np.int32] = (first + second).astype(np.int32)
        return waits

    # -- the clock --------------------------------------------------------------------------------------------------

    def _calibrate(self) -> None:
        """Find the tick rate, the clock's step, and how many cycles of dither cover it."""
        begin = _engine.clock_pair(50)
        began = time.perf_counter()
        waits = [self._run(Probe().start().wait(1 + n * n).stop(), 24, 4, None).ravel() for n in range(48)]
        self.step_ticks = clock_step(np.concatenate(waits))
        short, long = (self._run(Probe().start().add(n).stop(), 400, 8, None).mean() for n in (200, 1200))
        cycles_per_tick = 1000.0 / max(float(long - short), 1.0)
        self._dither_cycles = max(self.step_ticks * cycles_per_tick, 4.0)
        time.sleep(max(0.0, 0.02 - (time.perf_counter() - began)))
        end = _engine.clock_pair(50)
        self._ticks_per_second = (end[0] - begin[0]) / (end[1] - begin[1]) * 1e9

    def _rank_brackets(self) -> tuple[str, ...]:
        """Brackets that this CPU has, the best first; `bracket_figures` keeps what speaks for and against each."""
        region = map_region(SMALL_PAGE, SMALL_PAGE, True)
        names = [n for n in BRACKETS if _engine.available(f"start.{n}") and _engine.available(f"stop.{n}")]
        # in turn and several times over: one burst of a neighbour must not decide which one is used
        rounds = [
            {name: self._figures_of(name, region.address, self._hit_ticks(region)) for name in names} for _ in range(5)
        ]
        region.release()
        self.bracket_figures = {
            name: BracketFigures(*np.median([figures[name] for figures in rounds], axis=0).tolist()) for name in names
        }
        ticking = {name: figures for name, figures in self.bracket_figures.items() if name != "rdpru"}
        most = max(figures.miss_ticks for figures in ticking.values())
        complete = [name for name in ticking if ticking[name].miss_ticks > 0.8 * most]
        least = min(ticking[name].demerit for name in complete)
        best = next(name for name in _PREFERRED if name in complete and ticking[name].demerit < least + _ALIKE_TICKS)
        return (best, *(name for name in names if name != best))

    def _figures_of(self, bracket: str, address: int, hit_ticks: float) -> BracketFigures:
        """Measure one bracket with an empty interval, additions, loads that hit, and a load that misses.

        `hit_ticks` is what a load from L1 takes by a long chase."""
        placed = {_LINE: np.full(24, address)}
        began = time.perf_counter()
        self._run(_compare(bracket), placed, 4, None)
        # one that leaves for the hypervisor, even outside its interval, is not worth the time of the fine figures
        slow = time.perf_counter() - began > 24 * _COMPARED * _SLOW_BRACKET_SECONDS
        placed = {_LINE: np.full(8 if slow else 80, address)}
        compared = self._run(_compare(bracket), placed, 4, None)
        additions, hit = (mean_ticks(compared[:, n::2].ravel(), self.step_ticks) for n in (0, 1))
        empty_interval = Probe().load(_LINE).fence().start(bracket=bracket).stop(bracket=bracket)
        empty = mean_ticks(self._run(empty_interval, {_LINE: np.full(200, address)}, 8, None).ravel(), self.step_ticks)
        cold = Probe().flush(_LINE).fence().start(bracket=bracket).load(_LINE).stop(bracket=bracket)
        miss = mean_ticks(self._run(cold, {_LINE: np.full(120, address)}, 8, None).ravel(), self.step_ticks)
        around_addition = additions - _ADDITIONS * self.step_ticks / self._dither_cycles
        return BracketFigures(empty, miss - empty, abs(hit - hit_ticks - around_addition), abs(empty - around_addition))

    def _hit_ticks(self, region: NativeRegion) -> float:
        """Ticks of a load from L1, from the difference of two long chases."""
        region.link(np.array([region.address]))
        placed = {_LINE: np.full(40, region.address)}
        short, long = (
            mean_ticks(self._run(Probe().start().chase(_LINE, steps).stop(), placed, 8, None).ravel(), self.step_ticks)
            for steps in (500, 2500)
        )
        return (long - short) / 2000


_PREFERRED, _ALIKE_TICKS = ("rdtscp", "lfence", "mfence", "cpuid"), 2.0
"""Among brackets that do about as well now, the order to take them in. rdtscp waits for loads by itself; an lfence
between the timed load and the clock adds six cycles to it on some cores in some states (Zen 3, measured), and such a
state may come after the brackets were compared."""

_LINE = Base("line")
_COMPARED, _ADDITIONS = 32, 8


def _compare(bracket: str) -> Probe:
    """Intervals with additions and with a load that hits, in turn: many of them, as scenarios have them, for the code
    around an interval has a say in what it costs."""
    probe = Probe()
    for number in range(_COMPARED):
        line = _LINE + 64 * (number // 2)
        probe = probe.load(line).fence().start(number, bracket=bracket)
        probe = probe.load(line) if number % 2 else probe.add(_ADDITIONS)
        probe = probe.stop(number, bracket=bracket)
    return probe


def _own(region: Region) -> NativeRegion:
    if not isinstance(region, NativeRegion):
        raise UsageError("this region belongs to another machine")
    return region


def _facts(
    environment: Environment, cpus: tuple[int, ...], brackets: tuple[str, ...], ticks_per_second: float
) -> Facts:
    """What may be known of this CPU before measuring."""

    def has(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if _engine.available(f"{prefix}{name}"))

    return Facts(
        name=environment.cpu.name or "this CPU",
        kind="native",
        cpus=cpus,
        siblings=tuple(tuple(group) for group in environment.siblings) or tuple((cpu,) for cpu in cpus),
        ticks_per_second=ticks_per_second,
        line_size=8 * (_engine.cpuid(1)[1] >> 8 & 0xFF),
        page_sizes=(SMALL_PAGE, HUGE_PAGE) if _huge_pages_on_offer() else (SMALL_PAGE,),
        memory_bytes=available_bytes() // 2,
        brackets=brackets,
        access_sizes=tuple(size for size in ACCESS_SIZES if _engine.available(f"load{size}")),
        prefetch_hints=has("prefetch.", HINTS),
        flushes=has("flush.", FLUSHES),
        fences=has("fence.", FENCES),
        kernels=tuple(
            name for name, one in KERNELS.items() if _engine.available(f"stream.{name}{'.8' if one.accesses else ''}")
        ),
        lines_per_second=1e9 * len(cpus),
        nodes=memory_nodes(Tree(Path("/"))),
    )


def _huge_pages_on_offer() -> bool:
    """Whether 2 MiB pages can be had: asked by asking for one."""
    try:
        region = map_region(HUGE_PAGE, HUGE_PAGE, True)
    except UnsupportedError:
        return False
    region.release()
    return True

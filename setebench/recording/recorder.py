"""A machine that notes what another one answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Counting
from setebench.errors import UnsupportedError
from setebench.machine import (
    BindsMemory,
    BusyTime,
    CountsBusyTime,
    CountsCpuTime,
    Difference,
    Facts,
    Machine,
    PrefetcherSwitch,
    Region,
    SwitchesPrefetchers,
    Ticks,
    numbers_of,
)
from setebench.probe import Placements, Probe
from setebench.recording.counts import NotedEvents
from setebench.recording.document import (
    ANSWERED,
    MOST_CALLS,
    MOST_TICKS,
    REFUSED,
    Recording,
    checksum_of,
)
from setebench.recording.packing import packed


class Recorder:
    """A machine that notes what another one answers. It copies ticks between runs, never while one goes on.

    Nothing is noted from the answer on that would make the recording larger than `most_ticks`, or longer than one may
    be: inference ends there for want of an answer, where a larger file would be refused as a whole."""

    def __init__(self, machine: Machine, most_ticks: int = MOST_TICKS) -> None:
        self._machine = machine
        self._left = most_ticks
        self._calls: list[tuple[int, int, int, int]] = []
        self._ticks: list[NDArray[Any]] = []
        self._regions: list[list[int]] = []
        self._refusals: list[str] = []
        self._switches: tuple[PrefetcherSwitch, ...] | str = ()
        self._switchings: list[str] = []
        self._busy_times: list[BusyTime | None] = []
        self._cpu_times: list[tuple[float, float] | None] = []
        self._numbers = numbers_of(machine)
        self._differences: list[Difference | None] | None = None if self._numbers is None else []
        self._nodes: list[int | None] = []
        self._events = NotedEvents(machine, lambda: len(self._calls))

    @property
    def facts(self) -> Facts:
        """The machine's."""
        return self._machine.facts

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `setebench.machine.Machine.allocate`."""
        return self._allocated(size, page_size, lambda: self._machine.allocate(size, page_size, populate=populate))

    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        """See `setebench.machine.BindsMemory`."""
        return self._allocated(size, page_size, lambda: self._binding.allocate_on(size, page_size, node))

    def node_of(self, region: Region, offset: int) -> int | None:
        """See `setebench.machine.BindsMemory`."""
        node = self._binding.node_of(region, offset)
        self._nodes.append(node)
        return node

    @property
    def holds_numbers(self) -> bool:
        """See `setebench.machine.ComparesNumbers`."""
        return self._numbers is not None

    def write_numbers(self, region: Region, numbers: NDArray[np.float64], first: int = 0) -> None:
        """See `setebench.machine.ComparesNumbers`."""
        assert self._numbers is not None
        self._numbers.write_numbers(region, numbers, first)

    def first_difference(self, region: Region, expected: NDArray[np.float64], first: int = 0) -> Difference | None:
        """See `setebench.machine.ComparesNumbers`."""
        assert self._numbers is not None and self._differences is not None
        found = self._numbers.first_difference(region, expected, first)
        self._differences.append(found)
        return found

    def release(self, region: Region) -> None:
        """See `setebench.machine.Machine.release`."""
        self._machine.release(region)

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """See `setebench.machine.Machine.link`."""
        self._machine.link(region, addresses)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `setebench.machine.Machine.run`."""
        asked = checksum_of(probe, cpu, warmup)
        try:
            ticks = self._machine.run(probe, placements, cpu=cpu, warmup=warmup)
        except UnsupportedError as error:
            self._refuse(asked, error)
            raise
        self._note(asked, ticks)
        return ticks

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """See `setebench.machine.Machine.run_together`."""
        try:
            ticks = self._machine.run_together(probes, placements, warmup=warmup)
        except UnsupportedError as error:
            self._refuse(checksum_of(next(iter(probes.values())), None, warmup), error)
            raise
        for cpu, probe in probes.items():
            self._note(checksum_of(probe, cpu, warmup), ticks[cpu])
        return ticks

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        """Those of the machine, none where it never has any; see `setebench.machine.SwitchesPrefetchers`."""
        if not isinstance(self._machine, SwitchesPrefetchers):
            return ()
        try:
            found = self._switches = self._machine.prefetcher_switches()
        except UnsupportedError as error:
            self._switches = str(error)
            raise
        return found

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        assert isinstance(self._machine, SwitchesPrefetchers)
        with ExitStack() as off:
            try:
                off.enter_context(self._machine.prefetchers_off(names, cpus))
            except UnsupportedError as error:
                self._switchings.append(str(error))
                raise
            self._switchings.append("")
            yield

    def busy_time(self) -> BusyTime | None:
        """That of the machine; see `setebench.machine.CountsBusyTime`."""
        busy = self._machine.busy_time() if isinstance(self._machine, CountsBusyTime) else None
        self._busy_times.append(busy)
        return busy

    def cpu_time(self, cpu: int | None = None) -> tuple[float, float] | None:
        """That of the machine; see `setebench.machine.CountsCpuTime`."""
        spent = self._machine.cpu_time(cpu) if isinstance(self._machine, CountsCpuTime) else None
        self._cpu_times.append(spent)
        return spent

    def event_roles(self) -> dict[str, str]:
        """Those of the machine, none where it counts nothing; see `setebench.counters.protocol.CountsEvents`."""
        return self._events.event_roles()

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Those of the machine; see `setebench.counters.protocol.CountsEvents`."""
        return self._events.event_groups(roles)

    def count_events(self, roles: Sequence[str]) -> AbstractContextManager[Counting]:
        """Count as the machine does; see `setebench.counters.protocol.CountsEvents`."""
        return self._events.count_events(roles)

    def close(self) -> None:
        """The machine belongs to whoever opened it."""

    def recording(self) -> Recording:
        """Everything so far."""
        return Recording(
            facts=self.facts,
            calls=packed([np.array(self._calls, dtype=np.int64)]),
            ticks=packed(self._ticks),
            regions=self._regions,
            refusals=self._refusals,
            switches=self._switches,
            switchings=self._switchings,
            busy_times=self._busy_times,
            cpu_times=self._cpu_times,
            events=self._events.events(),
            differences=self._differences,
            nodes=self._nodes,
        )

    @property
    def _binding(self) -> BindsMemory:
        """The machine where it can choose a memory node; only those are asked that have several."""
        assert isinstance(self._machine, BindsMemory)
        return self._machine

    def _allocated(self, size: int, page_size: int, allocate: Callable[[], Region]) -> Region:
        try:
            region = allocate()
        except UnsupportedError as error:
            self._regions.append([size, page_size, -1, 0])
            self._refusals.append(str(error))
            raise
        self._regions.append([size, page_size, region.address, region.size])
        return region

    def _note(self, asked: int, ticks: Ticks) -> None:
        if ticks.size > self._left or len(self._calls) >= MOST_CALLS:
            self._left = -1
            return
        self._left -= ticks.size
        self._calls.append((asked, *ticks.shape, ANSWERED))
        # half the memory where they fit, as ticks of an interval do unless the machine was stopped
        narrow = ticks.size > 0 and ticks.min() >= -(1 << 31) and ticks.max() < 1 << 31
        self._ticks.append(np.array(ticks, dtype=np.int32 if narrow else np.int64))

    def _refuse(self, asked: int, error: UnsupportedError) -> None:
        if self._left >= 0 and len(self._calls) < MOST_CALLS:
            self._calls.append((asked, 0, 0, REFUSED))
            self._refusals.append(str(error))

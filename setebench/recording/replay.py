"""A machine that answers as a recording says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Counting
from setebench.errors import SetebenchError, UnsupportedError
from setebench.machine import BusyTime, Difference, Facts, PrefetcherSwitch, Region, Ticks
from setebench.probe import Placements, Probe, placement_table
from setebench.recording.counts import ReplayedEvents
from setebench.recording.document import ANSWERED, REFUSED, Recording, calls_and_ticks, checksum_of

_NOT_COMPARED = "a comparison of numbers in memory"


class Replay:
    """A machine that answers as a recording says, as long as it is asked the same."""

    def __init__(self, recording: Recording) -> None:
        self._facts = recording.facts
        calls, ticks = calls_and_ticks(recording)
        self._calls, self._ticks = iter(calls.tolist()), iter(ticks)
        self._regions = iter(recording.regions)
        self._refusals = iter(recording.refusals)
        self._switches = recording.switches
        self._switchings = iter(recording.switchings)
        self._busy_times = iter(recording.busy_times)
        self._cpu_times = iter(recording.cpu_times)
        self.holds_numbers = recording.differences is not None
        self._differences = iter(recording.differences or [])
        self._nodes = iter(recording.nodes)
        self._runs = 0
        self._events = ReplayedEvents(recording.events, lambda: self._runs, other_question)

    @property
    def facts(self) -> Facts:
        """Those of the recorded machine."""
        return self._facts

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """Nothing is allocated; the region has the addresses of then."""
        asked, page, address, actual = next(self._regions, [-1, -1, -1, -1])
        if (asked, page) != (size, page_size):
            raise other_question(f"memory of {size} bytes")
        if address < 0:
            raise UnsupportedError(next(self._refusals, "refused when it was recorded"))
        return Region(address, actual, page_size, self._facts.line_size)

    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        """As `allocate`."""
        return self.allocate(size, page_size)

    def node_of(self, region: Region, offset: int) -> int | None:
        """That of then; None where nobody asked."""
        return next(self._nodes, None)

    def write_numbers(self, region: Region, numbers: NDArray[np.float64], first: int = 0) -> None:
        """There is nothing to write."""

    def first_difference(self, region: Region, expected: NDArray[np.float64], first: int = 0) -> Difference | None:
        """That of then."""
        found = next(self._differences, _NOT_COMPARED)
        if isinstance(found, str):
            raise other_question(found)
        return found

    def release(self, region: Region) -> None:
        """There is nothing to release."""

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """There is nothing to link."""

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """The ticks of then."""
        return self._next(probe, placements, cpu, warmup)

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """The ticks of then, per CPU."""
        return {cpu: self._next(probe, placements, cpu, warmup) for cpu, probe in probes.items()}

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        """Those of the recorded machine, if it was asked for them."""
        if isinstance(self._switches, str):
            raise UnsupportedError(self._switches)
        return self._switches

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """Nothing is switched; it was then, or was refused."""
        refusal = next(self._switchings, None)
        if refusal is None:
            raise other_question(f"the prefetchers {', '.join(names)} switched off")
        if refusal:
            raise UnsupportedError(refusal)
        yield

    def busy_time(self) -> BusyTime | None:
        """That of then, where it was counted and asked for."""
        return next(self._busy_times, None)

    def cpu_time(self, cpu: int | None = None) -> tuple[float, float] | None:
        """That of then, where it was counted and asked for."""
        return next(self._cpu_times, None)

    def event_roles(self) -> dict[str, str]:
        """Those of the recorded machine, if it was asked for them."""
        return self._events.event_roles()

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Those of then."""
        return self._events.event_groups(roles)

    def count_events(self, roles: Sequence[str]) -> AbstractContextManager[Counting]:
        """Nothing is counted: readings are those of then."""
        return self._events.count_events(roles)

    def close(self) -> None:
        """There is nothing to close."""

    def _next(self, probe: Probe, placements: Placements, cpu: int | None, warmup: int) -> Ticks:
        asked, rows, columns, answered = next(self._calls, [-1, 0, 0, ANSWERED])
        ticks = next(self._ticks, np.empty(0, dtype=np.int64))
        self._runs += 1
        if asked != checksum_of(probe, cpu, warmup):
            raise other_question(f"the probe {probe}")
        if answered == REFUSED:
            raise UnsupportedError(next(self._refusals, "refused when it was recorded"))
        if (rows, columns) != (max(0, len(placement_table(probe, placements)) - warmup), probe.intervals):
            raise other_question(f"other repetitions of the probe {probe}")
        return ticks.reshape(rows, columns).copy()


def other_question(what: str) -> SetebenchError:
    """What is raised where a recording has no answer to `what`."""
    shown = what if len(what) < 120 else f"{what[:119]}…"
    return SetebenchError(f"the recording has no answer to {shown}: this version asks otherwise; measure again")

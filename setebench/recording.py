"""Keeping what a machine answered, so that inference can be run again later without the machine.

A `Recorder` stands before a machine and notes every answer; a `Replay` is a machine that gives the same answers to the
same calls. A scenario can't tell the difference: it draws at random from its seed, so with the same ticks it asks the
same questions. Where a newer inference asks others, the replay says so instead of guessing.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.machine import (
    BusyTime,
    CountsBusyTime,
    Facts,
    Machine,
    PrefetcherSwitch,
    Region,
    SwitchesPrefetchers,
    Ticks,
)
from setebench.packing import checked_calls, packed, unpacked
from setebench.probe import Placements, Probe, placement_table

EVIDENCE_PREFIX = "recording."
MOST_CALLS = 1 << 20

_ANSWERED, _REFUSED = 1, 0
_UNCOUNTED = "nobody counted what else this machine did"


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a result file keeps. `calls` and `ticks` are little-endian int64, compressed (zlib) and in base64.

    One row of `calls` per run: a checksum of what was asked, repetitions, intervals, and whether it was answered.
    `regions` are [asked bytes, page bytes, address, bytes] of each allocation, `refusals` why a call was refused.
    `switches` are the machine's prefetcher switches, or why they can't be used; `switchings` says of each use in turn
    why it was refused, "" if it was not. `busy_times` are the machine's answers to that question, in turn; a refusal
    is kept as none.
    """

    facts: Facts
    calls: str
    ticks: str
    regions: list[list[int]]
    refusals: list[str]
    switches: tuple[PrefetcherSwitch, ...] | str = ()
    switchings: list[str] = []
    busy_times: list[BusyTime | None] = []


def recording_of(evidence: Mapping[str, Any], scenario: str) -> Recording:
    """The recording of a scenario in a document's evidence. Raises `UsageError` for none, or a damaged one."""
    record = evidence.get(f"{EVIDENCE_PREFIX}{scenario}")
    if record is None:
        raise UsageError(f"it holds no recording of {scenario}; record one with --raw, or characterize -o FILE")
    try:
        return msgspec.convert(record, type=Recording)
    except msgspec.ValidationError as error:
        raise UsageError(f"its recording of {scenario} is damaged: {error}") from error


def without_recordings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence that people read."""
    return {name: each for name, each in evidence.items() if not name.startswith(EVIDENCE_PREFIX)}


class Recorder:
    """A machine that notes what another one answers. It copies ticks between runs, never while one goes on."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._calls: list[tuple[int, int, int, int]] = []
        self._ticks: list[NDArray[Any]] = []
        self._regions: list[list[int]] = []
        self._refusals: list[str] = []
        self._switches: tuple[PrefetcherSwitch, ...] | str = ()
        self._switchings: list[str] = []
        self._busy_times: list[BusyTime | None] = []

    @property
    def facts(self) -> Facts:
        """The machine's."""
        return self._machine.facts

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `setebench.machine.Machine.allocate`."""
        try:
            region = self._machine.allocate(size, page_size, populate=populate)
        except UnsupportedError as error:
            self._regions.append([size, page_size, -1, 0])
            self._refusals.append(str(error))
            raise
        self._regions.append([size, page_size, region.address, region.size])
        return region

    def release(self, region: Region) -> None:
        """See `setebench.machine.Machine.release`."""
        self._machine.release(region)

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """See `setebench.machine.Machine.link`."""
        self._machine.link(region, addresses)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `setebench.machine.Machine.run`."""
        asked = _checksum(probe, cpu, warmup)
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
            told = self._machine.run_together(probes, placements, warmup=warmup)
        except UnsupportedError as error:
            self._refuse(_checksum(next(iter(probes.values())), None, warmup), error)
            raise
        for cpu, probe in probes.items():
            self._note(_checksum(probe, cpu, warmup), told[cpu])
        return told

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

    def busy_time(self) -> BusyTime:
        """That of the machine; see `setebench.machine.CountsBusyTime`."""
        try:
            told = _busy_time(self._machine)
        except UnsupportedError:
            self._busy_times.append(None)
            raise
        self._busy_times.append(told)
        return told

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
        )

    def _note(self, asked: int, ticks: Ticks) -> None:
        self._calls.append((asked, *ticks.shape, _ANSWERED))
        # half the memory where they fit, as ticks of an interval do unless somebody stopped the machine
        narrow = ticks.size > 0 and ticks.min() >= -(1 << 31) and ticks.max() < 1 << 31
        self._ticks.append(np.array(ticks, dtype=np.int32 if narrow else np.int64))

    def _refuse(self, asked: int, error: UnsupportedError) -> None:
        self._calls.append((asked, 0, 0, _REFUSED))
        self._refusals.append(str(error))


class Replay:
    """A machine that answers as a recording says, as long as it is asked the same."""

    def __init__(self, recording: Recording) -> None:
        self._facts = recording.facts
        calls = checked_calls(unpacked(recording.calls, 4 * MOST_CALLS))
        sizes = calls[:, 1] * calls[:, 2]
        ticks = unpacked(recording.ticks, int(sizes.sum()))
        if len(ticks) != sizes.sum() or any(len(region) != 4 for region in recording.regions):
            raise UsageError("the recording is damaged: its parts don't fit together")
        self._calls = iter(calls.tolist())
        self._ticks = iter(np.split(ticks, np.cumsum(sizes)[:-1]) if len(calls) else [])
        self._regions = iter(recording.regions)
        self._refusals = iter(recording.refusals)
        self._switches = recording.switches
        self._switchings = iter(recording.switchings)
        self._busy_times = iter(recording.busy_times)

    @property
    def facts(self) -> Facts:
        """Those of the recorded machine."""
        return self._facts

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """Nothing is allocated; the region has the addresses of then."""
        asked, page, address, actual = next(self._regions, [-1, -1, -1, -1])
        if (asked, page) != (size, page_size):
            raise _other_question(f"memory of {size} bytes")
        if address < 0:
            raise UnsupportedError(next(self._refusals, "refused when it was recorded"))
        return Region(address, actual, page_size, self._facts.line_size)

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
            raise _other_question(f"the prefetchers {', '.join(names)} switched off")
        if refusal:
            raise UnsupportedError(refusal)
        yield

    def busy_time(self) -> BusyTime:
        """That of then, where it was counted and asked for."""
        told = next(self._busy_times, None)
        if told is None:
            raise UnsupportedError(_UNCOUNTED)
        return told

    def close(self) -> None:
        """There is nothing to close."""

    def _next(self, probe: Probe, placements: Placements, cpu: int | None, warmup: int) -> Ticks:
        asked, rows, columns, answered = next(self._calls, [-1, 0, 0, _ANSWERED])
        ticks = next(self._ticks, np.empty(0, dtype=np.int64))
        if asked != _checksum(probe, cpu, warmup):
            raise _other_question(f"the probe {probe}")
        if answered == _REFUSED:
            raise UnsupportedError(next(self._refusals, "refused when it was recorded"))
        if (rows, columns) != (max(0, len(placement_table(probe, placements)) - warmup), probe.intervals):
            raise _other_question(f"other repetitions of the probe {probe}")
        return ticks.reshape(rows, columns).copy()


def _busy_time(machine: Machine) -> BusyTime:
    if not isinstance(machine, CountsBusyTime):
        raise UnsupportedError(_UNCOUNTED)
    return machine.busy_time()


def _other_question(what: str) -> SetebenchError:
    shown = what if len(what) < 120 else f"{what[:119]}…"
    return SetebenchError(f"the recording has no answer to {shown}: this version asks otherwise; measure again")


def _checksum(probe: Probe, cpu: int | None, warmup: int) -> int:
    """A number that tells probes apart. Addresses are left out: those follow from the seed and the regions."""
    head = f"{cpu} {warmup} {[base.name for base in probe.bases]}".encode()
    return zlib.crc32(np.ascontiguousarray(probe.rows).tobytes(), zlib.crc32(head))

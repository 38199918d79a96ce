"""What a result file keeps of a machine's answers: written, found in a document's evidence, and checked."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.loops.records import Loop
from setebench.machine import BusyTime, Difference, Facts, PrefetcherSwitch, Ticks
from setebench.probe import Probe
from setebench.recording.claims import check_facts, check_regions
from setebench.recording.counts import Events
from setebench.recording.packing import unpacked

EVIDENCE_PREFIX = "recording."
MOST_CALLS = 1 << 20
"""Runs of one recording."""
MOST_TICKS = 1 << 26
"""Ticks of one recording that are kept and unpacked: half a gigabyte, twice what the longest scenario answers on a CPU
of today. What a machine answers beyond is not kept, and a file that claims more is refused."""

ANSWERED, REFUSED = 1, 0


class LoopAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a machine that runs loops answered to one question, or why it refused."""

    asked: str
    names: tuple[str, ...] = ()
    loop: Loop | None = None
    ticks: list[list[int]] = []
    refusal: str = ""


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a result file keeps. `calls` and `ticks` are little-endian int64, compressed (bzip2) and in base64.

    One row of `calls` per run: a checksum of what was asked, repetitions, intervals, and whether it was answered.
    `regions` are [asked bytes, page bytes, address, bytes] of each allocation, `refusals` why a call was refused.
    `switches` are the machine's prefetcher switches, or why they can't be used; `switchings` says of each use in turn
    why it was refused, "" if it was not. `busy_times` and `cpu_times` are the machine's answers to these questions,
    in turn. `events` are what was counted. `differences` are what comparisons of numbers in memory found, in turn; none
    where it held none, or the version that recorded didn't ask. `nodes` are where pages lay, in turn. `loops` are the
    answers of a machine that runs loops.
    """

    facts: Facts
    calls: str
    ticks: str
    regions: list[list[int]]
    refusals: list[str]
    switches: tuple[PrefetcherSwitch, ...] | str = ()
    switchings: list[str] = []
    busy_times: list[BusyTime | None] = []
    cpu_times: list[tuple[float, float] | None] = []
    events: Events = Events()
    differences: list[Difference | None] | None = None
    nodes: list[int | None] = []
    loops: list[LoopAnswer] | None = None


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


def calls_and_ticks(recording: Recording) -> tuple[NDArray[np.int64], list[Ticks]]:
    """The rows of `Recording.calls`, shape (runs, 4), and the ticks of every run one after the other, shape
    (repetitions times intervals,) each. Raises `UsageError` for a damaged recording."""
    check_facts(recording.facts)
    check_regions(recording.regions)
    calls = _checked_calls(unpacked(recording.calls, 4 * MOST_CALLS))
    sizes = calls[:, 1] * calls[:, 2]
    ticks = unpacked(recording.ticks, int(sizes.sum()))
    if len(ticks) != sizes.sum():
        raise UsageError("the recording is damaged: its parts don't fit together")
    return calls, np.split(ticks, np.cumsum(sizes)[:-1]) if len(calls) else []


def _checked_calls(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of four numbers each. Raises `UsageError` where they claim what no recording holds."""
    if len(numbers) % 4:
        raise UsageError("the recording is damaged: its list of runs is cut short")
    calls = numbers.reshape(-1, 4)
    shapes = calls[:, 1:3]
    # each factor is checked before they are multiplied, and each product before they are summed: no overflow
    possible = ((shapes >= 0) & (shapes <= MOST_TICKS)).all() and (shapes.prod(axis=1) <= MOST_TICKS).all()
    if not possible or shapes.prod(axis=1).sum() > MOST_TICKS:
        raise UsageError("the recording is damaged: its runs are of impossible size")
    return calls


def checksum_of(probe: Probe, cpu: int | None, warmup: int) -> int:
    """A number that identifies a probe. Addresses are left out: those follow from the seed and the regions."""
    head = f"{cpu} {warmup} {[base.name for base in probe.bases]}".encode()
    return zlib.crc32(np.ascontiguousarray(probe.rows).tobytes(), zlib.crc32(head))

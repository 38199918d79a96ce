"""What a result file keeps of a machine's answers: written, found in a document's evidence, and checked. What is read
is not trusted: a scenario takes memory in proportion to what a machine claims of itself."""

from __future__ import annotations

import base64
import bz2
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.machine import Facts

EVIDENCE_PREFIX = "recording."
MOST_TICKS = 1 << 26  # half a gigabyte, twice what the longest scenario answers on a CPU of today
MOST_JOURNAL_BYTES = 1 << 25  # unpacked; a call takes some thirty
MOST_JOURNAL_VALUES = 1 << 23
MOST_MEMORY_BYTES = 1 << 46  # 64 TiB, what the largest servers of today hold
MOST_CPUS = 1 << 13  # what Linux is built for at most
MOST_LINE_BYTES, MOST_PAGE_BYTES = 1 << 12, 1 << 34  # powers of two above any that an architecture has had


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A call of a machine's method: its name, a checksum of what was asked, and the answer, or why it was refused. Of
    runs the answer is the shape of the ticks."""

    method: str
    asked: int
    answer: Any = None
    refusal: str | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a result file keeps, compressed (bzip2) and in base64: the `journal` of calls (`Call`, as JSON) in their
    order, and the `ticks` of all runs in sequence, as little-endian int64. `capabilities` are the optional methods that
    the machine has."""

    facts: Facts
    capabilities: tuple[str, ...]
    journal: str
    ticks: str


def recording_of(evidence: Mapping[str, Any], scenario: str) -> Recording:
    """The recording of a scenario in a document's evidence. Raises `UsageError` for none, or a damaged one."""
    record = evidence.get(f"{EVIDENCE_PREFIX}{scenario}")
    if record is None:
        raise UsageError(f"it holds no recording of {scenario}; record one with --raw, or characterize -o FILE")
    if isinstance(record, dict) and "calls" in record:
        raise UsageError(f"its recording of {scenario} is of an earlier version, which asked otherwise; measure again")
    try:
        return msgspec.convert(record, type=Recording)
    except msgspec.ValidationError as error:
        raise UsageError(f"its recording of {scenario} is damaged: {error}") from error


def without_recordings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence that people read."""
    return {name: each for name, each in evidence.items() if not name.startswith(EVIDENCE_PREFIX)}


def packed(parts: Iterable[bytes]) -> str:
    """All parts, one after the other; they are never all in memory at their full width."""
    stream = bz2.BZ2Compressor()
    compressed = [stream.compress(part) for part in parts]
    return base64.b64encode(b"".join([*compressed, stream.flush()])).decode()


def _unpacked(text: str, most: int) -> bytes:
    try:
        stream = bz2.BZ2Decompressor()
        data = stream.decompress(base64.b64decode(text, validate=True), most + 1)
    except (ValueError, OSError, MemoryError) as error:
        raise damaged(str(error)) from error
    if len(data) > most or not stream.eof:
        raise damaged("it is cut short or too long")
    return data


def damaged(why: str) -> UsageError:
    """What is raised for a recording that no recorder wrote."""
    return UsageError(f"the recording is damaged: {why}")


def journal_and_ticks(recording: Recording) -> tuple[list[Call], NDArray[np.int64]]:
    """The calls, and the ticks of all runs, shape (n,). Raises `UsageError` for a damaged recording."""
    _check_facts(recording.facts)
    text = _unpacked(recording.journal, MOST_JOURNAL_BYTES)
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_JOURNAL_VALUES:
        raise damaged("its journal is too long")
    try:
        journal = msgspec.json.decode(text, type=list[Call])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(str(error)) from error
    ticks = _unpacked(recording.ticks, 8 * MOST_TICKS)
    if len(ticks) % 8:
        raise damaged("its ticks are cut short")
    return journal, np.frombuffer(ticks, dtype="<i8").astype(np.int64, copy=False)


def _check_facts(facts: Facts) -> None:
    sizes = [(facts.line_size, MOST_LINE_BYTES), *((size, MOST_PAGE_BYTES) for size in facts.page_sizes)]
    cpus = max(len(facts.cpus), sum(map(len, facts.siblings)), len(facts.nodes))
    possible = (
        all(0 < size <= most and not size & (size - 1) for size, most in sizes)
        and 0 < len(facts.cpus) <= cpus <= MOST_CPUS
        and 0 <= facts.memory_bytes <= MOST_MEMORY_BYTES
        and all(math.isfinite(rate) and rate > 0 for rate in (facts.ticks_per_second, facts.lines_per_second))
    )
    if not possible:
        raise damaged("its machine is impossible")

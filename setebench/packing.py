"""Many integers as text of a file, and back: compressed (zlib), in base64. What is read is not trusted."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError

MOST_TICKS = 1 << 25
"""Ticks of one recording that are unpacked: a quarter of a gigabyte, thirty times what the longest scenario answers on
a CPU of today. A file that claims more is refused."""


def checked_calls(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of `recording.Recording.calls`, of four numbers each.

    Raises `UsageError` where they claim what no recording holds."""
    if len(numbers) % 4:
        raise UsageError("the recording is damaged: its list of runs is cut short")
    calls = numbers.reshape(-1, 4)
    shapes = calls[:, 1:3]
    # each factor is checked before they are multiplied, and each product before they are summed: no overflow
    possible = ((shapes >= 0) & (shapes <= MOST_TICKS)).all() and (shapes.prod(axis=1) <= MOST_TICKS).all()
    if not possible or shapes.prod(axis=1).sum() > MOST_TICKS:
        raise UsageError("the recording is damaged: its runs are of impossible size")
    return calls


def packed(parts: Iterable[NDArray[Any]]) -> str:
    """All numbers of `parts`, one after the other; they are never all in memory at their full width."""
    stream = zlib.compressobj()
    parts_packed = [stream.compress(part.astype("<i8").tobytes()) for part in parts]
    return base64.b64encode(b"".join([*parts_packed, stream.flush()])).decode()


def unpacked(text: str, most: int) -> NDArray[np.int64]:
    """The numbers in `text`, at most `most` of them. Raises `UsageError` for anything else."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(text, validate=True), 8 * most + 8)
    except (ValueError, zlib.error, MemoryError) as error:
        raise UsageError(f"the recording is damaged: {error}") from error
    if len(data) > 8 * most or len(data) % 8 or not stream.eof:
        raise UsageError("the recording is damaged: it is cut short or too long")
    return np.frombuffer(data, dtype="<i8").astype(np.int64, copy=False)

"""Many integers as text of a file, and back: compressed (bzip2, which takes a third less than zlib for ticks, as fast),
in base64. What is read is not trusted."""

from __future__ import annotations

import base64
import bz2
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError


def packed(parts: Iterable[NDArray[Any]]) -> str:
    """All numbers of `parts`, one after the other; they are never all in memory at their full width."""
    stream = bz2.BZ2Compressor()
    parts_packed = [stream.compress(part.astype("<i8").tobytes()) for part in parts]
    return base64.b64encode(b"".join([*parts_packed, stream.flush()])).decode()


def unpacked(text: str, most: int) -> NDArray[np.int64]:
    """The numbers in `text`, at most `most` of them. Raises `UsageError` for anything else."""
    try:
        raw = base64.b64decode(text, validate=True)
        stream = bz2.BZ2Decompressor() if raw.startswith(b"BZh") else zlib.decompressobj()  # zlib: of earlier versions
        data = stream.decompress(raw, 8 * most + 8)
    except (ValueError, OSError, zlib.error, MemoryError) as error:
        raise UsageError(f"the recording is damaged: {error}") from error
    if len(data) > 8 * most or len(data) % 8 or not stream.eof:
        raise UsageError("the recording is damaged: it is cut short or too long")
    return np.frombuffer(data, dtype="<i8").astype(np.int64, copy=False)

"""Files that a user names, read: regular ones alone, since a pipe or a device may never end, or do something."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from setebench.text import in_bytes

MOST_BYTES = 256 << 20
"""Of a file that is read as a whole."""


def opened(path: str | Path) -> BinaryIO:
    """A regular file, to read. Raises `OSError`, also for what is no regular file: nothing else is opened."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a null character in the name
        raise OSError(errno.EINVAL, str(error)) from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file; write what it gives to one first")
    return open(path, "rb")


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """All of a regular file of at most so many bytes. Raises `OSError`."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {in_bytes(most)}")
    return data

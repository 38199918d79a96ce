"""Names of functions and variables from symbol tables of ELF files (System V ABI, chapter 4; 64-bit, little endian).

A file without a table of its own may have one kept apart, found by the identifier of its build. Damaged files have no
names; nothing is raised for them.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from math import inf
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench import files

DEBUG_FILES = Path("/usr/lib/debug/.build-id")
MOST_DEBUG_BYTES = 4 << 30
"""Where distributions keep symbol tables of stripped files, by the identifier of the build."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)

_SYMTAB, _NOTES, _DYNSYM = 2, 7, 11
"""Types of sections."""
_LOAD = 1
"""The type of segments that are mapped."""
_FUNCTIONS = (2, 10)
"""Types of symbols that are code: functions, and those that are chosen when the program starts."""
_VARIABLES = (1,)
"""Types of symbols that are data."""
_BUILD_ID = 3
"""The type of the note that holds the identifier of the build."""
_MOST_SYMBOLS = 1 << 23
"""Of a table that is read: more than any program has, so that a damaged file takes no more than some seconds."""


Table = tuple[NDArray[np.uint64], NDArray[np.uint64], list[str]]
"""Symbols sorted by address: begins, ends, names."""


class Segment(msgspec.Struct, frozen=True):
    """A part of the file that is mapped: from which offset, how many bytes, to which address, and how many bytes it has
    in memory, those that begin as zeros included."""

    offset: int
    size: int
    address: int
    memory_size: int


class Symbols:
    """Functions and variables of one ELF file by the file offset of their code, or of where that would be."""

    def __init__(self, segments: tuple[Segment, ...], functions: Table, variables: Table) -> None:
        self._segments = segments
        self._functions, self._variables = (
            (begin.tolist(), end.tolist(), of) for begin, end, of in (functions, variables)
        )

    def address(self, offset: int) -> int | None:
        """The address that the file gives to the byte at a file offset; None where it is not mapped."""
        for segment in self._segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return offset - segment.offset + segment.address
        return None

    def name(self, offset: int) -> str | None:
        """The function whose code holds the byte at a file offset; None where no symbol does."""
        address = self.address(offset)
        return None if address is None else _named(self._functions, address)

    def variable(self, offset: int) -> str | None:
        """The variable that holds the byte at a file offset, or behind the file's own bytes of a segment, where those
        are that begin as zeros; None where no symbol does."""
        for segment in reversed(self._segments):
            if segment.offset <= offset < segment.offset + segment.memory_size:
                return _named(self._variables, offset - segment.offset + segment.address)
        return None


def _named(table: tuple[Sequence[int], Sequence[float], Sequence[str]], address: int) -> str | None:
    starts, ends, names = table
    number = bisect_right(starts, address) - 1
    return names[number] if number >= 0 and address < ends[number] else None


@lru_cache(maxsize=256)
def symbols(path: str, inode: int = 0) -> Symbols | None:
    """The symbols of a file; None where it is no ELF file that can be read, or another one than the program has mapped,
    whose inode is given."""
    with (
        suppress(OSError, ValueError, struct.error),
        files.opened(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        found = os.fstat(file.fileno())
        replaced = inode not in (0, found.st_ino) and found.st_ctime > _BEGUN
        return None if replaced else _read(data)
    return None


_BEGUN = time.time()
"""Before anything was observed. A file that has not changed since was not replaced, whatever its inode is called: file
systems that lie over others have two numbers for a file."""


Data = bytes | mmap.mmap


def _read(data: Data) -> Symbols:
    header = _HEADER.unpack_from(data, 0)
    if header[0][:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    segments = tuple(_segments(data, header))
    functions, variables = (_table_of(data, header, types) for types in (_FUNCTIONS, _VARIABLES))
    return Symbols(segments, functions, variables)


def _table_of(data: Data, header: tuple[int, ...], types: tuple[int, ...]) -> Table:
    """Symbols of these types, of the file itself or kept apart; none where there is no table."""
    table = _table(data, header, types)
    if table is None:
        table = _table_kept_apart(data, header, types)
    return table if table is not None else (np.empty(0, "<u8"), np.empty(0, "<u8"), [])


def _segments(data: Data, header: tuple[int, ...]) -> Iterator[Segment]:
    at, size, count = header[5], header[9], header[10]
    for number in range(count):
        kind, _flags, offset, address, _, file_size, memory_size, _ = _SEGMENT.unpack_from(data, at + number * size)
        if kind == _LOAD:
            yield Segment(offset, file_size, address, memory_size)


def _sections(data: Data, header: tuple[int, ...]) -> list[tuple[int, ...]]:
    at, size, count = header[6], header[11], header[12]
    return [_SECTION.unpack_from(data, at + number * size) for number in range(count)]


def _table(data: Data, header: tuple[int, ...], types: tuple[int, ...]) -> Table | None:
    """Symbols sorted by address: begin, end, names; the whole table, or else that of dynamic linking."""
    sections = _sections(data, header)
    for wanted in (_SYMTAB, _DYNSYM):
        for section in sections:
            if section[1] == wanted and section[6] < len(sections):
                found = _symbols(data, section, sections[section[6]], types)
                if found is not None and (wanted == _SYMTAB or not _has_build_id(data, sections)):
                    return found
    return None


def _symbols(data: Data, section: tuple[int, ...], names: tuple[int, ...], types: tuple[int, ...]) -> Table | None:
    offset, size = section[4], section[5]
    count = min(size // _SYMBOL.itemsize, _MOST_SYMBOLS)
    table = np.frombuffer(data, _SYMBOL, count, offset).copy()
    table = table[np.isin(table["info"] & 15, types) & (table["section"] != 0)]
    if not len(table):
        return None
    table = table[np.argsort(table["at"], kind="stable")]
    starts = table["at"]
    # a symbol without a size reaches to the next
    after = np.append(starts[1:], starts[-1] + np.uint64(1))
    ends = np.where(table["size"] > 0, starts + table["size"], after)
    texts = bytes(data[names[4] : names[4] + names[5]])
    return starts, ends, [_text(texts, at) for at in table["name"].tolist()]


def _text(texts: bytes, at: int) -> str:
    end = texts.find(b"\0", at)
    raw = texts[at:end] if 0 <= at < len(texts) and end >= 0 else b""
    return raw.decode("utf-8", "replace").partition("@")[0]


# -- tables kept apart --------------------------------------------------------------------------------------------


def _has_build_id(data: Data, sections: list[tuple[int, ...]]) -> bool:
    """Whether the file names a table that is kept apart and there."""
    path = _debug_file(data, sections)
    return path is not None and path.exists()


def _table_kept_apart(data: Data, header: tuple[int, ...], types: tuple[int, ...]) -> Table | None:
    path = _debug_file(data, _sections(data, header))
    if path is None:
        return None
    with suppress(OSError, ValueError, struct.error):
        apart = files.read_bytes(path, MOST_DEBUG_BYTES)
        return _table(apart, _HEADER.unpack_from(apart, 0), types)
    return None


def _debug_file(data: Data, sections: list[tuple[int, ...]]) -> Path | None:
    for section in sections:
        if section[1] == _NOTES:
            with suppress(struct.error):
                name_bytes, size, kind = _NOTE.unpack_from(data, section[4])
                at = section[4] + _NOTE.size + -(-name_bytes // 4) * 4
                if kind == _BUILD_ID and 2 <= size <= 64:
                    text = bytes(data[at : at + size]).hex()
                    return DEBUG_FILES / text[:2] / f"{text[2:]}.debug"
    return None


# -- the kernel, and code that a program writes itself ------------------------------------------------------------


class Listed:
    """Names from a list of begins, sizes (0: to the next one) and names: the kernel's own, or those of the code that a
    program wrote. Of two that begin alike the later one holds: code that was written over the earlier one's."""

    def __init__(self, entries: list[tuple[int, int, str]]) -> None:
        starts, sizes, names = zip(*sorted(entries, key=lambda entry: entry[0]), strict=True)
        self._table = starts, [start + (size or inf) for start, size in zip(starts, sizes, strict=True)], names

    def name(self, address: int) -> str | None:
        """The name at an address; None where there is none."""
        return _named(self._table, address)


def kernel_symbols(path: str = "/proc/kallsyms") -> Listed | None:
    """The kernel's functions; None where it hides their addresses from this user."""
    entries = []
    with suppress(OSError, ValueError), open(path, encoding="ascii", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if words[1] in "tTwW" and (address := int(words[0], 16)):
                entries.append((address, 0, words[2]))
    return Listed(entries) if entries else None


def written_code(process: int, folder: str = "/tmp") -> Listed | None:
    """Names of the code that a process wrote itself (Python with -X perf, V8, Java agents), where it lists them as
    programs for Linux do: perf-PID.map, lines of begin, size and name. Other lines are passed over. Only a file of the
    same user, or of root, is taken: anybody may write to that folder."""
    path = f"{folder}/perf-{process}.map"
    entries = []
    with suppress(OSError), files.opened(path) as lines:
        if os.fstat(lines.fileno()).st_uid not in (0, os.getuid()):
            return None
        for line in lines:
            with suppress(ValueError):
                start, size, name = line.decode(errors="replace").rstrip("\n").split(maxsplit=2)
                entries.append((int(start, 16), int(size, 16), name))
    return Listed(entries) if entries else None

"""Names of functions from symbol tables of ELF files, of the kernel, and of code that a program wrote itself.

A file without a table of its own may have one kept apart, found by the identifier of its build. Damaged files have no
names; nothing is raised for them.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from setebench import files

DEBUG_FILES = Path("/usr/lib/debug/.build-id")
"""Where distributions keep symbol tables of stripped files, by the identifier of the build."""

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_FUNCTIONS = (2, 10)
"""Types of symbols that are code: functions, and those that are chosen when the program starts."""
_BEGUN = time.time()
"""Before anything was observed. A file that has not changed since was not replaced, whatever its inode is called: file
systems that lie over others have two numbers for a file."""


class Names:
    """Names of stretches of addresses; of two that begin alike the later one holds."""

    def __init__(self, starts: Sequence[int], ends: Sequence[int], names: Sequence[str]) -> None:
        """Sorted by their begins."""
        self._starts, self._ends, self._names = starts, ends, names

    def at(self, address: int) -> str | None:
        """The name of the stretch that holds an address; None where none does."""
        number = bisect_right(self._starts, address) - 1
        return self._names[number] if number >= 0 and address < self._ends[number] else None


class Symbols:
    """Functions of one ELF file by the file offset of their code."""

    def __init__(self, elf: ELFFile) -> None:
        segments = elf.iter_segments("PT_LOAD")
        self._segments = [(each["p_offset"], each["p_filesz"], each["p_vaddr"]) for each in segments]
        self._names = _table(elf, ".symtab") or _kept_apart(elf) or _table(elf, ".dynsym") or Names((), (), ())

    def address(self, offset: int) -> int | None:
        """The address that the file gives to the byte at a file offset; None where it is not mapped."""
        return next((at - begin + offset for begin, size, at in self._segments if 0 <= offset - begin < size), None)

    def name(self, offset: int) -> str | None:
        """The function whose code holds the byte at a file offset; None where no symbol does."""
        address = self.address(offset)
        return None if address is None else self._names.at(address)


@lru_cache(maxsize=256)
def symbols(path: str, inode: int = 0) -> Symbols | None:
    """The symbols of a file; None where it is no ELF file that can be read, or another one than the program has mapped,
    whose inode is given."""
    try:
        with files.opened(path) as file:
            found = os.fstat(file.fileno())
            replaced = inode not in (0, found.st_ino) and found.st_ctime > _BEGUN
            return None if replaced else Symbols(ELFFile(file))
    except Exception:  # whatever a parser stumbles over in a damaged file of a stranger: it has no names
        return None


def _table(elf: ELFFile, section: str) -> Names | None:
    """Functions of one symbol table, read at once as libraries have hundreds of thousands."""
    found = elf.get_section_by_name(section)
    if found is None:
        return None
    data = found.data()
    table = np.frombuffer(data, _SYMBOL, len(data) // _SYMBOL.itemsize)
    table = table[np.isin(table["info"] & 15, _FUNCTIONS) & (table["section"] != 0)]
    if not len(table):
        return None
    table = table[np.argsort(table["at"], kind="stable")]
    starts = table["at"]
    after = np.append(starts[1:], starts[-1] + np.uint64(1))  # a symbol without a size reaches to the next
    ends = np.where(table["size"] > 0, starts + table["size"], after)
    texts = elf.get_section(found["sh_link"]).data()
    names = [texts[at : texts.find(b"\0", at)].decode("utf-8", "replace") for at in table["name"].tolist()]
    return Names(starts.tolist(), ends.tolist(), [name.partition("@")[0] for name in names])


def _kept_apart(elf: ELFFile) -> Names | None:
    notes = elf.get_section_by_name(".note.gnu.build-id")
    for note in notes.iter_notes() if isinstance(notes, NoteSection) else ():
        identifier = str(note["n_desc"])
        with suppress(OSError), files.opened(DEBUG_FILES / identifier[:2] / f"{identifier[2:]}.debug") as file:
            return _table(ELFFile(file), ".symtab")
    return None


def written_code(process: int, folder: str = "/tmp") -> Names | None:
    """Names of the code that a process wrote itself (Python with -X perf, V8, Java agents), where it lists them as
    programs for Linux do: perf-PID.map, lines of begin, size and name. Other lines are passed over. Only a file of the
    same user, or of root, is taken: anybody may write to that folder."""
    entries = []
    with suppress(OSError), files.opened(f"{folder}/perf-{process}.map") as lines:
        if os.fstat(lines.fileno()).st_uid not in (0, os.getuid()):
            return None
        for line in lines:
            with suppress(ValueError):
                start, size, name = line.decode(errors="replace").rstrip("\n").split(maxsplit=2)
                entries.append((int(start, 16), int(start, 16) + int(size, 16), name))
    entries.sort(key=lambda entry: entry[0])
    return Names(*zip(*entries, strict=True)) if entries else None

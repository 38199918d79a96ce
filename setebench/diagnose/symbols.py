"""Names of functions from symbol tables of ELF files and of code that a program wrote itself, and source lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from setebench import files

ADDR2LINE_SECONDS = 20.0
"""For one file: large debug information takes seconds to be read."""
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_FUNCTIONS = (2, 10)
"""Types of symbols that are code: functions, and those that are chosen when the program starts."""

At = tuple[str, int]
"""Path of a file that a program has mapped, and an offset in it."""


class Names:
    """Names of stretches of addresses (begin, end, name); of two that begin alike the later one holds."""

    def __init__(self, stretches: Iterable[tuple[int, int, str]]) -> None:
        self._stretches = sorted(stretches, key=lambda each: each[0])

    def at(self, address: int) -> str | None:
        """The name of the stretch that holds an address; None where none does."""
        number = bisect_right(self._stretches, address, key=lambda each: each[0]) - 1
        _, end, name = self._stretches[number] if number >= 0 else (0, 0, None)
        return name if address < end else None


class Symbols:
    """Functions of one ELF file by the file offset of their code."""

    def __init__(self, elf: ELFFile) -> None:
        segments = elf.iter_segments("PT_LOAD")
        self._segments = [(each["p_offset"], each["p_filesz"], each["p_vaddr"]) for each in segments]
        self._names = Names(_table(elf, ".symtab") or _table(elf, ".dynsym"))

    def address(self, offset: int) -> int | None:
        """The address that the file gives to the byte at a file offset; None where it is not mapped."""
        return next((at - begin + offset for begin, size, at in self._segments if 0 <= offset - begin < size), None)

    def name(self, offset: int) -> str | None:
        """The function whose code holds the byte at a file offset; None where no symbol does."""
        address = self.address(offset)
        return None if address is None else self._names.at(address)


@lru_cache(maxsize=256)
def symbols(path: str) -> Symbols | None:
    """The symbols of a file; None where it is no ELF file that can be read."""
    try:
        with files.opened(path) as file:
            return Symbols(ELFFile(file))
    except Exception:  # whatever a parser stumbles over in a damaged file of a stranger: it has no names
        return None


def _table(elf: ELFFile, section: str) -> list[tuple[int, int, str]]:
    """Functions of one symbol table, decoded at once as libraries have hundreds of thousands."""
    found = elf.get_section_by_name(section)
    data = b"" if found is None else found.data()
    table = np.frombuffer(data, _SYMBOL, len(data) // _SYMBOL.itemsize)
    table = table[np.isin(table["info"] & 15, _FUNCTIONS) & (table["section"] != 0)]
    texts = b"" if found is None else elf.get_section(found["sh_link"]).data()
    names = (texts[at : texts.find(b"\0", at)].decode("utf-8", "replace").partition("@")[0] for at in table["name"])
    ends = table["at"] + np.maximum(table["size"], 1)
    return list(zip(table["at"].tolist(), ends.tolist(), names, strict=True))


def written_code(process: int) -> Names:
    """Names of the code that a process wrote itself (Python with -X perf, V8, Java agents), where it lists them as
    programs for Linux do: perf-PID.map, lines of begin, size and name. Other lines are ignored. Only a file of the
    same user, or of root, is taken: anybody may write to that folder."""
    entries = []
    with suppress(OSError), files.opened(f"/tmp/perf-{process}.map") as lines:
        for line in lines if os.fstat(lines.fileno()).st_uid in (0, os.getuid()) else ():
            with suppress(ValueError):
                start, size, name = line.decode(errors="replace").rstrip("\n").split(maxsplit=2)
                entries.append((int(start, 16), int(start, 16) + int(size, 16), name))
    return Names(entries)


def source_lines(wanted: Iterable[At]) -> dict[At, str]:
    """Lines as "file.c:12", from debug information by binutils' `addr2line`; nothing where the program is not
    installed, or a file has no such information."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for path, offset in wanted:
        by_file[path].append(offset)
    tool = shutil.which("addr2line")
    return {
        (path, offset): line
        for path, offsets in (by_file if tool else {}).items()
        for offset, line in _lines_of(str(tool), path, offsets)
        if line
    }


def _lines_of(tool: str, path: str, offsets: Sequence[int]) -> list[tuple[int, str]]:
    table = symbols(path)
    known = [(at, address) for at in offsets if table is not None and (address := table.address(at)) is not None]
    wanted = "".join(f"{address:#x}\n" for _, address in known)
    command = [tool, "-e", path]
    try:
        done = subprocess.run(
            command, input=wanted, capture_output=True, text=True, timeout=ADDR2LINE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    answers = done.stdout.splitlines()
    return [(at, _line(answer)) for (at, _), answer in zip(known, answers, strict=False)]


def _line(answer: str) -> str:
    """ "file.c:12" of "/long/path/file.c:12 (discriminator 3)"; empty where a part is not known."""
    file, _, number = answer.partition(" (")[0].rpartition(":")
    return f"{Path(file).name}:{number}" if number.isdigit() and number != "0" and not file.startswith("??") else ""

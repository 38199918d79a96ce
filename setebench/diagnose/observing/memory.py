"""What a process has mapped, from the kernel's records and from /proc."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress

import msgspec


class Mapping(msgspec.Struct, frozen=True, order=True):
    """A part of a file in a process's memory: from which address to which, and from which offset of the file. `inode`
    identifies the file that was mapped; 0 where it is not known."""

    start: int
    end: int
    offset: int
    path: str
    inode: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it is of a file; the kernel calls other memory "", "[...]" or "//anon"."""
        return self.path.startswith("/") and not self.path.startswith("//")


class Memory:
    """What a process has mapped. A later mapping hides what it overlaps of earlier ones."""

    def __init__(self, mappings: Iterable[Mapping] = ()) -> None:
        self._mappings = sorted(mappings)

    def copy(self) -> Memory:
        """That of a process that was forked from this one."""
        return Memory(self._mappings)

    def add(self, new: Mapping) -> None:
        """One more mapping."""
        kept = []
        for old in self._mappings:
            if old.start < new.start < old.end or old.start < new.end < old.end:
                kept += _rest(old, new)
            elif not new.start <= old.start < new.end:
                kept.append(old)
        self._mappings = sorted([*kept, new])

    def find(self, address: int) -> Mapping | None:
        """The mapping that holds an address."""
        number = bisect_right(self._mappings, address, key=lambda each: each.start) - 1
        found = self._mappings[number] if number >= 0 else None
        return found if found is not None and address < found.end else None


def _rest(old: Mapping, new: Mapping) -> list[Mapping]:
    """What a new mapping leaves of one that it overlaps."""
    rest = []
    if old.start < new.start:
        rest.append(msgspec.structs.replace(old, end=new.start))
    if new.end < old.end:
        rest.append(msgspec.structs.replace(old, start=new.end, offset=old.offset + new.end - old.start))
    return rest


def mapped_now(process: int) -> Memory:
    """What a running process has mapped, as /proc says; nothing where it has ended."""
    found = []
    with suppress(OSError, ValueError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = [*line.rstrip("\n").split(maxsplit=5), ""]
            start, _, end = words[0].partition("-")
            found.append(Mapping(int(start, 16), int(end, 16), int(words[2], 16), words[5], int(words[4])))
    return Memory(found)

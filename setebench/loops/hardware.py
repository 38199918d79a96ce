"""Hardware prefetchers in the model of queues: which lines of a stream they ask for, from what was found of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from setebench.loops.records import LINE_BYTES, Loop

PAGE_LINES = 4096 // LINE_BYTES
REGULAR = ("sequential", "strided")


@dataclass(frozen=True, slots=True)
class Watched:
    """An access as prefetchers of a level see it."""

    level: int
    stream: int
    line: int
    missed: bool
    cause: str


@dataclass(frozen=True, slots=True)
class _Prefetcher:
    """One prefetcher: its number, kind, what trains it, the level that gets its lines, and what else was found."""

    index: int
    kind: str
    causes: frozenset[str]
    fills: str
    own: dict[str, Any]


def _prefetcher(index: int, name: str, own: dict[str, Any]) -> _Prefetcher:
    level, _, kind = name.partition(".")
    causes = frozenset(own.get("trained_by", ("load",)))
    return _Prefetcher(index, kind, causes, str(own.get("fills", level)), own)


class Hardware:
    """All prefetchers of a machine, watching a loop's streams."""

    def __init__(self, found: tuple[tuple[str, dict[str, Any]], ...], loop: Loop) -> None:
        regular = [number for number, stream in enumerate(loop.streams) if stream.pattern in REGULAR]
        self._regular = frozenset(regular)
        self._strides = [
            max(1, abs(stream.stride_bytes) // LINE_BYTES) if stream.pattern == "strided" else 1
            for stream in loop.streams
        ]
        self._down = [stream.stride_bytes < 0 for stream in loop.streams]
        self._by_level: dict[int, list[_Prefetcher]] = {}
        for index, (name, own) in enumerate(found):
            if own.get("streams") is None or own["streams"] >= len(regular):
                self._by_level.setdefault(int(name[1]), []).append(_prefetcher(index, name, own))
        self.levels = frozenset(self._by_level)
        self._seen: dict[tuple[int, int, int], int] = {}
        self._next: dict[tuple[int, int, int], int] = {}

    def asked(self, seen: Watched) -> list[tuple[int, str]]:
        """Lines that prefetchers ask for because of an access, with the level that gets each; a negative line is one
        that nobody will use."""
        lines: list[tuple[int, str]] = []
        for each in self._by_level.get(seen.level, ()):
            if seen.cause in each.causes:
                lines += [(line, each.fills) for line in self._of(each, seen)]
        return lines

    def _of(self, each: _Prefetcher, seen: Watched) -> list[int]:
        if each.kind in ("pair", "next_line", "up_down"):
            return self._neighbour(each.kind, seen)
        if seen.stream not in self._regular:
            return []
        if each.kind == "stride":
            return self._stride(each.index, each.own, seen)
        return self._stream(each.index, each.own, seen) if each.kind == "stream" else []

    def _neighbour(self, kind: str, seen: Watched) -> list[int]:
        """The line beside one that missed."""
        if not seen.missed:
            return []
        if seen.stream not in self._regular or self._strides[seen.stream] > 1:
            return [-1 - seen.line]
        target = seen.line ^ 1 if kind == "pair" else seen.line + 1
        return [target] if target // PAGE_LINES == seen.line // PAGE_LINES else []

    def _stride(self, index: int, own: dict[str, Any], seen: Watched) -> list[int]:
        step = self._strides[seen.stream]
        if step * LINE_BYTES > own.get("max_stride", 2048):
            return []
        key = (index, seen.stream, 0)
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] < own.get("trigger", 3):
            return []
        crosses = own.get("crosses_4k") or own.get("crosses_4k_in_2m")
        ahead = [seen.line + k * step for k in range(1, int(own.get("max_distance", 1)) + 1)]
        return [line for line in ahead if crosses or line // PAGE_LINES == seen.line // PAGE_LINES]

    def _stream(self, index: int, own: dict[str, Any], seen: Watched) -> list[int]:
        """Batches of `degree` lines up to `max_distance` ahead, in a page where enough accesses missed."""
        page = seen.line // PAGE_LINES
        key = (index, seen.stream, page)
        following = self._next.get(key)
        if following is None or seen.line >= following:
            if not seen.missed:
                return []
            self._seen[key] = self._seen.get(key, 0) + 1
            edges = own.get("trigger_at_page_edge")
            needed = edges[0] if edges and seen.line % PAGE_LINES == 0 else own.get("trigger", 3)
            if self._seen[key] < needed:
                return []
            following = seen.line + 1
        reach = int(own.get("max_distance", 1))
        if following - seen.line >= reach:
            self._next[key] = following
            return []
        end = following + int(own.get("degree", 1))
        self._next[key] = end
        crosses = own.get("crosses_4k") or own.get("crosses_4k_in_2m")
        if crosses:
            self._next[index, seen.stream, page + 1] = end
        return [line for line in range(following, end) if crosses or line // PAGE_LINES == page]

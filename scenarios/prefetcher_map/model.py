"""Prefetchers as rules: which lines come after some accesses, by the rules of the families that have a name.

Lines of two pages are bits of a number. Everything arrives at once, and no table is too small: what a curve shows is
held against this, and where a curve shows something else, no rule here is its rule. Streams after Fang et al. 2014
(5.3.2) and Intel's optimization manual (248966), strides after Baer and Chen 1991.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PAGE_BYTES = 1 << 12
Rules = Mapping[str, Any]
"""Parameters of one prefetcher."""

Model = Mapping[str, Rules]
"""The prefetchers of a machine by identity (`l1.stride`)."""

BY_PREFETCHER = "l1_prefetcher"
"""Whether requests of level 1's prefetchers train one of level 2; 2: a stream follows the first of them."""
REQUEST = -1
"""The instruction of such a request."""


def without(model: Model, name: str) -> dict[str, Rules]:
    """The other prefetchers of a model."""
    return {other: rules for other, rules in model.items() if other != name}


class Step(NamedTuple):
    """One load: its line (from the page's beginning), byte and instruction."""

    line: int
    byte: int
    ip: int


@dataclass
class Prefetcher(ABC):
    """One prefetcher that has seen nothing of a page yet: `seen` is shown an access and returns the lines it wants."""

    rules: Rules
    page_lines: int
    state: dict[Any, Any] = field(default_factory=dict)

    @abstractmethod
    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        """Lines that it asks for; `misses`: its level has not got the line."""

    def reaches(self, line: int, target: int) -> bool:
        """Whether it may go from a line to another."""
        within = line // self.page_lines == target // self.page_lines
        return target >= 0 and (within or bool(self.rules.get("crosses_4k")))


class NextLine(Prefetcher):
    """The next `degree` lines, at the `trigger`th access to one line."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        if self.rules["only_misses"] and not misses:
            return ()
        trigger, line = self.rules["trigger"], step.line
        self.state[line] = self.state.get(line, 0) + 1
        ahead = range(line + 1, line + 1 + self.rules["degree"] * (trigger in (1, self.state[line])))
        return [target for target in ahead if self.reaches(line, target)]


class Pair(Prefetcher):
    """The other line of an aligned pair."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        return (step.line ^ 1,) if misses else ()


class UpDown(Prefetcher):
    """One neighbour of a line that misses, the way the page's accesses went last."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        page = step.line // self.page_lines
        last, way = self.state.get(page, (step.line, 1))
        if step.line != last:
            way = 1 if step.line > last else -1
        self.state[page] = step.line, way
        return (step.line + way,) if misses and self.reaches(step.line, step.line + way) else ()


class Stride(Prefetcher):
    """Equal distances between accesses that share a key: further strides, `degree` an access, up to a distance."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        rules, by = self.rules, self.rules["indexed_by"]
        key = (step.ip if "ip" in by else None, step.line // self.page_lines if "page" in by else None)
        size = PAGE_BYTES // self.page_lines
        last, stride, run, ahead = self.state.get(key, (step.byte, 0, 1, 0))
        now = step.byte - last
        if now:
            run, ahead = (run + 1, max(ahead - 1, 0)) if now == stride else (2, 0)
        way = "up" if now > 0 else "down"
        fits = abs(now) >= max(rules["min_stride"] * size, 1) and rules["directions"] in (way, "both")
        wanted: list[int] = []
        for _ in range(rules["degree"] if fits and run >= rules["trigger"] else 0):
            target = (step.byte + (ahead + 1) * now) // size
            if ahead >= rules["max_distance"] or not self.reaches(step.line, target):
                break
            ahead += 1
            wanted.append(target)
        self.state[key] = step.byte, now or stride, run, ahead
        return wanted


class Stream(Prefetcher):
    """Streams, one a page. With each line comes the one that lies `far` lines further on, where there is such a rule:
    Intel's server cores bring some lines to level 2, and those beyond to the last level."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        page = step.line // self.page_lines
        if page not in self.state:
            self.state[page] = PageStream(self.rules, self.page_lines)
        stream = self.state[page]
        wanted, further = list(stream.seen(step, misses)), self.rules["far"] * stream.way
        return wanted + [line + further for line in wanted if further and self.reaches(line, line + further)]


class PageStream(Prefetcher):
    """Lines ahead of misses of a page that go one way (or, `counts` distinct, of so many lines in any order)."""

    def __init__(self, rules: Rules, page_lines: int) -> None:
        super().__init__(rules, page_lines)
        self.way = self.count = self.next = self.first = self.batches = 0
        self.last = -1
        self.active = False
        self.lines: set[int] = set()

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        line = step.line
        if self.rules["counts"] == "distinct":
            return self._any_order(line, misses)
        if self.active and (line - self.first) * self.way >= 0 and (self.next - line) * self.way > 0:
            forward = (line - self.last) * self.way > 0
            if forward or not misses:
                if forward:
                    self.last = line
                return () if self.rules["leads_by"] == "new_line" and not forward else self._batch(line)
        if not misses:
            return ()
        at_once = step.ip == REQUEST and self.rules[BY_PREFETCHER] == 2
        if self.last < 0 or self.active:
            at = line % self.page_lines  # at a page's ends only one way is possible
            self.way = 1 if at_once else (at == 0) - (at == self.page_lines - 1)
            self.count, self.last, self.active = 1, line, False
        elif line != self.last:
            way = 1 if line > self.last else -1
            self.count = self.count + 1 if self.way in (0, way) else 2
            self.way, self.last = way, line
        starts = self.way and (at_once or self.count >= self.rules["trigger"])
        if not starts or self.rules["directions"] not in ("up" if self.way > 0 else "down", "both"):
            return ()
        self.active, self.batches, self.last = True, 0, line
        self.first = self.next = line + self.way
        return self._batch(line)

    def _batch(self, line: int) -> Iterable[int]:
        rules, most = self.rules, self.rules["max_distance"]
        if rules["leads_by"] == "batch":
            if (self.next - line) * self.way >= most:
                return ()
            most = sys.maxsize
        ramp = rules["ramp"]
        self.batches += 1
        return self._more(line, ramp[self.batches - 1] if self.batches <= len(ramp) else rules["degree"], most)

    def _more(self, line: int, size: int, most: int) -> list[int]:
        """The next lines, so many of them, as far as they lie no more than `most` lines ahead."""
        wanted: list[int] = []
        while len(wanted) < size and (self.next - line) * self.way <= most:
            if not self.reaches(self.next - self.way, self.next):
                break
            wanted.append(self.next)
            self.next += self.way
        return wanted

    def _any_order(self, line: int, misses: bool) -> Iterable[int]:
        """Distinct lines count; beyond the furthest, `degree` more come with each new one."""
        if line in self.lines or not (misses or self.active):
            return ()
        self.lines.add(line)
        if len(self.lines) < self.rules["trigger"]:
            return ()
        if not self.active:
            ordered = max(self.lines) == line or min(self.lines) != line
            self.way = 1 if ordered else -1
            if self.rules["directions"] not in ("up" if self.way > 0 else "down", "both"):
                return ()
            self.active, self.next = True, line + self.way
        furthest = max if self.way > 0 else min
        self.next = furthest(self.next, furthest(self.lines) + self.way)
        return self._more(line, self.rules["degree"], self.rules["max_distance"])


KINDS: dict[str, type[Prefetcher]] = {
    "next_line": NextLine, "pair": Pair, "up_down": UpDown, "stride": Stride, "stream": Stream,
}  # fmt: skip


def play(model: Model, steps: Iterable[Step], page_lines: int, held: int = 0) -> list[tuple[int, int]]:
    """Lines in level 1, and in any level, as bits, after each access; `held`: lines of level 2 before. Level 2 sees
    which line is loaded, not where in it; lines that its prefetchers bring to level 3 still miss level 2."""
    inner, outer = (
        [(KINDS[name[3:]](rules, page_lines), rules) for name, rules in model.items() if name[1] == level]
        for level in "12"
    )
    first, second, further, after, size = 0, held, 0, [], PAGE_BYTES // page_lines
    for step in steps:
        bit, requests = 1 << step.line, []
        misses = not first & bit
        probed = [(line, rules["fills"] == "l1") for each, rules in inner for line in each.seen(step, misses)]
        if misses:
            requests.append(Step(step.line, step.line * size, step.ip))
        first |= bit
        for line, to_first in probed:
            if not first >> line & 1:
                first |= to_first << line
                requests.append(Step(line, line * size, REQUEST))
        for request in requests:
            bit = 1 << request.line
            misses = not second & bit
            second |= bit
            for each, rules in outer:
                if request.ip != REQUEST or rules[BY_PREFETCHER]:
                    for line in each.seen(request, misses):
                        second |= (rules["fills"] == "l2") << line
                        further |= 1 << line
        after.append((first, first | second | further))
    return after

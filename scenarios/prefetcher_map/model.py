"""A model of prefetchers: which lines of a page are prefetched after some accesses, by the rules of known families.

The lines of two pages are the bits of an integer. Prefetches arrive at once, and tables have room for everything: where
a curve deviates from this model, no rule here explains it. Streams follow Fang et al. 2014 (5.3.2) and Intel's
optimization manual (248966), strides Baer and Chen 1991.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PAGE_BYTES = 1 << 12
Rules = Mapping[str, Any]
"""Parameters of one prefetcher by name, such as its trigger (accesses) and its degree (lines at once)."""

Model = Mapping[str, Rules]
"""Rules of all prefetchers of a machine, by level and family (such as `l1.stride`)."""

BY_PREFETCHER = "l1_prefetcher"
"""Rule of L2 prefetchers: 1 if requests of L1's prefetchers train it, 2 if the first one starts a stream, else 0."""
REQUEST = -1
"""Instruction number that stands for a request of an L1 prefetcher."""


def without(model: Model, name: str) -> dict[str, Rules]:
    """Return the model without the prefetcher `name`."""
    return {other: rules for other, rules in model.items() if other != name}


class Step(NamedTuple):
    """One load: its `line` and its `byte`, counted from the page's begin, and its instruction's number (`ip`)."""

    line: int
    byte: int
    ip: int


@dataclass
class Prefetcher(ABC):
    """One prefetcher and its `state`, which begins empty. `seen` is called for each access in turn."""

    rules: Rules
    page_lines: int
    state: dict[Any, Any] = field(default_factory=dict)

    @abstractmethod
    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        """Return the lines to prefetch after the access `step`; `misses` says that its cache lacked the line."""

    def reaches(self, line: int, target: int) -> bool:
        """Whether a prefetch may go from a line to `target`: within its page, or beyond if the rules allow it."""
        within = line // self.page_lines == target // self.page_lines
        return target >= 0 and (within or bool(self.rules.get("crosses_4k")))


class NextLine(Prefetcher):
    """Prefetches the next `degree` lines at the `trigger`-th access to a line."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        if self.rules["only_misses"] and not misses:
            return ()
        trigger, line = self.rules["trigger"], step.line
        self.state[line] = self.state.get(line, 0) + 1
        ahead = range(line + 1, line + 1 + self.rules["degree"] * (trigger in (1, self.state[line])))
        return [target for target in ahead if self.reaches(line, target)]


class Pair(Prefetcher):
    """Prefetches the other line of an aligned pair of lines, on a miss."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        return (step.line ^ 1,) if misses else ()


class UpDown(Prefetcher):
    """Prefetches one neighbour of a line that misses, in the direction of the page's latest accesses."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        page = step.line // self.page_lines
        last, way = self.state.get(page, (step.line, 1))
        if step.line != last:
            way = 1 if step.line > last else -1
        self.state[page] = step.line, way
        return (step.line + way,) if misses and self.reaches(step.line, step.line + way) else ()


class Stride(Prefetcher):
    """Prefetches `degree` more strides per access, up to a distance (or the line at that distance alone), once
    `trigger` accesses with one key (their instruction, page or both) were equally far apart."""

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
        ahead = rules["max_distance"] - 1 if rules.get("alone") else ahead
        for _ in range(rules["degree"] if fits and run >= rules["trigger"] else 0):
            target = (step.byte + (ahead + 1) * now) // size
            if ahead >= rules["max_distance"] or not self.reaches(step.line, target):
                break
            ahead += 1
            wanted.append(target)
        self.state[key] = step.byte, now or stride, run, ahead
        return wanted


class Stream(Prefetcher):
    """Prefetches ahead of streams, one per page (`PageStream`). If `far` is set, each line comes with the one `far`
    lines beyond: Intel's server cores load some lines into L2, and those beyond into the last level."""

    def seen(self, step: Step, misses: bool) -> Iterable[int]:
        page = step.line // self.page_lines
        if page not in self.state:
            self.state[page] = PageStream(self.rules, self.page_lines)
        stream = self.state[page]
        wanted, further = list(stream.seen(step, misses)), self.rules["far"] * stream.way
        return wanted + [line + further for line in wanted if further and self.reaches(line, line + further)]


class PageStream(Prefetcher):
    """Prefetches ahead of the stream in one page. It begins after `trigger` misses in one direction or, if `counts` is
    "distinct", after misses of so many different lines in any order."""

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
            at = line % self.page_lines  # at a page's ends only one direction is possible
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
        """Return the next lines of the stream, `size` at most, and none more than `most` lines ahead."""
        wanted: list[int] = []
        while len(wanted) < size and (self.next - line) * self.way <= most:
            if not self.reaches(self.next - self.way, self.next):
                break
            wanted.append(self.next)
            self.next += self.way
        return wanted

    def _any_order(self, line: int, misses: bool) -> Iterable[int]:
        """Return lines for a stream that counts distinct lines: `degree` beyond the furthest at each new one."""
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


Requests = list[tuple[int, list[Step]]]
"""For each access the lines in L1 after it, as bits, and the requests that L2 gets by it."""


def play(model: Model, steps: Iterable[Step], page_lines: int, held: int = 0) -> list[tuple[int, int]]:
    """Return, as bits, the lines in L1 and those in any cache after each of `steps`, by prefetchers of `model`. `held`
    are lines in L2 before. L2 is trained by line numbers; lines that its prefetchers load into L3 still miss L2."""
    return play_outer(model, play_inner(model, steps, page_lines), page_lines, held)


def _of_level(model: Model, level: str, page_lines: int) -> list[tuple[Prefetcher, Rules]]:
    return [(KINDS[name[3:]](rules, page_lines), rules) for name, rules in model.items() if name[1] == level]


def play_inner(model: Model, steps: Iterable[Step], page_lines: int) -> Requests:
    """Return what the loads `steps` and L1's prefetchers in `model` load into L1, and what they request from L2."""
    inner, size = _of_level(model, "1", page_lines), PAGE_BYTES // page_lines
    first, after = 0, []
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
        after.append((first, requests))
    return after


def play_outer(model: Model, inner: Requests, page_lines: int, held: int = 0) -> list[tuple[int, int]]:
    """Return the same as `play` (arguments as there), from what L1 loads and requests (`inner`)."""
    outer = _of_level(model, "2", page_lines)
    second, further, after = held, 0, []
    for first, requests in inner:
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

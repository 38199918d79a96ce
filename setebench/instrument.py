"""Counting from within a Python program: `counting` what a block does, and marking a `region` that
`setebench counters stat` counts apart.

    with setebench.counting("page_fault", "task_clock") as counted:
        solve()
    print(counted["page_fault"].value)

    with setebench.region("solve"):
        solve()
"""

from __future__ import annotations

from contextlib import ContextDecorator

from setebench.counters.counted import total
from setebench.counters.protocol import Count
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Flag
from setebench.native.perf.encode import Resolver
from setebench.native.perf.opened import Counters

NOTHING_YET = "nothing was counted yet"


class counting(ContextDecorator):
    """Count events of the calling thread while a block, or a function, runs.

    `names`: roles (`setebench counters list`) and events as the kernel writes them. `threads`: also the threads and
    processes that the calling thread starts within, and what these start.

    What can't be counted has a `Count` without a value and with a reason; nothing is ever scaled. The counts of an
    object, which is for one thread at a time, add up over all blocks that it is used for; a block within a block of the
    same object counts once. Raises `UsageError` for names that are neither roles nor events."""

    def __init__(self, *names: str, threads: bool = False) -> None:
        resolver = Resolver()
        self._wanted, self._situation = resolver.named(names), resolver.situation
        self._flags = Flag.INHERIT * threads
        self._done = {each.name: Count(role=each.name, reason=NOTHING_YET) for each in self._wanted}
        self._counters: Counters | None = None
        self._depth = 0

    def __enter__(self) -> counting:
        if not self._depth:
            self._counters = Counters(self._wanted, self._situation, flags=self._flags)
            self._counters.begin()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth and self._counters is not None:
            with self._counters as counters:
                counters.switch(False)
                self._done = self.read()
            self._counters = None

    def read(self) -> dict[str, Count]:
        """Counts by name so far: of every block that is over, and of one that isn't."""
        now = {} if self._counters is None else self._counters.read()
        before = {name: count for name, count in self._done.items() if count.reason != NOTHING_YET}
        return self._done | {n: total((before[n], count)) if n in before else count for n, count in now.items()}

    def __getitem__(self, name: str) -> Count:
        return self.read()[name]


class region(ContextDecorator):
    """What the calling thread does in this block, or function, is counted apart under `name` by
    `setebench counters stat -- PROGRAM`. Elsewhere it costs less than a microsecond.

    Regions may nest, overlap and be entered again from within. Names are compared up to 95 bytes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> region:
        _perf.region_begin(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        _perf.region_end(self._name)

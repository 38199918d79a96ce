"""Diagnosing a function of Python: `setebench.diagnose(function, ...)`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from setebench.counters.counted import Interval, Run, difference
from setebench.counters.protocol import Count
from setebench.diagnose.document import Frame, diagnosed
from setebench.diagnose.observing.observe import Kit, timeline_of
from setebench.diagnose.observing.time_samples import TimeSampling
from setebench.diagnose.observing.turns import Turns
from setebench.diagnose.records import Timeline
from setebench.diagnose.run import Options, basis_of, native_kit, settings, this_machine
from setebench.native.perf.program.opened import Counters, Target, open_counters
from setebench.native.perf.program.run import Beside
from setebench.native.perf.program.watch import threads_of
from setebench.results import Document


def diagnose(
    function: Callable[..., Any], /, *arguments: Any, options: Options | None = None, **keywords: Any
) -> Document:
    """Call `function` with these arguments and say what limits it, as `setebench diagnose` says of a program.

    Counted are all threads that this process has, and those that they start meanwhile. What the function raises is
    raised, and nothing is said then."""
    chosen = options or Options()
    read_by = basis_of(chosen)
    frame = Frame(machine=this_machine(), settings=settings(chosen), started=datetime.now(UTC))
    name = getattr(function, "__qualname__", repr(function))
    timeline = observe_function(native_kit(), chosen, lambda: function(*arguments, **keywords), name)
    return diagnosed(timeline, read_by, frame)


def observe_function(kit: Kit, options: Options, call: Callable[[], Any], name: str) -> Timeline:
    """The timeline of one call. Raises what it raises."""
    reader = _Reader(options.wish.interval)  # before the threads are listed that are counted: it is none of them
    reader.start()
    threads = tuple(thread for thread in threads_of(os.getpid()) if thread != reader.native_id)
    try:
        with (
            open_counters(kit.wanted, Target(threads=threads, inherit=True), kit.kernel, kit.situation) as counters,
            TimeSampling(kit.kernel, options.wish, attached=True, pmus=kit.situation.pmus) as sampling,
        ):
            sampling.open_threads(os.getpid(), threads, (threading.get_native_id(),))
            turns = Turns(kit.kernel, kit.sets)
            turns.open(os.getpid(), counters)
            reader.begin(counters, (sampling, turns))
            call()
            run = reader.end()
            return timeline_of(kit, run, sampling, (name,))
    finally:
        reader.leave()


class _Reader(threading.Thread):
    """Reads the counters at the end of every interval, while the function runs in the thread that called."""

    def __init__(self, interval: float) -> None:
        super().__init__(name="setebench-diagnose", daemon=True)
        self._interval = interval
        self._begun, self._over = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._counters: Counters | None = None
        self._rows: list[Interval] = []
        self._before: dict[str, Count] = {}
        self._last = 0.0

    def begin(self, counters: Counters, beside: Sequence[Beside]) -> None:
        """The function is called right after this."""
        self._counters, self._beside = counters, beside
        self._begin = time.monotonic()
        counters.start()
        self._begun.set()

    def run(self) -> None:
        """In a thread of its own."""
        self._begun.wait()
        while not self._over.wait(self._interval):
            self._read()

    def _read(self) -> None:
        with self._lock:
            if self._counters is None:
                return
            now, counts = time.monotonic() - self._begin, self._counters.read()
            row = {name: difference(count, self._before.get(name)) for name, count in counts.items()}
            self._rows.append(Interval(begin=self._last, end=now, counts=row))
            self._last, self._before = now, counts
            for each in self._beside:
                each.tick(now)

    def end(self) -> Run:
        """The function has returned: what was counted of it."""
        self._read()
        return Run(
            elapsed=self._last, status=None, signal=None, asked=0, counts=self._before, intervals=list(self._rows)
        )

    def leave(self) -> None:
        """End the thread."""
        with self._lock:
            self._counters = None
        self._over.set()
        self._begun.set()
        self.join()

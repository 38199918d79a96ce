"""Diagnosing a function of Python: `setebench.diagnose(function, ...)`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from setebench.counters.counted import Run
from setebench.diagnose.observing.observe import Kit, timeline_of
from setebench.diagnose.observing.time_samples import TimeSampling
from setebench.diagnose.observing.turns import Turns
from setebench.diagnose.records import Timeline
from setebench.diagnose.run import Options, document_of, native_kit
from setebench.native.perf.program.opened import Target, open_counters
from setebench.native.perf.program.run import Rows
from setebench.native.perf.program.watch import Ending, threads_of
from setebench.results import Document


def diagnose(
    function: Callable[..., Any], /, *arguments: Any, options: Options | None = None, **keywords: Any
) -> Document:
    """Call `function` with these arguments and say what limits it, as `setebench diagnose` says of a program.

    Counted are all threads that this process has, and those that they start meanwhile. What the function raises is
    raised, and nothing is said then."""
    chosen = options or Options()
    name = getattr(function, "__qualname__", repr(function))
    document, _run = document_of(
        lambda: observe_function(native_kit(), chosen, lambda: function(*arguments, **keywords), name), chosen
    )
    return document


def observe_function(kit: Kit, options: Options, call: Callable[[], Any], name: str) -> tuple[Timeline, Run]:
    """The timeline of one call. Raises what it raises."""
    reader = _Reader(options.wish.interval)  # before the threads are listed that are counted: it is none of them
    reader.start()
    threads = tuple(thread for thread in threads_of(os.getpid()) if thread != reader.native_id)
    try:
        with (
            open_counters(kit.wanted, Target(threads=threads, inherit=True), kit.situation) as counters,
            TimeSampling(options.wish, attached=True, pmus=kit.situation.pmus) as sampling,
        ):
            sampling.open_threads(os.getpid(), threads, (threading.get_native_id(),))
            turns = Turns(kit.sets)
            turns.open(os.getpid(), counters)
            reader.begin(rows := Rows(counters, options.wish.interval, (sampling, turns)))
            counters.start()
            begin = time.monotonic()
            call()
            reader.leave()
            run = rows.run(Ending(elapsed=time.monotonic() - begin))
            return timeline_of(kit, run, sampling, (name,)), run
    finally:
        reader.leave()


class _Reader(threading.Thread):
    """Reads the counters at the end of every interval, while the function runs in the thread that called."""

    def __init__(self, interval: float) -> None:
        super().__init__(name="setebench-diagnose", daemon=True)
        self._interval = interval
        self._begun, self._over = threading.Event(), threading.Event()
        self._rows: Rows | None = None

    def begin(self, rows: Rows) -> None:
        """The function is called right after this."""
        self._rows, self._begin = rows, time.monotonic()
        self._begun.set()

    def run(self) -> None:
        """In a thread of its own."""
        self._begun.wait()
        while not self._over.wait(self._interval) and self._rows is not None:
            self._rows.tick(time.monotonic() - self._begin)

    def leave(self) -> None:
        """End the thread, between two readings. May be called twice."""
        self._over.set()
        self._begun.set()
        self.join()

"""Processes that run `errand.py`, with this version's sources or with another's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from setebench.errors import SetebenchError
from setebench.score.workers import errand
from setebench.score.workers.errand import framed, read_frame


class Process:
    """One process; it ends when its standard input does, so also when this one dies.

    In a session of its own, because an interrupt at the terminal is this process's to handle."""

    def __init__(self, sources: Path | None) -> None:
        path = [*([str(sources)] if sources else []), *(each or os.getcwd() for each in sys.path)]
        # another version's complaints while it is imported are for a message of one line, not for the terminal
        self._complaints: IO[bytes] | None = tempfile.TemporaryFile() if sources else None  # noqa: SIM115
        self._popen = subprocess.Popen(
            [sys.executable, "-P", errand.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            start_new_session=True,
        )

    def ready(self) -> bool:
        """Wait until it has imported everything; false where it couldn't."""
        return self._frame() is not None

    def ask(self, wanted: bytes) -> bytes | None:
        """The reply to an errand; None where the process ended instead."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(framed(wanted))
            self._popen.stdin.flush()
        except BrokenPipeError:
            return None
        return self._frame()

    def _frame(self) -> bytes | None:
        assert self._popen.stdout is not None
        return read_frame(self._popen.stdout.fileno())

    def ending(self) -> str:
        """Wait until it has ended, and say how."""
        status = self._popen.wait()
        if status >= 0:
            return f"exit status {status}"
        try:
            return signal.Signals(-status).name
        except ValueError:  # a real-time signal
            return f"signal {-status}"

    def last_complaint(self) -> str:
        """The last line that it wrote to its standard error, where that is kept."""
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """End it."""
        for stream in (self._popen.stdin, self._popen.stdout, self._complaints):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self._popen.wait()

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._popen.kill()


class Pool:
    """As many processes as threads ask at once. Each thread takes one that is idle, or starts one.

    Threads move bytes only: decoding by several at once the first time is not safe (msgspec makes its tables then)."""

    def __init__(self, sources: Path | None = None) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._ending = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_error: Any) -> None:
        while self._all:
            self._all.pop().close()

    def ask(self, wanted: bytes) -> bytes | str:
        """The reply to an errand, or how its process ended. Raises `SetebenchError` where none can be started."""
        process = self._taken()
        reply = process.ask(wanted)
        with self._lock:
            if reply is not None:
                self._idle.append(process)
                return reply
            self._all.discard(process)
        ending = process.ending()
        process.close()
        return f"its worker ended: {ending}"

    def kill(self) -> None:
        """End all processes now."""
        with self._lock:
            self._ending = True
            for process in self._all:
                process.kill()

    def _taken(self) -> Process:
        with self._lock:
            if self._ending:  # a thread that was between two errands when all processes were ended
                raise SetebenchError("the run is being ended")
            if self._idle:
                return self._idle.pop()
            process = Process(self._sources)
            self._all.add(process)
        if process.ready():
            return process
        ending, said = process.ending(), process.last_complaint()
        raise SetebenchError(f"a process that runs scenarios can't be started: {said or ending}")

"""A run in a process of its own: a scenario that takes its process with it (a fault, an exit, the kernel out of memory)
costs its own rows alone, and the next process goes on behind it.

The process that the user started only waits. It writes nothing and wakes up for nothing while something is measured.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

import click

from setebench import store
from setebench.errors import UsageError
from setebench.results import Document

_PR_SET_PDEATHSIG = 1
_WANTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user or the system ends a run; no scenario sends them."""

_SAME_INTERRUPT_SECONDS = 1.0
"""Ctrl-C reaches both processes, and the waiting one passes it on: within this time it is the same one."""


@dataclass(frozen=True, kw_only=True)
class Casualty:
    """A scenario that ended its process, how, and how long after it had begun."""

    scenario: str
    reason: str
    elapsed_seconds: float


class Logbook:
    """What runs, and what is done: in memory that outlives the process which writes it. Nobody reads it, and nothing is
    written, where there is one process only."""

    def __init__(self) -> None:
        self._running = self._done = -1

    def open(self) -> None:
        """To be called before the process that writes is begun."""
        self._running, self._done = _nameless_file(), _nameless_file()

    def begin(self, scenario: str) -> None:
        """Note that it runs from now on."""
        if self._running >= 0:
            _write(self._running, json.dumps([scenario, time.monotonic()]).encode())

    def end(self) -> None:
        """Note that no scenario runs any more."""
        if self._running >= 0:
            os.ftruncate(self._running, 0)

    def keep(self, document: Document) -> None:
        """Note what is done so far; no scenario runs any more."""
        if self._done >= 0:
            _write(self._done, store.dumps(document))
        self.end()

    def casualty(self, reason: str) -> Casualty | None:
        """The scenario that was running, if one was."""
        text = _read(self._running)
        if not text:
            return None
        scenario, since = json.loads(text)
        return Casualty(scenario=scenario, reason=reason, elapsed_seconds=round(time.monotonic() - since, 3))

    def document(self) -> Document | None:
        """What was done last, None before anything was, or if its process was ended as it wrote it."""
        try:
            return store.load(f"/proc/self/fd/{self._done}") if os.fstat(self._done).st_size else None
        except UsageError:
            return None


@dataclass
class Apart:
    """Gives a run a process. A command that finds one of these as click's object asks it to. `casualty` is what ended
    the process before this one."""

    logbook: Logbook = field(default_factory=Logbook)
    casualty: Casualty | None = None

    def enter(self) -> None:
        """Returns in a new process, and in another one each time that a scenario has ended it. This one waits
        meanwhile, and ends as the last of them does."""
        self.logbook.open()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        while True:
            parent, child = os.getpid(), os.fork()
            if child == 0:
                _become_a_child(parent)
                return
            status, asked = _wait(child)
            lost = (
                None if asked or _was_wanted(status) else self.logbook.casualty(f"it ended its process: {_how(status)}")
            )
            if lost is None:
                _end_alike(status)
            else:
                self.casualty = lost
                self.logbook.end()


def _become_a_child(parent: int) -> None:
    """Die with the parent, however that does, and hear of an interrupt once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that was asked for
        os._exit(128 + signal.SIGKILL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        return
    heard = float("-inf")

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        before, heard = heard, time.monotonic()
        if heard - before > _SAME_INTERRUPT_SECONDS:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def _wait(child: int) -> tuple[int, bool]:
    """The child's wait status, and whether this process was asked to end; that ends the child too."""
    asked = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        with suppress(ProcessLookupError):  # all processes of the job were asked, and the child has ended already
            os.kill(child, number)

    taken = [each for each in _WANTED if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, pass_on) for each in taken}
    try:
        status = os.waitpid(child, 0)[1]
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return status, asked


def _was_wanted(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _WANTED


def _how(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _end_alike(status: int) -> None:
    """Ends this process as the child ended."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    code = os.waitstatus_to_exitcode(status)
    # the first process of a container outlives its own signals, and ends with the status that a shell gives for them
    raise click.exceptions.Exit(code if code >= 0 else 128 - code)


def _nameless_file() -> int:
    """A file that no folder holds: in memory, or a temporary one where there are none of those."""
    with suppress(AttributeError, OSError):  # Python was built without them, or the system refuses them
        return os.memfd_create("setebench")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, data: bytes) -> None:
    os.ftruncate(descriptor, 0)
    view = memoryview(data)
    while len(view):
        view = view[os.pwrite(descriptor, view, len(data) - len(view)) :]


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

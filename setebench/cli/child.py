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
import time
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import msgspec

from setebench import campaign, store
from setebench.results import Document

_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user or the system ends a run; no scenario sends them."""

_SAME_INTERRUPT_SECONDS = 1.0
"""Ctrl-C reaches both processes, and the waiting one passes it on: within this time it is the same one."""


@dataclass(frozen=True)
class Lost:
    """A scenario that ended its process, how, and the document up to then, in which it is marked as failed."""

    scenario: str
    reason: str
    document: Document | None


class Child:
    """Gives a run a process. A command that finds one of these as click's object enters it.

    The process notes in a nameless file of memory, which outlives it, what runs and what is done."""

    def __init__(self, forks: bool = True) -> None:
        self._forks, self._notes = forks, -1

    def enter(self) -> Lost | None:
        """Returns in a new process, and in another one each time that a scenario has ended it, with how. This one waits
        meanwhile, and ends as the last of them does. Without forks it returns in this one."""
        if not self._forks:
            return None
        self._notes = os.memfd_create("setebench")
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        lost: Lost | None = None
        while True:
            parent, child = os.getpid(), os.fork()
            if child == 0:
                _become_a_child(parent)
                return lost
            status, ended = _wait(child)
            wanted = ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in _ENDING)
            lost = None if wanted else self._lost(status)
            if lost is None:
                _end_alike(status)
            self.end()

    def begin(self, scenario: str, document: Document) -> None:
        """Note what runs from now on, and the document so far."""
        self.end()
        if self._notes >= 0:
            view = memoryview(json.dumps([scenario, time.monotonic()]).encode() + b"\n" + store.dumps(document))
            while len(view):
                view = view[os.write(self._notes, view) :]

    def end(self) -> None:
        """Note that no scenario runs any more."""
        if self._notes >= 0:
            os.ftruncate(self._notes, 0)
            os.lseek(self._notes, 0, os.SEEK_SET)

    def _lost(self, status: int) -> Lost | None:
        """The scenario that was running, if one was."""
        head, _, data = os.pread(self._notes, os.fstat(self._notes).st_size, 0).partition(b"\n")
        if not head:
            return None
        scenario, since = json.loads(head)
        reason = f"it ended its process: {_how(status)}"
        try:
            document = msgspec.json.decode(data, type=Document)
        except msgspec.DecodeError:  # it was ended as it wrote
            return Lost(scenario, reason, None)
        seconds = round(time.monotonic() - since, 3)
        return Lost(scenario, reason, campaign.with_lost(document, scenario, reason, seconds))


def _become_a_child(parent: int) -> None:
    """Die with the parent, however that does, and take the same interrupt once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that was in force
        os._exit(128 + signal.SIGKILL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        return
    latest = float("-inf")

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal latest
        before, latest = latest, time.monotonic()
        if latest - before > _SAME_INTERRUPT_SECONDS:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def _wait(child: int) -> tuple[int, bool]:
    """The child's wait status, and whether this process was to end; that ends the child too."""
    ended = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal ended
        ended = True
        with suppress(
            ProcessLookupError
        ):  # the signal went to all processes of the job, and the child has ended already
            os.kill(child, number)

    taken = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, pass_on) for each in taken}
    try:
        status = os.waitpid(child, 0)[1]
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return status, ended


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
    # The first process of a container outlives its own signals, and ends with the status that a shell gives for them.
    # Nothing is torn down: the child has given back what libffi shares between processes where no memory may be made
    # executable, and to give it back again is an abort.
    os._exit(code if code >= 0 else 128 - code)

"""Starting a program so that its events can be opened before its first instruction.

A child of ours waits at a pipe. What is opened for it in the meantime with `enable_on_exec` begins to count as the
kernel replaces it by the program, so nothing of ours is counted and nothing of the program is missed. It has our
standard input, output and error, working directory, environment, process group and limits, and the signals as we were
given them.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from setebench.errors import SetebenchError

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Statuses that a shell gives to programs that it can't start (POSIX, Shell Command Language, 2.8.2)."""

_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a Python process ignores, which its children would inherit."""


class NotStarted(SetebenchError):
    """The program could not be started; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Held:
    """A program that waits for its exec, as process `process`. A context at whose end it is ended unless it was
    released."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], mask: set[int]) -> None:
        """A child that becomes `command` when it is released, with these blocked signals."""
        self._program = command[0]
        waits, self._go = os.pipe()
        self._failure, failure = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self._go)
            _become(command, environment, mask, (waits, failure))
        os.close(waits)
        os.close(failure)
        self._waits = True

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waits:
            self._ended()
            os.waitpid(self.process, 0)

    def release(self) -> None:
        """Let the program begin. Raises `NotStarted`; then the process is gone."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"x")
        if failure := self._ended():
            os.waitpid(self.process, 0)
            known, number = repr(self._program), int(failure)
            if number in (errno.ENOENT, errno.ENOTDIR):
                raise NotStarted(f"the program {known} was not found: there is no such file, or not in PATH", NOT_FOUND)
            raise NotStarted(f"{known} can't be executed: {os.strerror(number)}", NOT_EXECUTABLE)

    def _ended(self) -> bytes:
        """What the child says before it is gone, nothing at an exec; one that still waits ends without."""
        self._waits = False
        os.close(self._go)
        with os.fdopen(self._failure, "rb") as said:
            return said.read()


def gets_other_rights(program: str, environment: Mapping[str, str]) -> bool:
    """Whether `program` runs with another user's or group's rights, or may not be read: at its exec the kernel removes
    all events of others from it (fs/exec.c, `begin_new_exec`), which then read what was counted in the microseconds
    before. False for what can't be found."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    file = os.stat(path)
    user = file.st_mode & stat.S_ISUID and file.st_uid != os.geteuid()
    group = file.st_mode & stat.S_ISGID and file.st_gid != os.getegid()
    return bool(user or group or not os.access(path, os.R_OK))


def _become(command: Sequence[str], environment: Mapping[str, str], mask: set[int], pipes: tuple[int, int]) -> NoReturn:
    """Nothing that runs here may write to what the parent has buffered, or run its exit handlers. Signals are as they
    were before Python changed some; a handler of ours would run in place of the program's end."""
    waits, failure = pipes
    number = errno.EINVAL
    try:
        if os.read(waits, 1):
            for each in signal.valid_signals():
                if each in _CHANGED_BY_PYTHON or callable(signal.getsignal(each)):
                    signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], list(command), dict(environment))
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or number
    finally:
        with suppress(OSError):
            os.write(failure, str(number).encode())
        os._exit(NOT_FOUND)

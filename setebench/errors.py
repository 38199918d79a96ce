"""Errors a user may meet. Each carries one line that says what happened and, where there is one, the remedy."""

import traceback
from importlib.util import find_spec
from pathlib import Path

DIFFERS, INTERRUPTED = 3, 130
"""Exit statuses: with --exit-code where something differs (1 and 2 mean that nothing was compared), and after Ctrl-C,
which is 128 + SIGINT, as shells have it."""

NO_MACHINE_CODE = (
    "the system lets this process make no memory executable; allow that (SELinux: setsebool deny_execmem off; systemd: "
    "MemoryDenyWriteExecute=no), or run it outside of that sandbox"
)
"""Why no code can be made at run time, and what to do, for errors and the doctor."""


class SetebenchError(Exception):
    """What could not be done and what to do about it, in one line. The command line ends with exit status 1."""


class UsageError(SetebenchError):
    """The request itself is wrong (a name, a number, a file). The command line ends with exit status 2."""


class ProbeError(UsageError):
    """A probe that no machine could run: an unknown base, an unbalanced interval, an impossible operand."""


class UnsupportedError(SetebenchError):
    """This machine, its rights or its system cannot do what was requested."""


EXTRAS = {"iced_x86": "asm", "jinja2": "report", "matplotlib": "report"}
"""What an installation may do without, and the extra of this package that brings it."""


def not_installed(module: str) -> UnsupportedError:
    """What to say where one of `EXTRAS` is missed."""
    return UnsupportedError(f"{module} is not installed; pip install 'setebench[{EXTRAS[module]}]' brings it")


def need(module: str) -> None:
    """Raises `UnsupportedError` now where one of `EXTRAS` would be missed after minutes of measuring."""
    if find_spec(module) is None:
        raise not_installed(module)


class ProbeFault(SetebenchError):
    """Running a probe raised a CPU exception; the process lives on.

    `signal` is the name (SIGSEGV, SIGILL, SIGBUS, SIGFPE), `operation` the index of the operation that raised it
    (-1 if it lies outside every operation), `address` the data address where the kernel gave one.
    """

    def __init__(self, signal: str, operation: int, address: int, what: str) -> None:
        where = f"operation {operation} ({what})" if operation >= 0 else "the driver around the probe"
        super().__init__(f"the probe was stopped by {signal} in {where}, data address {address:#x}")
        self.signal = signal
        self.operation = operation
        self.address = address


def reason(error: BaseException) -> str:
    """Why something failed, in one line; an error that is nobody's answer with its kind, and where it came from."""
    text = " ".join(str(error).split())
    if isinstance(error, SetebenchError):
        return text
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if where.filename.startswith("<") else f" ({Path(where.filename).name}:{where.lineno})"
    return f"{type(error).__name__}: {text}".removesuffix(": ") + place

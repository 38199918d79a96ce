"""Names of events by libpfm4, where it is installed: the library `libpfm.so.4` (MIT licence), loaded by ctypes.

It knows names for many more processors than our tables. Nothing needs it: without it those names are unknown, and
everything else works.
"""

from __future__ import annotations

import ctypes
from typing import Any

from setebench.errors import UnsupportedError, UsageError
from setebench.native.perf.attributes import Attributes

LIBRARY = "libpfm.so.4"
_SUCCESS = 0
_RAW = 0  # PFM_OS_NONE: numbers as the hardware's registers take them
_PERF = 1  # PFM_OS_PERF_EVENT: a struct perf_event_attr
_USER_AND_KERNEL = 0x1 | 0x8  # PFM_PLM0 | PFM_PLM3
_ATTRIBUTE_BYTES = 256  # more than any version of the structure has


class _PerfArgument(ctypes.Structure):
    """pfm_perf_encode_arg_t."""

    _fields_ = (
        ("attr", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("index", ctypes.c_int),
        ("cpu", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
    )


class _RawArgument(ctypes.Structure):
    """pfm_pmu_encode_arg_t."""

    _fields_ = (
        ("codes", ctypes.POINTER(ctypes.c_uint64)),
        ("name", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("count", ctypes.c_int),
        ("index", ctypes.c_int),
    )


class Libpfm:
    """The library, initialised. It says which PMUs it sees by what the processor says of itself, or by the variables
    LIBPFM_FORCE_PMU and LIBPFM_ENCODE_INACTIVE of the environment at the time of loading."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Load it. Raises `UnsupportedError` in one line where there is none."""
        try:
            self._library: Any = ctypes.CDLL(library)
        except OSError as error:
            raise UnsupportedError(
                f"{library}, which knows more names of events, is not installed (on Debian: apt-get install libpfm4)"
            ) from error
        self._library.pfm_strerror.restype = ctypes.c_char_p
        status = self._library.pfm_initialize()
        if status != _SUCCESS:
            raise UnsupportedError(f"{library} can't be used: {self._said(status)}")

    def encode(self, name: str) -> Attributes:
        """The event for the kernel. Raises `UsageError` for a name that the library does not know here."""
        buffer = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
        argument = _PerfArgument(attr=ctypes.addressof(buffer), size=ctypes.sizeof(_PerfArgument), cpu=-1)
        self._ask(name, _PERF, argument)
        words = (ctypes.c_uint64 * (_ATTRIBUTE_BYTES // 8)).from_buffer(buffer)
        kind = ctypes.c_uint32.from_buffer(buffer).value
        return Attributes(type=kind, config=words[1], config1=words[7], config2=words[8])

    def codes(self, name: str) -> tuple[int, ...]:
        """Numbers as the hardware's registers take them, enable bits included: the selection first, then what else the
        event needs (such as an offcore response). Raises `UsageError` for a name that the library does not know here.
        """
        argument = _RawArgument(size=ctypes.sizeof(_RawArgument))
        self._ask(name, _RAW, argument)
        return tuple(argument.codes[index] for index in range(argument.count))

    def _ask(self, name: str, form: int, argument: ctypes.Structure) -> None:
        status = self._library.pfm_get_os_event_encoding(
            name.encode("ascii", "replace"), _USER_AND_KERNEL, form, ctypes.byref(argument)
        )
        if status != _SUCCESS:
            raise UsageError(f"libpfm4 does not know {name!r} ({self._said(status)})")

    def _said(self, status: int) -> str:
        said: bytes = self._library.pfm_strerror(status)
        return said.decode("ascii", "replace")

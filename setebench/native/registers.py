"""Switching prefetchers off by model-specific registers, so that they are put back whatever happens.

Everything lies below a root directory, as in `host`, so that plain files stand in for the kernel's devices. A
second process (`register_guard`) holds the old values before anything is written and puts them back if this one dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from setebench.native import register_guard
from setebench.native.prefetch_registers import Layout
from setebench.native.register_guard import DONE, READY, write_register

GUARD_SECONDS = 10.0
"""Starting a Python takes a fraction of a second; a machine that can't do it in this time shall not be changed."""


class RegisterError(Exception):
    """Why registers can't be switched, in one line."""


class PutBackError(RegisterError):
    """Registers are not as they were before; the line says what to do by hand."""


class PrefetchRegisters:
    """The prefetch-control registers of CPUs, as files below `root`. Each CPU has a layout, for a hybrid processor's
    cores differ in their switches; the register is the same for all."""

    def __init__(self, layouts: Mapping[int, Layout], root: Path = Path("/")) -> None:
        self._layouts, self._root = layouts, root
        (self._register,) = {layout.register for layout in layouts.values()}

    def check(self, cpus: Collection[int]) -> None:
        """Open and read the registers of these CPUs and change nothing. Raises `RegisterError` where that fails."""
        with ExitStack() as files:
            self._read_all(self._opened(files, cpus))

    @contextmanager
    def off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """Within the context the prefetchers of these switches are off; the registers are put back at its end.

        Raises `RegisterError` where a register can't be read, written, or put back, or reads as if it had not been
        written: some hypervisors take what is written and forget it."""
        with ExitStack() as files:
            devices = self._opened(files, cpus)
            self._lock(devices)
            before = self._read_all(devices)
            guard = self._guarded(files, devices, before)
            try:
                for cpu, device in devices.items():
                    self._switch(cpu, device, before[cpu] | self._mask(cpu, names))
                yield
            finally:
                self._put_back(devices, before)
                _release(guard)  # not where that failed: the guard then tries as well

    def _mask(self, cpu: int, names: Collection[str]) -> int:
        return sum(1 << bit.bit for bit in self._layouts[cpu].bits if bit.name in names)

    def _path(self, cpu: int) -> Path:
        return self._root / f"dev/cpu/{cpu}/msr"

    def _opened(self, files: ExitStack, cpus: Collection[int]) -> dict[int, int]:
        devices = {}
        for cpu in sorted(set(cpus)):
            try:
                devices[cpu] = os.open(self._path(cpu), os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                raise RegisterError(f"{self._path(cpu)}: {_why(error)}") from error
            files.callback(os.close, devices[cpu])
        if not devices:
            raise RegisterError("no CPU was named whose prefetchers to switch off")
        return devices

    def _lock(self, devices: dict[int, int]) -> None:
        """Keep out others of this kind, who would take what is off now for what was before, and put that back last."""
        for cpu, device in devices.items():
            try:
                fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RegisterError(
                    f"{self._path(cpu)}: another process has prefetchers switched off; wait for its end"
                ) from error
            except OSError as error:
                raise RegisterError(f"{self._path(cpu)} can't be locked: {error.strerror}") from error

    def _read_all(self, devices: dict[int, int]) -> dict[int, int]:
        return {cpu: self._read(cpu, device) for cpu, device in devices.items()}

    def _read(self, cpu: int, device: int) -> int:
        try:
            raw = os.pread(device, 8, self._register)
        except OSError as error:
            raise RegisterError(f"register {self._register:#x} of CPU {cpu} can't be read: {_why(error)}") from error
        if len(raw) != 8:
            raise RegisterError(f"register {self._register:#x} of CPU {cpu} can't be read")
        return int.from_bytes(raw, "little")

    def _switch(self, cpu: int, device: int, value: int) -> None:
        register = self._register
        try:
            write_register(device, register, value)
        except OSError as error:
            raise RegisterError(
                f"register {register:#x} of CPU {cpu} can't be written ({error.strerror or error}): a hypervisor may "
                "refuse it, or the kernel's msr module, which must allow writes (allow_writes=on)"
            ) from error
        found = self._read(cpu, device)
        if found != value:
            raise RegisterError(
                f"register {register:#x} of CPU {cpu} reads {found:#x} after {value:#x} was written: a hypervisor "
                "takes writes without doing them; nothing was switched"
            )

    def _put_back(self, devices: dict[int, int], before: dict[int, int]) -> None:
        """Every register is tried, also where one fails; only then the failures are raised."""
        failed = []
        for cpu, device in devices.items():
            try:
                write_register(device, self._register, before[cpu])
                if self._read(cpu, device) != before[cpu]:
                    failed.append(cpu)
            except (OSError, RegisterError):
                failed.append(cpu)
        if failed:
            commands = "; ".join(f"wrmsr -p {cpu} {self._register:#x} {before[cpu]:#x}" for cpu in failed)
            raise PutBackError(f"prefetchers could not be switched back; as root: {commands}")

    def _guarded(self, files: ExitStack, devices: dict[int, int], before: dict[int, int]) -> subprocess.Popen[str]:
        """The guard process, ready to put these values back. It is started before anything is written."""
        try:
            guard = subprocess.Popen(
                [sys.executable or "python3", "-I", "-S", str(Path(register_guard.__file__).resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                pass_fds=tuple(devices.values()),
                start_new_session=True,  # so that what ends this process's group leaves it alive
            )
        except OSError as error:
            raise RegisterError(f"no process can be started that would switch prefetchers back: {error}") from error
        files.callback(_end, guard)
        assert guard.stdin is not None and guard.stdout is not None
        values = {device: before[cpu] for cpu, device in devices.items()}
        try:
            guard.stdin.write(json.dumps({"files": values, "register": self._register}) + "\n")
            guard.stdin.flush()
            answered = select.select([guard.stdout], [], [], GUARD_SECONDS)[0]
            ready = bool(answered) and guard.stdout.readline().strip() == READY
        except OSError:
            ready = False
        if not ready:
            raise RegisterError("the process that would switch prefetchers back did not start")
        return guard


def _release(guard: subprocess.Popen[str]) -> None:
    """Let the guard go: everything is as it was."""
    assert guard.stdin is not None
    with suppress(BrokenPipeError):  # it has gone before, and has nothing to put back
        guard.stdin.write(DONE + "\n")
        guard.stdin.flush()


def _end(guard: subprocess.Popen[str]) -> None:
    """Wait for the guard, which ends when its input does; without the line `done` it puts everything back first."""
    assert guard.stdin is not None and guard.stdout is not None
    with suppress(BrokenPipeError):  # it has gone before
        guard.stdin.close()
    guard.wait()
    guard.stdout.close()


def _why(error: OSError) -> str:
    """What keeps an msr device from being opened, and what to do."""
    if isinstance(error, FileNotFoundError):
        return "there is no such device; as root: modprobe msr (in most guests and containers there is none)"
    if isinstance(error, PermissionError):
        return "may not be opened for writing; run as root, with the kernel's msr module allowing writes"
    return error.strerror or type(error).__name__

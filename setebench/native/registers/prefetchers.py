"""The prefetcher switches of this CPU: model-specific registers, by way of the kernel's msr devices, put back whatever
happens.

Everything lies below a root directory, as in `host`, so that plain files stand in for the devices. A second process
holds the old values before anything is written, and puts them back when this one lets go or dies. That no two
processes do this at once is for `host.lock`, which the machine holds while it is open.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from setebench.errors import SetebenchError, UnsupportedError
from setebench.host.processor import Processor, Topology
from setebench.machine import PrefetcherSwitch
from setebench.native import _engine
from setebench.native.registers.prefetch_registers import Layout, layout_of

AMD_LEAF, AMD_BIT = 0x8000_0021, 13
"""CPUID leaf and bit of EAX by which a processor says that it has the prefetch-control register."""
LET_PASS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that end this process, and not the one that puts registers back."""


class NativeSwitches:
    """See `setebench.machine.SwitchesPrefetchers`. Registers are only written where the user has `allowed` that; `root`
    is for tests: plain files in place of devices."""

    def __init__(self, processor: Processor, topology: Topology, root: Path = Path("/"), allowed: bool = False) -> None:
        self._processor, self._topology, self._root, self._allowed = processor, topology, root, allowed

    def offered(self, cpu: int) -> tuple[PrefetcherSwitch, ...]:
        """The switches of this CPU's kind of core. Raises `UnsupportedError` where its registers can't be used."""
        layout = self._layout(cpu)
        with ExitStack() as files:
            (register,) = self._opened(files, (cpu,))
            register.read()
        return tuple(PrefetcherSwitch(name=bit.name, level=bit.level) for bit in layout.bits)

    @contextmanager
    def off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """See `setebench.machine.SwitchesPrefetchers.prefetchers_off`.

        Raises `UnsupportedError` where a register can't be read or written, or reads as if it had not been written:
        some hypervisors take what is written and forget it. Raises `SetebenchError` where it can't be put back."""
        with ExitStack() as files:
            before = [(register, register.read()) for register in self._opened(files, cpus)]
            try:
                with _guarded(before):
                    for register, value in before:
                        bits = (1 << bit.bit for bit in self._layout(register.cpu).bits if bit.name in names)
                        register.switch(value | sum(bits))
                    yield
            finally:
                lost = [(register, value) for register, value in before if not register.put_back(value)]
                if lost:  # no mere lack: the machine is not as it was
                    by_hand = "; ".join(f"wrmsr -p {one.cpu} {one.number:#x} {value:#x}" for one, value in lost)
                    raise SetebenchError(f"prefetchers could not be switched back; as root: {by_hand}")

    def _opened(self, files: ExitStack, cpus: Collection[int]) -> list[_Register]:
        registers = []
        for cpu in sorted(set(cpus)):
            path, number = self._root / f"dev/cpu/{cpu}/msr", self._layout(cpu).register
            if not self._allowed:
                raise _refused("that writes model-specific registers, which is done only with --msr")
            try:
                device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                how = (
                    "as root, where there is such a device (modprobe msr, in most guests and containers there is none)"
                )
                raise _refused(f"{path}: {error.strerror}; try it {how}") from error
            files.callback(os.close, device)
            registers.append(_Register(cpu, device, number))
        return registers

    def _layout(self, cpu: int) -> Layout:
        processor = self._processor
        layout = layout_of(
            processor.vendor,
            processor.family,
            processor.model,
            small_core=cpu not in (self._topology.kinds or {}).get("big core", (cpu,)),
            announced=_announced(),
        )
        if layout is None:
            named = f"{processor.vendor}, family {processor.family}, model {processor.model}"
            raise _refused(f"no documented switches are known of this processor, or it doesn't announce them ({named})")
        return layout


class _Register:
    """The prefetch-control register of a CPU, by its open device."""

    def __init__(self, cpu: int, device: int, number: int) -> None:
        self.cpu, self.device, self.number = cpu, device, number

    def __str__(self) -> str:
        return f"register {self.number:#x} of CPU {self.cpu}"

    def read(self) -> int:
        """Its value, 64 bits."""
        try:
            return int.from_bytes(os.pread(self.device, 8, self.number), "little")
        except OSError as error:
            raise _refused(f"{self} can't be read: {error.strerror}") from error

    def write(self, value: int) -> None:
        """Write all of it, as the kernel's device takes it."""
        os.pwrite(self.device, value.to_bytes(8, "little"), self.number)

    def put_back(self, value: int) -> bool:
        """Whether it holds the value again, if need be because it is written once more."""
        with suppress(OSError, UnsupportedError):
            if self.read() != value:  # the guard was gone before
                self.write(value)
            return self.read() == value
        return False

    def switch(self, value: int) -> None:
        """Write and read back."""
        try:
            self.write(value)
        except OSError as error:
            who = "a hypervisor may refuse it, or the kernel's msr module, which must allow writes (allow_writes=on)"
            raise _refused(f"{self} can't be written ({error.strerror}): {who}") from error
        if (found := self.read()) != value:
            raise _refused(f"{self} reads {found:#x} after {value:#x} was written: a hypervisor forgets writes")


@contextmanager
def _guarded(before: list[tuple[_Register, int]]) -> Iterator[None]:
    """A second process writes these values at the context's end, or when this process is gone and its pipe with it."""
    waits, lets_go = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, LET_PASS)
    try:
        guard = os.fork()
    except OSError as error:
        raise _refused(f"no process can be started that would switch them back: {error.strerror}") from error
    if guard == 0:  # with the files and the blocked signals of this process
        try:
            os.setsid()  # so that what ends this process's group leaves it alive
            os.close(lets_go)
            os.read(waits, 1)
            for register, value in before:
                with suppress(OSError):  # the others are still put back; the other process reads all of them
                    register.write(value)
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(waits)
    try:
        yield
    finally:
        os.close(lets_go)
        os.waitpid(guard, 0)


def _refused(why: str) -> UnsupportedError:
    return UnsupportedError(f"prefetchers can't be switched off: {why}")


def _announced() -> bool:
    """Whether the processor says that it has AMD's register."""
    highest = _engine.cpuid(0x8000_0000)[0]
    return highest >= AMD_LEAF and bool(_engine.cpuid(AMD_LEAF)[0] >> AMD_BIT & 1)

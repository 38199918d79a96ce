"""The prefetcher switches of this CPU: model-specific registers, by way of the kernel's msr devices, put back whatever
happens.

Everything lies below a root directory, as in `host`, so that plain files stand in for the devices. A second process
holds the old values before anything is written, and puts them back when this one lets go or dies. That no two
processes do this at once is for `host.lock`, which the machine holds while it is open.

Which register switches prefetchers off, and what its bits are, is what the vendors document. Intel: "Disclosure of
Hardware Prefetcher Control on Some Intel Processors", the tables of MSR 1A4H in volume 4 of the Software Developer's
Manual, and "Hardware Prefetch Controls for Intel Atom Cores" (357930). AMD: Prefetch Control, MSR C000_0108, in the
Processor Programming References of family 19h and later. A set bit turns a prefetcher off. Models that are not listed
have no switches here: a reserved bit of a register must not be tried.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from setebench.errors import SetebenchError, UnsupportedError
from setebench.host.processor import Processor, Topology
from setebench.machine import PrefetcherSwitch
from setebench.native import _engine

INTEL_REGISTER, AMD_REGISTER = 0x1A4, 0xC000_0108


class Bit(NamedTuple):
    """A bit that turns one prefetcher off: its vendor's name for it, and the level whose accesses that watches."""

    bit: int
    name: str
    level: int | None


class Layout(NamedTuple):
    """A register's address and its switches."""

    register: int
    bits: tuple[Bit, ...]


REDWOOD_COVE = (
    Bit(0, "L2 stream", 2),
    Bit(1, "L2 adjacent line", 2),
    Bit(2, "L1 next line (DCU)", 1),
    Bit(3, "L1 IP", 1),
    Bit(4, "L1 next page", 1),
    Bit(5, "L2 AMP", 2),
    Bit(6, "LLC page", None),
    Bit(7, "array of pointers", None),
)
L2_STREAM, L1_NEXT_LINE, L2_AMP = REDWOOD_COVE[0], REDWOOD_COVE[2], REDWOOD_COVE[5]
SINCE_NEHALEM = REDWOOD_COVE[:4]
GOLDEN_COVE = (*SINCE_NEHALEM, L2_AMP)
SMALL_CORES = (L2_STREAM, L1_NEXT_LINE)
GRACEMONT = (*SMALL_CORES, L2_AMP)

_INTEL_MODELS = {
    SINCE_NEHALEM: (
        *(0x1A, 0x1E, 0x1F, 0x2E, 0x25, 0x2C, 0x2F),  # Nehalem, Westmere
        *(0x2A, 0x2D, 0x3A, 0x3E),  # Sandy Bridge, Ivy Bridge
        *(0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56),  # Haswell, Broadwell
        *(0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x66),  # Skylake to Comet Lake, Cannon Lake
        *(0x6A, 0x6C, 0x7D, 0x7E, 0x9D, 0xA7, 0x8C, 0x8D),  # Ice Lake, Rocket Lake, Tiger Lake
    ),
    GOLDEN_COVE: (0x97, 0x9A, 0xB7, 0xBA, 0xBF, 0x8F, 0xCF),  # Alder Lake, Raptor Lake, Sapphire and Emerald Rapids
    REDWOOD_COVE: (0xAA, 0xAC, 0xAD, 0xAE),  # Meteor Lake, Granite Rapids
    SMALL_CORES: (
        *(0x37, 0x4A, 0x4D, 0x4C, 0x5A, 0x5D),  # Silvermont, Airmont
        *(0x5C, 0x5F, 0x7A, 0x86, 0x96, 0x9C),  # Goldmont, Tremont
        *(0x57, 0x85),  # Xeon Phi
    ),
    GRACEMONT: (0xBE, 0xAF, 0xB6),  # Alder Lake N, Sierra Forest, Grand Ridge
}
"""Models of family 6; of hybrid processors the large cores."""

_AMD_BITS = (
    Bit(0, "L1 stream", 1),
    Bit(1, "L1 stride", 1),
    Bit(2, "L1 region", 1),
    Bit(3, "L2 stream", 2),
    Bit(5, "up/down", 2),
)
INTEL_FAMILY, AMD_FIRST_FAMILY = 6, 0x19


def layout_of(processor: Processor, small_core: bool = False, announced: bool = False) -> Layout:
    """The switches of a processor. `small_core`: of one of a hybrid processor's efficient cores. `announced`: CPUID
    leaf 8000_0021 has bit 13 of EAX set, by which AMD's processors say that they have the register.

    Raises `UnsupportedError` for one whose switches are not known."""
    maker, model = (processor.vendor, processor.family), processor.model
    bits = next((bits for bits, models in _INTEL_MODELS.items() if model in models), None)
    if maker == ("GenuineIntel", INTEL_FAMILY) and bits is not None:
        return Layout(INTEL_REGISTER, GRACEMONT if small_core and L2_AMP in bits else bits)
    if processor.vendor == "AuthenticAMD" and announced and (processor.family or 0) >= AMD_FIRST_FAMILY:
        return Layout(AMD_REGISTER, _AMD_BITS)
    named = "{}, family {}, model {}".format(*maker, model)
    raise _refused(f"no documented switches are known of this processor, or it doesn't announce them ({named})")


# -- switching them off -----------------------------------------------------------------------------------------------


HIGHEST_LEAF, AMD_LEAF, AMD_BIT = 0x8000_0000, 0x8000_0021, 13
"""CPUID leaves: of the highest one, and with its bit of EAX by which a processor says that it has AMD's register."""
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
                how = "as root, where there is one (modprobe msr; in most guests and containers there is none)"
                raise _refused(f"{path}: {error.strerror}; try it {how}") from error
            files.callback(os.close, device)
            registers.append(_Register(cpu, device, number))
        return registers

    def _layout(self, cpu: int) -> Layout:
        large = (self._topology.kinds or {}).get("big core", (cpu,))
        announced = _engine.cpuid(HIGHEST_LEAF)[0] >= AMD_LEAF and _engine.cpuid(AMD_LEAF)[0] >> AMD_BIT & 1
        return layout_of(self._processor, cpu not in large, bool(announced))


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

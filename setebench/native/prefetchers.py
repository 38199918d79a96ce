"""The prefetcher switches of this CPU: model-specific registers, by way of the kernel's msr devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from setebench.errors import SetebenchError, UnsupportedError
from setebench.host.processor import Processor, Topology
from setebench.machine import PrefetcherSwitch
from setebench.native import _engine
from setebench.native.prefetch_registers import Layout, layout_of
from setebench.native.registers import PrefetchRegisters, PutBackError, RegisterError

AMD_LEAF, AMD_BIT = 0x8000_0021, 13
"""CPUID leaf and bit of EAX by which a processor says that it has the prefetch-control register."""


class NativeSwitches:
    """See `setebench.machine.SwitchesPrefetchers`. Registers are only written where the user has `allowed` that; `root`
    is for tests: plain files in place of devices."""

    def __init__(self, processor: Processor, topology: Topology, root: Path = Path("/"), allowed: bool = False) -> None:
        self._processor, self._topology, self._root, self._allowed = processor, topology, root, allowed

    def offered(self, cpu: int) -> tuple[PrefetcherSwitch, ...]:
        """The switches of this CPU's kind of core. Raises `UnsupportedError` where its registers can't be used."""
        with _user_errors():
            self._registers((cpu,)).check((cpu,))
        self._ask_leave()
        return tuple(PrefetcherSwitch(name=bit.name, level=bit.level) for bit in self._layout(cpu).bits)

    @contextmanager
    def off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """See `setebench.machine.SwitchesPrefetchers.prefetchers_off`."""
        self._ask_leave()
        with _user_errors(), self._registers(cpus).off(names, cpus):
            yield

    def _ask_leave(self) -> None:
        if not self._allowed:
            raise UnsupportedError(
                "prefetchers are switched off only with --msr, which writes model-specific registers"
            )

    def _registers(self, cpus: Collection[int]) -> PrefetchRegisters:
        return PrefetchRegisters({cpu: self._layout(cpu) for cpu in cpus}, self._root)

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
            raise UnsupportedError(
                "prefetchers can't be switched off: no documented switches are known of this processor, or it doesn't "
                f"announce them ({processor.vendor}, family {processor.family}, model {processor.model})"
            )
        return layout


@contextmanager
def _user_errors() -> Iterator[None]:
    """Errors of registers as errors for users."""
    try:
        yield
    except PutBackError as error:  # no mere lack: the machine is not as it was
        raise SetebenchError(str(error)) from error
    except RegisterError as error:
        raise UnsupportedError(f"prefetchers can't be switched off: {error}") from error


def _announced() -> bool:
    """Whether the processor says that it has AMD's register."""
    highest = _engine.cpuid(0x8000_0000)[0]
    return highest >= AMD_LEAF and bool(_engine.cpuid(AMD_LEAF)[0] >> AMD_BIT & 1)

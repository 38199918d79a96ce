"""What a machine is: the one interface between questions and memory systems.

A machine runs probes and returns ticks. Nothing else comes back: no name of a model, no configuration, no level. So the
same scenario reads silicon and is scored on simulated machines. Anybody's machine that offers what `Machine` states
works with every scenario; see docs/machine-plugins.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UsageError, reason
from setebench.probe import Placements, Probe, placement_table

Ticks = NDArray[np.int64]
Cpu = Annotated[int, msgspec.Meta(ge=0, lt=1 << 13)]
"""Linux is built for 8192 CPUs at most."""
PageBytes = Annotated[int, msgspec.Meta(gt=0, le=1 << 34)]
"""More than any page, or line, that an architecture has had."""
Rate = Annotated[float, msgspec.Meta(gt=0)]


class MemoryNode(msgspec.Struct, frozen=True, kw_only=True):
    """A part of memory that some CPUs are nearer to: its number, and those CPUs (none for memory alone)."""

    number: Cpu
    cpus: tuple[Cpu, ...] = ()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What one may know of a machine before measuring it; nothing here is what a scenario is to measure.

    `brackets` are the clock brackets that work (`setebench.probe.BRACKETS`), the machine's own choice first.
    `access_sizes`, `prefetch_hints`, `flushes` and `fences` are the operation variants that it can run.
    `kernels` are the streaming kernels (`setebench.probe.kernels.KERNELS`) that it can run; none unless it says so.
    `cpu` is the one that probes run on where none is named, None where the machine doesn't say. `siblings` groups the
    CPUs that share a core. `page_sizes` are in bytes, `memory_bytes` is what may be allocated.
    `lines_per_second` says over about how many lines of 64 bytes streams pass in a second of the user's time: long
    sweeps measure less on a machine that takes longer for them than its ticks say.
    `nodes` are the memory nodes, where it has several.
    `notes` are sentences for people about the machine's kinds of core, or rights or pages that it lacks; no program
    reads them.
    """

    name: str
    kind: str
    cpus: tuple[Cpu, ...]
    siblings: tuple[tuple[Cpu, ...], ...]
    ticks_per_second: Rate
    line_size: PageBytes = 64
    page_sizes: tuple[PageBytes, ...] = (4096,)
    memory_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 46)] = 1 << 30  # at most 64 TiB, of the largest servers
    brackets: tuple[str, ...] = ("lfence",)
    access_sizes: tuple[int, ...] = (8,)
    prefetch_hints: tuple[str, ...] = ()
    flushes: tuple[str, ...] = ("clflush",)
    fences: tuple[str, ...] = ("m", "l", "s")
    kernels: tuple[str, ...] = ()
    lines_per_second: Rate = 1e9
    nodes: tuple[MemoryNode, ...] = ()
    cpu: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def own_cpu(self) -> int:
        """`cpu`, or the first one where the machine doesn't say."""
        return self.cpus[0] if self.cpu is None else self.cpu


@dataclass(eq=False)
class Region:
    """`size` bytes of a machine's memory from `address` on, in pages of `page_size` bytes.

    Addresses are plain integers; only the machine that made the region can touch them.
    """

    address: int
    size: int
    page_size: int
    line_size: int = 64

    @property
    def lines(self) -> int:
        """Number of cache lines."""
        return self.size // self.line_size

    @property
    def pages(self) -> int:
        """Number of pages."""
        return self.size // self.page_size

    def backing(self) -> dict[int, int]:
        """Bytes in touched pages of each size in bytes, as the system shows them; nothing where a machine doesn't."""
        return {}

    def line(self, page: int, line: int = 0) -> int:
        """Address of a line of a page."""
        return self.address + page * self.page_size + line * self.line_size

    def random_lines(self, count: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """Addresses of `count` random lines, each drawn on its own; shape (count,)."""
        rng = np.random.default_rng(seed)
        return self.address + rng.integers(0, self.lines, count) * self.line_size


@runtime_checkable
class Machine(Protocol):
    """A memory system that runs probes. Public and stable; docs/machine-plugins.md says how to write one."""

    @property
    def facts(self) -> Facts:
        """What may be known before measuring."""
        ...

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """At least `size` bytes of zeros in pages of `page_size` bytes, aligned to that, touched before they are
        returned unless `populate` is off. Raises `UnsupportedError` where pages or memory are not to be had."""
        ...

    def release(self, region: Region) -> None:
        """Give a region back; its addresses must not be used again."""
        ...

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """Write into the line at each address a pointer to the next one, at the last to the first, for `chase`."""
        ...

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """Run the probe once per placement, in order, and return ticks, int64, shape (repetitions, intervals).

        The first `warmup` placements are run but not returned. Raises `ProbeError` for a probe that makes no sense,
        `UnsupportedError` for an operation that the machine lacks, `ProbeFault` for a CPU exception."""
        ...

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """Run one probe on each CPU at once; every repetition starts together, and barriers meet. Ticks per CPU."""
        ...

    def close(self) -> None:
        """Give back everything the machine holds."""
        ...


@runtime_checkable
class BindsMemory(Protocol):
    """A machine with several memory nodes (`Facts.nodes`) that puts memory on one of them."""

    def bind(self, region: Region, node: int) -> bool:
        """Whether all touched pages of a region lie on a node now; those that are touched later are to come there."""
        ...


class PrefetcherSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """A switch of hardware prefetchers: its vendor's name for what it turns off, and the cache level whose accesses
    that watches, where the vendor says so. Which behaviour it is has to be measured."""

    name: str
    level: int | None = None


@runtime_checkable
class SwitchesPrefetchers(Protocol):
    """A machine whose hardware prefetchers can be switched off for a while: this CPU, where the kernel lets registers
    be written. A machine that never can need not have these methods."""

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        """The switches that there are; none where the machine has none. Nothing is changed by asking.

        Raises `UnsupportedError` where they can't be used, in one line that says why and what to do."""
        ...

    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> AbstractContextManager[None]:
        """Within the context, what these switches turn off is off for these CPUs. At its end the state from before is
        restored, and so it is if the process dies within it.

        Raises `UnsupportedError` where that can't be warranted, or where a switch was set and doesn't stay so."""
        ...


ENTRY_POINT_GROUP = "setebench.machines"


def open_machine(name: str = "native", *, cpu: int | None = None, seed: int = 1, msr: bool = False) -> Machine:
    """Open a machine by name: `native`, `sim:...`, `module:factory`, or a name of the entry-point group
    `setebench.machines`.

    A factory is called with the keyword arguments `cpu` and `seed` and returns a `Machine`. `msr` lets this CPU's
    prefetchers be switched off by its registers. Raises `UsageError` for a name that leads nowhere.
    """
    if name == "native":
        from setebench.native.machine import NativeMachine  # the extension is only loaded where it is used

        return NativeMachine(cpu=cpu, msr=msr)
    if name.startswith("sim:"):
        from setebench.sim import open_simulated

        return open_simulated(name.removeprefix("sim:"), seed=seed)
    return _plugin(name, cpu, seed)


def _plugin(name: str, cpu: int | None, seed: int) -> Machine:
    try:
        machine = _factory(name)(cpu=cpu, seed=seed)
    except SetebenchError:
        raise
    except (Exception, SystemExit) as error:  # another author's module may raise anything while it is imported
        raise UsageError(f"machine {name!r} can't be opened: {reason(error)}") from error
    if not isinstance(machine, Machine) or not isinstance(machine.facts, Facts):
        what = f"its factory returned a {type(machine).__name__}, which is no setebench.machine.Machine with Facts"
        raise SetebenchError(f"machine {name!r}: {what}")
    return machine


def _factory(name: str) -> Any:
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return entry.load()
    module, colon, attribute = name.partition(":")
    if not colon:
        raise UsageError(
            f"unknown machine {name!r}; use native, sim:NAME (see 'setebench sim list'), or module:factory"
        )
    return getattr(importlib.import_module(module), attribute)


def run_on(
    machine: Machine, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0
) -> dict[int, Ticks]:
    """One probe on each CPU, on several at once (`Machine.run_together`); where there is but one no thread is begun."""
    if len(probes) == 1:
        ((cpu, probe),) = probes.items()
        return {cpu: machine.run(probe, placements, cpu=cpu, warmup=warmup)}
    return machine.run_together(probes, placements, warmup=warmup)


def run_interleaved(
    machine: Machine,
    probes: Sequence[Probe],
    placements: Placements | Sequence[Placements],
    rng: np.random.Generator,
    *,
    cpu: int | None = None,
    block: int = 64,
    warmup: int = 2,
) -> list[Ticks]:
    """Run several probes on the same (or each on its own) placements, interleaved in blocks in random order.

    Drift of frequency and neighbours then falls on all of them alike. Each block first repeats, unrecorded, the last
    `warmup` placements before it: they warm the code without touching a line that is still to be timed. Returns one
    array per probe, rows in the order of its placements, whatever the order in which blocks ran.
    """
    own = list(placements) if isinstance(placements, Sequence) else [placements] * len(probes)
    tables = [placement_table(probe, each) for probe, each in zip(probes, own, strict=True)]
    results = [np.empty((len(rows), probe.intervals), np.int64) for probe, rows in zip(probes, tables, strict=True)]
    for begin in range(0, max(map(len, tables)), block):
        for which in rng.permutation(len(probes)):
            probe, rows = probes[which], tables[which]
            end = min(begin + block, len(rows))
            if begin < end:
                chosen = np.concatenate([np.arange(begin - warmup, begin) % len(rows), np.arange(begin, end)])
                places = {base: rows[chosen, index] for index, base in enumerate(probe.bases)}
                results[which][begin:end] = machine.run(probe, places or len(chosen), cpu=cpu, warmup=warmup)
    return results

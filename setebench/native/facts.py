"""What may be known of this CPU before measuring."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from setebench.errors import UnsupportedError
from setebench.host.environment import Environment
from setebench.host.tree import Tree
from setebench.machine import Facts
from setebench.native import _engine
from setebench.native.memory import HUGE_PAGE, SMALL_PAGE, available_bytes, map_region, memory_nodes
from setebench.native.stitching import available
from setebench.probe import ACCESS_SIZES, FENCES, FLUSHES, HINTS
from setebench.probe.kernels import KERNELS
from setebench.text import GIGA, ranges

PREFERRED = ("rdtscp", "lfence", "mfence", "cpuid", "rdpru")
"""Clock brackets in the order to take them in. By both vendors' manuals rdtscp waits for earlier loads by itself; an
lfence between the timed load and the clock adds six cycles to it on some cores in some states (Zen 3, measured). cpuid
may leave for a hypervisor. rdpru counts cycles, not ticks."""


def native_facts(environment: Environment, cpus: tuple[int, ...], cpu: int, ticks_per_second: float) -> Facts:
    """What may be known before measuring; probes run on `cpu` where none is named."""

    def has(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if available(f"{prefix}{name}"))

    usable = (tuple(cpu for cpu in group if cpu in cpus) for group in environment.topology.siblings or ())
    pages: tuple[int, ...] = (SMALL_PAGE,)
    with suppress(UnsupportedError):
        map_region(HUGE_PAGE, HUGE_PAGE, True)
        pages += (HUGE_PAGE,)
    return Facts(
        name=environment.cpu.name or "this CPU",
        kind="native",
        cpus=cpus,
        siblings=tuple(filter(None, usable)) or tuple((cpu,) for cpu in cpus),
        ticks_per_second=ticks_per_second,
        line_size=8 * (_engine.cpuid(1)[1] >> 8 & 0xFF),
        page_sizes=pages,
        memory_bytes=available_bytes() // 2,
        brackets=clock_brackets(),
        access_sizes=tuple(size for size in ACCESS_SIZES if available(f"load{size}")),
        prefetch_hints=prefetch_hints(),
        flushes=has("flush.", FLUSHES),
        fences=has("fence.", FENCES),
        kernels=tuple(
            name for name, one in KERNELS.items() if available(f"stream.{name}{'.8' if one.accesses else ''}")
        ),
        lines_per_second=GIGA * len(cpus),
        nodes=memory_nodes(Tree(Path("/"))),
        cpu=cpu,
        notes=_kinds_of_core(environment.topology.kinds or {}, cpu),
    )


def _kinds_of_core(kinds: Mapping[str, tuple[int, ...]], cpu: int) -> tuple[str, ...]:
    """A warning where there are several."""
    if len(kinds) < 2:
        return ()
    listed = "; ".join(f"{kind}: CPU {ranges(cpus)}" for kind, cpus in kinds.items())
    return (f"findings hold for the kind of core of CPU {cpu} alone; --cpu chooses another ({listed})",)


def prefetch_hints() -> tuple[str, ...]:
    """The prefetch instructions of this CPU, by their hints."""
    return tuple(hint for hint in HINTS if available(f"prefetch.{hint}"))


def clock_brackets() -> tuple[str, ...]:
    """The clock brackets of this CPU, the best first."""
    return tuple(name for name in PREFERRED if available(f"start.{name}"))

"""What may be known of this CPU before measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def native_facts(
    environment: Environment, cpus: tuple[int, ...], cpu: int, brackets: tuple[str, ...], ticks_per_second: float
) -> Facts:
    """What may be known before measuring; probes run on `cpu` where none is named."""

    def has(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if available(f"{prefix}{name}"))

    return Facts(
        name=environment.cpu.name or "this CPU",
        kind="native",
        cpus=cpus,
        siblings=_usable(environment.topology.siblings or (), cpus) or tuple((cpu,) for cpu in cpus),
        ticks_per_second=ticks_per_second,
        line_size=8 * (_engine.cpuid(1)[1] >> 8 & 0xFF),
        page_sizes=(SMALL_PAGE, HUGE_PAGE) if _huge_pages_on_offer() else (SMALL_PAGE,),
        memory_bytes=available_bytes() // 2,
        brackets=brackets,
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


def _usable(groups: Iterable[Iterable[int]], cpus: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The groups without CPUs that this process may not use."""
    usable = (tuple(cpu for cpu in group if cpu in cpus) for group in groups)
    return tuple(group for group in usable if group)


def prefetch_hints() -> tuple[str, ...]:
    """The prefetch instructions of this CPU, by their hints."""
    return tuple(hint for hint in HINTS if available(f"prefetch.{hint}"))


def _huge_pages_on_offer() -> bool:
    """Whether 2 MiB pages can be had, by taking one."""
    try:
        return bool(map_region(HUGE_PAGE, HUGE_PAGE, True))
    except UnsupportedError:
        return False

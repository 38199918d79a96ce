"""What a user may choose of streams: kernels, widths, numbers of threads and the CPUs that they run on."""

from __future__ import annotations

from collections.abc import Sequence

from setebench.errors import UnsupportedError, UsageError
from setebench.machine import Facts
from setebench.probe.kernels import KERNELS, Kernel
from setebench.results import Finding
from setebench.scenario import Option
from setebench.stats import decide

WIDTHS = {"scalar": 8, "16": 16, "32": 32, "64": 64}
"""Widths as parameters name them, and the bytes of an access."""

WIDTH = Option(
    name="width", help="Width of accesses; may be repeated. Default: the widest.", choices=tuple(WIDTHS), multiple=True
)


def without_kernels(facts: Facts) -> Finding:
    """The one finding of a machine that runs no streaming kernels."""
    return decide.unavailable("bandwidth", "GB/s", f"{facts.name} runs no streaming kernels")


def choose_cpus(facts: Facts, first: int | None, threads: int) -> tuple[int, ...]:
    """CPUs for so many threads, the one to measure on first, and one of every core before a second of any.

    Raises `UsageError` for more threads than CPUs."""
    if not 1 <= threads <= len(facts.cpus):
        raise UsageError(f"{threads} threads don't fit: {facts.name} has {len(facts.cpus)} CPUs to use")
    start = facts.cpus[-1] if first is None else first
    cores = [
        sorted((cpu for cpu in group if cpu in facts.cpus), key=lambda cpu: cpu != start) for group in facts.siblings
    ]
    cores.sort(key=lambda group: start not in group)
    depth = max(len(group) for group in cores)
    spread = [group[level] for level in range(depth) for group in cores if level < len(group)]
    return tuple(spread[:threads])


def widths_of(facts: Facts, wanted: Sequence[str] = ()) -> list[str]:
    """The widths to measure: those wanted, else the widest. Raises `UsageError` for one that the CPU lacks."""
    offered = [name for name, size in WIDTHS.items() if size in facts.access_sizes]
    lacking = [name for name in wanted if name not in offered]
    if lacking:
        raise UsageError(
            f"{facts.name} has no accesses of width {', '.join(lacking)}; it has {', '.join(offered) or 'none'}"
        )
    return list(dict.fromkeys(wanted)) or offered[-1:]


def kernels_of(facts: Facts, wanted: Sequence[str]) -> list[Kernel]:
    """Kernels by name. Raises `UnsupportedError` where the machine runs none or lacks one."""
    lacking = [name for name in wanted if name not in facts.kernels]
    if lacking:
        offered = ", ".join(facts.kernels) or "none"
        raise UnsupportedError(f"{facts.name} has no streaming kernel {', '.join(lacking)}; it has {offered}")
    return [KERNELS[name] for name in wanted]


def thread_counts(wanted: str | None, cpus: int) -> list[int]:
    """Numbers of threads: `1,2,4`, or `each`; one and all where nothing is wanted.

    Raises `UsageError` for anything else."""
    if not wanted:
        return sorted({1, cpus})
    if wanted == "each":
        return list(range(1, cpus + 1))
    try:
        return sorted({int(part) for part in wanted.split(",")})
    except ValueError:
        raise UsageError(f"--threads takes numbers such as 1,2,4, or each; not {wanted!r}") from None

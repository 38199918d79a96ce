"""Turn a user's options for bandwidth measurements into kernels, access widths, thread counts and CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from setebench.errors import UnsupportedError, UsageError
from setebench.machine import Facts
from setebench.probe.kernels import KERNELS, Kernel
from setebench.results import Finding
from setebench.scenario import Option
from setebench.stats import decide

WIDTHS = {"scalar": 8, "16": 16, "32": 32, "64": 64}
"""Bytes of an access by the name of its width, as used in options and parameter names."""

WIDTH = Option(
    name="width", help="Width of accesses; may be repeated. Default: the widest.", choices=tuple(WIDTHS), multiple=True
)


def without_kernels(facts: Facts) -> Finding:
    """Return the finding that bandwidth is unavailable, for a machine that can't run streaming kernels."""
    return decide.unavailable("bandwidth", "GB/s", f"{facts.name} runs no streaming kernels")


def choose_cpus(facts: Facts, first: int | None, threads: int) -> tuple[int, ...]:
    """Return a CPU for each of the `threads`, starting with `first` (None: the last CPU), and taking one CPU of every
    core before a second one of any core. Raises `UsageError` if there are more threads than CPUs."""
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
    """Return names of access widths to measure: `wanted` or the widest. Raises `UsageError` if the CPU lacks one."""
    offered = [name for name, size in WIDTHS.items() if size in facts.access_sizes]
    lacking = [name for name in wanted if name not in offered]
    if lacking:
        raise UsageError(
            f"{facts.name} has no accesses of width {', '.join(lacking)}; it has {', '.join(offered) or 'none'}"
        )
    return list(dict.fromkeys(wanted)) or offered[-1:]


def kernels_of(facts: Facts, wanted: Sequence[str]) -> list[Kernel]:
    """Return the kernels with the names `wanted`. Raises `UnsupportedError` if the machine lacks one of them."""
    lacking = [name for name in wanted if name not in facts.kernels]
    if lacking:
        offered = ", ".join(facts.kernels) or "none"
        raise UnsupportedError(f"{facts.name} has no streaming kernel {', '.join(lacking)}; it has {offered}")
    return [KERNELS[name] for name in wanted]


def thread_counts(wanted: str | None, cpus: int) -> list[int]:
    """Return the thread counts, ascending, that `wanted` (the option --threads) names: `1,2,4`, or `each` for 1 to
    `cpus`; without the option (None) 1 and `cpus`. Raises `UsageError` for anything else."""
    if not wanted:
        return sorted({1, cpus})
    if wanted == "each":
        return list(range(1, cpus + 1))
    try:
        return sorted({int(part) for part in wanted.split(",")})
    except ValueError:
        raise UsageError(f"--threads takes numbers such as 1,2,4, or each; not {wanted!r}") from None

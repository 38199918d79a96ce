"""How many of a core's counters are free, found by asking for them until there are none."""

from __future__ import annotations

from setebench.doctor import CounterReport
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Hardware, Type
from setebench.native.perf.kernel import Kernel, PerfError, close_all
from setebench.native.perf.messages import Request, counts_nothing, explain, no_counter, read_situation

MOST = 32
"""More than any core has."""
EVENT = Attributes(
    type=Type.HARDWARE,
    config=Hardware.BRANCH_INSTRUCTIONS,
    pinned=True,
    disabled=True,
    exclude_kernel=True,
    exclude_hv=True,
)
"""Every core has this event and none a fixed counter for it, so that it shows the counters that any event can use."""


def counter_report(kernel: Kernel = _perf, tree: Tree | None = None) -> CounterReport:
    """Open pinned events until one finds no counter, on the CPU under our feet. Raises nothing."""
    situation = read_situation(tree)
    fds: list[int] = []
    free, reason = 0, f"at least {MOST}"
    try:
        while free < MOST:
            fds.append(kernel.open_event(EVENT))
            kernel.enable(fds[-1])
            reading = kernel.read_values(fds[-1], 1)
            if reading is None:
                reason = no_counter(situation)
                break
            if not reading.values[0] and not _counts(kernel, fds[-1]):
                reason = counts_nothing(situation)
                break
            free += 1
    except PerfError as error:
        reason = explain(error.errno or 0, Request(attributes=EVENT), situation)
    finally:
        close_all(kernel, fds)
    return CounterReport(free=free, reason=reason)


def _counts(kernel: Kernel, fd: int) -> bool:
    """Whether branches are counted while Python runs some hundreds."""
    sum(range(100))
    reading = kernel.read_values(fd, 1)
    return reading is not None and reading.values[0] > 0

"""What the system says of counting events: PMUs, rights, and who else holds counters. Nothing is opened here."""

from __future__ import annotations

from functools import partial

import msgspec

from setebench.host.tree import Tree, parse_number

DEVICES = "sys/bus/event_source/devices"
CORE_PMUS = ("cpu", "cpu_core", "cpu_atom")
"""Names of PMUs of the cores: one, or one per kind of core."""
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
"""Bits of the capability sets: either lifts perf_event_paranoid (CAP_PERFMON since Linux 5.8)."""


class EventSources(msgspec.Struct, frozen=True, kw_only=True):
    """None: the system does not say.

    `pmus`: every PMU that the kernel drives, its own events included.
    `nmi_watchdog`: whether it holds a counter of each CPU. `privileged`: the right to count everything, whatever
    perf_event_paranoid says."""

    pmus: tuple[str, ...] | None = None
    nmi_watchdog: bool | None = None
    privileged: bool | None = None

    @property
    def core(self) -> tuple[str, ...]:
        """PMUs of the cores."""
        return tuple(name for name in self.pmus or () if name in CORE_PMUS)


def read_event_sources(tree: Tree) -> EventSources:
    """What the files below the tree's root say. Raises nothing."""
    names = tree.names(DEVICES, r"[A-Za-z0-9_.-]{1,64}")
    watchdog = tree.value("proc/sys/kernel/nmi_watchdog", parse_number)
    return EventSources(
        pmus=None if names is None else tuple(names),
        nmi_watchdog=None if watchdog is None else bool(watchdog),
        privileged=_privileged(tree),
    )


def _privileged(tree: Tree) -> bool | None:
    bits = tree.field("proc/self/status", "CapEff", partial(int, base=16))
    return None if bits is None else bool(bits >> CAP_SYS_ADMIN & 1 or bits >> CAP_PERFMON & 1)

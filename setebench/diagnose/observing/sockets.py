"""Traffic of each socket: events of memory controllers and links, by the CPU that stands for their socket."""

from __future__ import annotations

from pathlib import Path

import msgspec

from setebench.counters.protocol import Count
from setebench.diagnose.observing.work import NOTHING, Sums
from setebench.diagnose.records import Timeline
from setebench.host.tree import Tree, parse_number
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.program.opened import Counters, Opened


class SocketCounts:
    """Reads events of sockets apart at the end of every interval (a `native.perf.program.run.Beside`). What the last,
    shorter interval brings is left out."""

    def __init__(self, kernel: Kernel, tree: Tree | None = None) -> None:
        self._kernel, self._tree = kernel, tree or Tree(Path("/"))
        self._opened: list[Opened] = []
        self._counts: dict[int, dict[str, Count]] = {}
        self._seconds = 0.0

    def open(self, process: int, counters: Counters) -> None:
        """Events that are opened on CPUs and follow no thread."""
        self._opened = [each for each in counters.opened if each.counts and not each.wanted.of_threads]

    def tick(self, now: float) -> None:
        """Read them, from the begin on."""
        if self._opened:
            self._seconds = now
        for each in self._opened:
            for socket, own in self._by_socket(each).items():
                count = Count(
                    role=each.wanted.name, value=own.value, enabled=own.enabled, running=min(own.running, own.enabled)
                )
                self._counts.setdefault(socket, {})[each.wanted.name] = count

    def _by_socket(self, opened: Opened) -> dict[int, Sums]:
        """Counts in the role's unit. Descriptors lie in the order of terms and their CPUs."""
        found: dict[int, Sums] = {}
        cpus = [cpu for term in opened.wanted.plan.terms for cpu in term.cpus or ()]
        for descriptor, cpu in zip(opened.descriptors, cpus, strict=False):
            reading = self._kernel.read_values(descriptor.fd, 1)
            if reading is not None:
                socket, value = self._socket(cpu), round(reading.values[0] * descriptor.factor)
                known = found.get(socket, NOTHING)
                found[socket] = Sums(
                    known.value + value, known.enabled + reading.enabled, known.running + reading.running
                )
        return found

    def _socket(self, cpu: int) -> int:
        place = f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"
        return max(self._tree.value(place, parse_number) or 0, 0)

    def added_to(self, timeline: Timeline) -> Timeline:
        """The timeline with what was counted of each socket."""
        return msgspec.structs.replace(timeline, sockets=self._counts, socket_seconds=self._seconds)

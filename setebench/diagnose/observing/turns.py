"""Counting more roles than fit at once: sets of them by turns, one interval each.

The kernel would let events share counters, too, but for a few milliseconds each and at unknown times. Turns
of whole intervals are known, so each figure is made of intervals in which all of its roles were counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from setebench.counters.protocol import Count
from setebench.host.processor import read_processor
from setebench.host.tree import Tree, parse_number
from setebench.native.perf import _perf
from setebench.native.perf.constraints import CYCLES_COUNTER, grouped
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.tables import events_for

RESTING = "counted in other intervals: not all roles fit at once"

Sets = tuple[tuple[str, ...], ...]


def sets_of(roles: Sequence[str], always: Sequence[str], tree: Tree | None = None) -> Sets:
    """The roles that this processor's table has, in few sets that can each be counted at once, beside those that are
    `always` counted; none where one set holds them all, or where there is no table."""
    files = tree or Tree(Path("/"))
    known = events_for(read_processor(files))
    wanted = {role: known[role] for role in roles if role in known}
    watched = files.value("proc/sys/kernel/nmi_watchdog", parse_number) == 1
    found = grouped(wanted, {CYCLES_COUNTER} if watched else set(), always)
    return found if len(found) > 1 else ()


class Turns:
    """Switches open counters from set to set at the end of every interval (a `native.perf.program.run.Beside`)."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._counters: Counters | None = None
        self._number = 0

    def open(self, process: int, counters: Counters) -> None:
        """Nothing rests in the first interval, which may begin with the program's exec; what then shares a counter says
        so itself."""
        self._counters = counters

    def tick(self, now: float) -> None:
        """The next set's turn."""
        if self._counters is None or not self._sets:
            return
        self._number += 1
        rests = resting(self._sets, self._number)
        turning = {role for each in self._sets for role in each}
        for opened in self._counters.opened:
            if opened.wanted.name in turning:
                switch = _perf.disable if opened.wanted.name in rests else _perf.enable
                for descriptor in opened.descriptors:
                    switch(descriptor.fd)


def resting(sets: Sets, number: int) -> set[str]:
    """Roles whose turn it is not in interval `number`."""
    if not sets or not number:
        return set()
    return {role for each in sets for role in each} - set(sets[(number - 1) % len(sets)])


def without_resting(counts: Mapping[str, Count], sets: Sets, number: int) -> dict[str, Count]:
    """The counts of interval `number`, without those of roles whose turn it was not."""
    rests = resting(sets, number)
    return {
        role: Count(role=role, reason=RESTING) if role in rests and count.value is not None else count
        for role, count in counts.items()
    }

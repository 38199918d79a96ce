"""The capability of a machine to count events, in roles. Optional, as all of `setebench.machine`'s capabilities are.

`run` goes on returning ticks and nothing else; what is counted comes by a context around it:

    with machine.count_events(("l1d_fill", "cycles")) as counting:
        machine.run(probe, placements)
        counts = counting.read()
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What one role's counter says of the runs so far, summed over the CPUs that ran. Missing is None with a `reason`,
    never 0. `enabled` and `running` are nanoseconds: a counter that shared its register with others ran for a part of
    the time, and its value is what it counted then, never scaled up."""

    role: str
    value: int | None = None
    reason: str = ""
    enabled: int = 0
    running: int = 0

    @property
    def shared(self) -> bool:
        """Whether the counter had its register for only a part of the time (multiplexing)."""
        return self.value is not None and self.running < self.enabled

    @property
    def whole(self) -> int | None:
        """The value where the counter had its register all the time."""
        return None if self.shared else self.value


class Counting(Protocol):
    """Counters that are open: they see what `Machine.run` and `run_together` run within the context, and, where an
    event's scope is a core or a socket, what others do there at that time."""

    def read(self) -> dict[str, Count]:
        """Counts of every role that is counted, from the begin of the context to now."""
        ...


@runtime_checkable
class CountsEvents(Protocol):
    """A machine that counts events: this CPU, where the kernel lets it; simulated machines with a PMU; plug-ins."""

    def event_roles(self) -> dict[str, str]:
        """The roles (names of `setebench.counters.roles.ROLES`) of which this machine knows an event, each with "" or
        with the one-line reason why it can't be counted here and now. Nothing is counted for that."""
        ...

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """These roles in as few groups as can each be counted at once, without taking turns on a register.

        Raises `UsageError` for a role that `event_roles` doesn't name."""
        ...

    def count_events(self, roles: Sequence[str]) -> AbstractContextManager[Counting]:
        """Count these roles at once, within the context.

        A role that can't be counted has a `Count` with a reason. Raises `UsageError` as `event_groups` does."""
        ...

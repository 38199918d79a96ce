"""What can be counted here: every role, and on request every event that the kernel names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from setebench.counters.roles import ROLES
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.messages import Situation, read_situation
from setebench.native.perf.plans import SYSTEM_PLANS, countable
from setebench.native.perf.program.native import NativeResolver
from setebench.native.perf.program.wanted import Resolver, Wanted, system_event


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be asked for, its meaning, and the `reason` why it can't be counted here; "" where it can."""

    wanted: Wanted
    meaning: str
    reason: str = ""


def offered(everything: bool) -> list[Offer]:
    """What this machine offers; with `everything` also the events that its kernel names. Opens each event and closes it
    again; counts nothing."""
    tree = Tree(Path("/"))
    situation = read_situation(tree)
    return list(offers(NativeResolver(tree, situation), _perf, situation, everything))


def offers(resolver: Resolver, kernel: Kernel, situation: Situation, everything: bool) -> Iterator[Offer]:
    """See `offered`."""
    for role in ROLES.values():
        wanted = system_event(role.name) if role.name in SYSTEM_PLANS else resolver.of_role(role.name)
        yield Offer(wanted=wanted, meaning=role.meaning, reason=countable(kernel, wanted.plan, situation).reason)
    if not everything:
        return
    for pmu in situation.pmus.values():
        for name, event in pmu.events.items():
            wanted = resolver.of_text(f"{pmu.name}/{name}/")
            meaning = f"named by the kernel: {event.text}"
            yield Offer(wanted=wanted, meaning=meaning, reason=countable(kernel, wanted.plan, situation).reason)

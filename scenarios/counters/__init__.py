"""Whether each event that the machine counts counts what its role says.

Workloads whose events are known beforehand (`workloads`) run under every event, in several amounts and over epochs
(`observe`). What an event counted is compared with what it should have (`judge`): a verdict of each, with the
scale of one count, the level whose traffic it tracks, and whether prefetched lines are in it. Events are known by role
alone; which event of which CPU plays a role is the machine's to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from setebench.counters.counting import countable, hardware_roles
from setebench.counters.roles import ROLES
from setebench.counters.verdicts import Kind
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide

from .judge import Verdict, judge
from .observe import Evidence, Observed
from .params import Params
from .workloads import Battery

METHOD = "counts of workloads of known volume, over epochs"


def answer(context: Context) -> Iterator[Finding]:
    """Yield what was found of the event of every chosen role (by default: all that the machine has, but the kernel's
    own).

    Raises `UnsupportedError` on a machine that counts no events."""
    offered = hardware_roles(context.machine)
    wanted = tuple(context.options.get("role") or offered)
    roles = countable(context.machine, wanted)
    params = Params().quicker() if context.fast else Params()
    with ExitStack() as stack:
        battery = Battery(context, params, stack)
        evidence = Evidence(battery.workloads, battery.levels, params, {role: Observed() for role in roles})
        for epoch in range(params.epochs):
            evidence.observe(context, roles, epoch)
    context.evidence["counts"] = evidence.table()
    for role in wanted:
        refusal = offered.get(role, "this machine knows no event for it")
        unavailable = Verdict(role=role, kinds=(Kind.UNAVAILABLE,), reason=refusal)
        yield from of_verdict(unavailable if refusal else judge(role, evidence))


def of_verdict(verdict: Verdict) -> Iterator[Finding]:
    """What is reported of one event."""
    name = f"counter.{verdict.role}"
    if not verdict.kinds:
        yield decide.unresolved(f"{name}.verdict", "list", verdict.reason, METHOD)
        return
    # that there is no count is a verdict, too
    kinds, evidence = [kind.value for kind in verdict.kinds], "" if Kind.UNAVAILABLE in verdict.kinds else "counts"
    yield decide.chosen(f"{name}.verdict", kinds, "list", verdict.reason or METHOD, evidence)
    if verdict.scale is not None:
        yield decide.measured(f"{name}.scale", verdict.scale, "ratio", METHOD)
    if verdict.level:
        yield decide.chosen(f"{name}.level", verdict.level, "string", METHOD)
    if verdict.includes_prefetch is not None:
        yield decide.chosen(f"{name}.includes_prefetch", verdict.includes_prefetch, "bool", METHOD)


SCENARIO = Scenario(
    name="counters",
    summary="Check whether each event that the machine counts counts what it should.",
    answer=answer,
    parameters=("counter.",),
    options=(
        Option(name="role", help="Only this role (may be repeated).", multiple=True, choices=tuple(sorted(ROLES))),
    ),
    order=90,
    on_request=True,
    needs=("clock", "levels"),
)

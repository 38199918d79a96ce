"""Checks of hardware events: whether the event that stands for a role (`counters.roles`) counts what the role says.

Workloads that cause a known number of events (`workloads`) run several times, in different amounts, while each event is
counted (`observe`). The counts are compared with the known numbers (`judge`). The result per event is a verdict, the
scale of one count, the cache level whose traffic it tracks, and whether it includes prefetched lines. This scenario
only knows roles; the machine knows which event of its CPU stands for which role.
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
    """Yield findings for every role that the user chose, by default for all hardware events that the machine knows;
    roles that can't be counted are unavailable. Raises `UnsupportedError` where the machine counts no events."""
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
    """Yield the findings of one event: its verdict, and where known scale, level and whether it includes prefetches."""
    name = f"counter.{verdict.role}"
    if not verdict.kinds:
        yield decide.unresolved(f"{name}.verdict", "list", verdict.reason, METHOD)
        return
    # an event that can't be counted has a verdict, too, but no evidence
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

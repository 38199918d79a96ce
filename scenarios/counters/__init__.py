"""Whether each event that the machine counts counts what its role says.

Workloads whose events are known beforehand (`workloads`) run under every event, in several amounts and over epochs
(`observe`). What an event counted is compared with what it should have (`lines`, `cycles`): a verdict of each, with the
scale of one count, the level whose traffic it tracks, and whether prefetched lines are in it. Events are known by role
alone; which event of which CPU plays a role is the machine's to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from setebench.counters.counting import countable, hardware_roles
from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind, Verdict
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from .battery import Battery
from .cycles import judge_cycle_event
from .findings import of_verdict
from .lines import PAIRS, judge_instruction_event, judge_line_event
from .observe import observe, observe_epoch
from .params import Params
from .plot import draw
from .readings import Evidence, unusable


def answer(context: Context) -> Iterator[Finding]:
    """Yield what was found of each event. Raises `UnsupportedError` on a machine that counts no events."""
    for verdict in validate(context):
        yield from of_verdict(verdict)


def validate(context: Context) -> Iterable[Verdict]:
    """The verdict on the event of every role asked for (by default: all that the machine has, but the kernel's own)."""
    offered = hardware_roles(context.machine)
    wanted = tuple(context.options.get("role") or offered)
    roles = countable(context.machine, wanted)
    params = Params().quicker() if context.fast else Params()
    with closing(Battery(context, params)) as battery:
        works = battery.workloads
        observations = observe(context, works, roles, params)
        by_name = {work.name: work for work in works}
        evidence = Evidence(observations, by_name, params, battery.prefetched, battery.levels.numbered)
        for epoch in range(params.epochs, params.most_epochs):
            still_open = tuple(role for role in roles if _needs_more(role, evidence))
            if not still_open:
                break
            observe_epoch(context, works, still_open, evidence.observations, epoch)
    context.evidence["counts"] = evidence.table()
    return [_judge(role, offered.get(role, "this machine knows no event for it"), evidence) for role in wanted]


def _needs_more(role: str, evidence: Evidence) -> bool:
    """Whether further epochs may decide an event: its scale is known, but not well enough."""
    verdict = _judge(role, "", evidence)
    return not verdict.kinds and verdict.scale is not None


def _judge(role: str, refusal: str, evidence: Evidence) -> Verdict:
    if refusal:
        return Verdict(role=role, kinds=(Kind.UNAVAILABLE,), reason=refusal)
    early = unusable(role, evidence.observations.roles[role])
    if early is not None:
        return early
    if role in PAIRS or role == "fp_op":
        return judge_instruction_event(role, evidence)
    if ROLES[role].quantity in (Quantity.CYCLES, Quantity.OCCUPANCY):
        return judge_cycle_event(role, evidence)
    return judge_line_event(role, evidence)


SCENARIO = Scenario(
    name="counters",
    summary="Check whether each event that the machine counts counts what it should.",
    answer=answer,
    parameters=("counter.",),
    options=(
        Option(name="role", help="Only this role (may be repeated).", multiple=True, choices=tuple(sorted(ROLES))),
    ),
    plot=draw,
    order=90,
    seconds=30.0,
    on_request=True,
    needs=("clock", "levels"),
)

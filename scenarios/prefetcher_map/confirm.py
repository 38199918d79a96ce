"""Switching prefetchers off, one by one, and looking what is gone: a second way to what timing alone has found.

Where a machine lets its prefetchers be switched off, each one's sign is looked for with every switch off alone, and
with all on before and after, so that what comes and goes by itself confirms nothing. A switch that reads as set may do
nothing in a guest: what is believed is what changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from setebench.errors import SetebenchError
from setebench.machine import Machine, PrefetcherSwitch, SwitchesPrefetchers
from setebench.results import Finding, Outcome
from setebench.scenario import Context

from .rules import Asker

EVIDENCE = "prefetcher_switches"
PRESENT = ".present"


def confirmed(context: Context, asker: Asker, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with what switching says of each prefetcher that is reported to be there. Nothing is changed where
    the machine has no switches or may not use them. What only another level's switches remove is not what it was taken
    for: it is open then, and its rules are not reported."""
    there = [_owner(finding) for finding in findings if finding.parameter.endswith(PRESENT) and finding.value is True]
    try:
        removing = _removing(asker, context.machine, there)
    except SetebenchError as error:  # also where they could not be switched on again: what was found stays
        context.evidence[EVIDENCE] = {"reason": str(error)}
        context.progress(str(error))
        return list(findings)
    found = []
    for finding in findings:
        name, present = _owner(finding), finding.parameter.endswith(PRESENT)
        switches = removing.get(name, ())
        names = " or ".join(switch.name for switch in switches)
        if switches and {switch.level for switch in switches}.isdisjoint({None, int(name[1])}):
            reason = f"timing finds it at level {name[1]}, but switching {names} off removes it: another's"
            doubtful = msgspec.structs.replace(finding, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
            found += [doubtful] if present else []
        elif switches and present:
            method = f"{finding.method}; confirmed: switching {names} off removes it"
            found.append(msgspec.structs.replace(finding, method=method))
        else:
            found.append(finding)
    return found


def _removing(asker: Asker, machine: Machine, there: Sequence[str]) -> dict[str, list[PrefetcherSwitch]]:
    """By prefetcher the switches of which each alone removes its lines, and only while it is off."""
    context = asker.trials.context
    if not isinstance(machine, SwitchesPrefetchers) or not (switches := machine.prefetcher_switches()):
        return {}
    signs = {name: sign for name in there if name in asker.fit.model and (sign := asker.sign(name)) is not None}

    def shown() -> dict[str, bool | None]:
        return {name: asker.comes(sign.accesses, sign.line) for name, sign in signs.items()}

    removing: dict[str, list[PrefetcherSwitch]] = {name: [] for name in signs}
    before = shown()
    for switch in switches:
        context.progress(f"prefetcher off: {switch.name}")
        with machine.prefetchers_off((switch.name,), (context.own_cpu,)):
            off = shown()
        after = shown()
        for name in signs:
            if before[name] and off[name] is False and after[name]:
                removing[name].append(switch)
        before = after
    names = {name: [switch.name for switch in each] for name, each in removing.items()}
    context.evidence[EVIDENCE] = {"removed_by": names, "effective": any(names.values())}
    return removing


def _owner(finding: Finding) -> str:
    return finding.parameter.rpartition(".")[0].removeprefix("prefetcher.")

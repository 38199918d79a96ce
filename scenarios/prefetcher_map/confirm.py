"""Confirmation of prefetchers by switching them off one by one: a second method besides timing alone.

On machines that can switch prefetchers off, a line that one prefetcher alone prefetches (`rules.Sign`) is probed with
every single switch off, and with all on before and after, so that a line that varies by itself confirms nothing. In a
guest, a switch may read as set and yet do nothing: only a line that disappears counts.
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
    """Return the findings, with the switches that remove a prefetcher noted in the finding on its presence. Nothing
    changes where the machine has no switches or may not use them. If only switches of another level remove a
    prefetcher, its presence becomes unresolved, and the findings on its rules are left out."""
    there = [_owner(finding) for finding in findings if finding.parameter.endswith(PRESENT) and finding.value is True]
    try:
        removing = _removing(asker, context.machine, there)
    except SetebenchError as error:  # even if they could not be switched on again, findings stay
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
    """Return by prefetcher the switches that remove its line, each one alone, and only while it is off."""
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

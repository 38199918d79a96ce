"""Switching prefetchers off, one by one, and looking what is gone: a second way to what timing alone has found.

Where a machine lets its prefetchers be switched off, each one's sign is asked with every switch off alone and with all
of them off, and with all on before and after each, so that what comes and goes by itself confirms nothing. A switch
that reads as set may do nothing in a guest: what is believed is what changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from setebench.errors import SetebenchError
from setebench.machine import PrefetcherSwitch, SwitchesPrefetchers
from setebench.results import Finding, Outcome
from setebench.scenario import Context

from .rules import Asker, Sign

EVIDENCE = "prefetcher_switches"
PRESENT = ".present"

Gone = dict[str, bool | None]
"""By identity whether a prefetcher's lines were gone; None where that stays unclear."""


@dataclass(frozen=True)
class Tried:
    """What was gone with each switch off alone, in the order of the switches, and with all of them off."""

    switches: tuple[PrefetcherSwitch, ...]
    alone: tuple[Gone, ...]
    together: Gone

    @property
    def effective(self) -> bool:
        """Whether switching changed anything at all."""
        return any(True in gone.values() for gone in (*self.alone, self.together))

    def removing(self, identity: str) -> list[PrefetcherSwitch]:
        """The switches of which each alone removes that prefetcher's lines."""
        return [switch for switch, gone in zip(self.switches, self.alone, strict=True) if gone.get(identity)]


def confirmed(context: Context, asker: Asker, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with what switching says of each prefetcher that is reported to be there. Nothing is changed where
    the machine has no switches or may not use them."""
    machine = context.machine
    if not isinstance(machine, SwitchesPrefetchers):
        return list(findings)
    there = [owner(finding).removeprefix("prefetcher.") for finding in findings if _there(finding)]
    try:
        switches = machine.prefetcher_switches()
        if not switches:
            return list(findings)
        signs = {name: sign for name in there if name in asker.fit.model and (sign := asker.sign(name)) is not None}
        tried = _try_all(asker, machine, switches, signs)
    except SetebenchError as error:  # also where they could not be switched on again: what was found stays
        context.evidence[EVIDENCE] = {"reason": str(error)}
        context.progress(str(error))
        return list(findings)
    alone = {switch.name: gone for switch, gone in zip(switches, tried.alone, strict=True)}
    context.evidence[EVIDENCE] = {"gone": alone, "gone_with_all_off": tried.together, "effective": tried.effective}
    if not tried.effective:
        context.progress("prefetcher switches were set and read as set, but nothing changed: they are not believed")
    return with_switches(findings, tried)


def _try_all(
    asker: Asker, machine: SwitchesPrefetchers, switches: tuple[PrefetcherSwitch, ...], signs: Mapping[str, Sign]
) -> Tried:
    context = asker.trials.context

    def shown() -> Gone:
        """Whether each shows now."""
        return {name: asker.comes(sign.accesses, sign.line) for name, sign in signs.items()}

    everything = tuple(switch.name for switch in switches)
    before, gone = shown(), []
    for names in (*((name,) for name in everything), everything):
        context.progress(f"prefetchers off: {', '.join(names)}")
        with machine.prefetchers_off(names, (context.own_cpu,)):
            off = shown()
        after = shown()
        gone.append({name: _is_gone(before[name], off[name], after[name]) for name in off})
        before = after
    return Tried(switches, tuple(gone[:-1]), gone[-1])


def _is_gone(before: bool | None, off: bool | None, after: bool | None) -> bool | None:
    """Whether something was gone while a switch was off, and only then."""
    if off:
        return False
    return True if before and after and off is False else None


def with_switches(findings: Sequence[Finding], tried: Tried) -> list[Finding]:
    """The findings with what switching says. What only another level's switches remove is not what it was taken for:
    it is open then, and its rules are not reported."""
    said = [_with_switches(each, tried) if _there(each) else each for each in findings]
    opened = {owner(each) for each, before in zip(said, findings, strict=True) if _there(before) and not _there(each)}
    return [each for each in said if each.parameter.endswith(PRESENT) or owner(each) not in opened]


def owner(finding: Finding) -> str:
    """The prefetcher that a finding is about."""
    return finding.parameter.rpartition(".")[0]


def _there(finding: Finding) -> bool:
    return finding.parameter.endswith(PRESENT) and finding.value is True


def _with_switches(finding: Finding, tried: Tried) -> Finding:
    identity = owner(finding).removeprefix("prefetcher.")
    removing = tried.removing(identity)
    names = " or ".join(switch.name for switch in removing)
    if removing and not any(switch.level in (None, int(identity[1])) for switch in removing):
        reason = f"timing finds it at level {identity[1]}, but switching {names} off removes it: another's"
        return msgspec.structs.replace(finding, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
    together = tried.together.get(identity)
    what = f"confirmed: switching {names} off removes it" if removing else ""
    if together and not what:
        what = "switching all prefetchers off removes it, no switch alone does"
    elif together is False and tried.effective and not what:
        what = "no switch removes it"
    return msgspec.structs.replace(finding, method=f"{finding.method}; {what}") if what else finding

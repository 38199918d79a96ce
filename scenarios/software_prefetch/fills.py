"""Where prefetched lines land, by hint, at several times of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from setebench.experiments.bursts.controls import NONE, UNSTEADY
from setebench.probe import HINTS
from setebench.results import Finding
from setebench.stats import decide

from .trials import QUIETER, Answer, Trials


def sample(trials: Trials) -> None:
    """Sample which level each hint fills now, and choose the hint for what follows. This is done between other
    questions too, as some CPUs ignore some hints for seconds on end."""
    for hint in trials.context.machine.facts.prefetch_hints:
        trials.fills.setdefault(hint, []).append(trials.controls.landed(hint))
    trials.context.evidence["landed"] = trials.fills
    trials.hint = chosen(trials.fills)


def chosen(fills: Mapping[str, Sequence[str]]) -> str:
    """A hint that does something; one that fills level 1 if there is one, and rather one that always does."""
    working = [hint for hint, found in fills.items() if landed(found).value not in (None, NONE)]
    return min(working, key=lambda hint: (len(set(fills[hint])), landed(fills[hint]).value != "l1"), default="")


def landed(found: Sequence[str]) -> Answer:
    """Infer the level that a hint fills: the one level of all samples in which it did something steadily."""
    levels = {level for level in found if level not in (NONE, UNSTEADY)}
    silent = sum(level == NONE for level in found)
    if len(levels) == 1:
        (level,) = levels
        return Answer(level, remark=f"ignored altogether in {silent} of {len(found)} samples" if silent else "")
    if silent == len(found):
        return Answer(NONE)
    return Answer(reason=f"samples at {len(found)} times say {', '.join(found)}; {QUIETER}")


def answers(fills: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """By hint, with `none` only where no hint does anything. On a core that honours other hints, one that did nothing
    may do more at other times: a Zen core in a guest ignored t1 and t2 for seconds, then honoured them."""
    found = {hint: landed(each) for hint, each in fills.items()}
    if all(each.value == NONE for each in found.values()):
        return found
    why = f"it did nothing at any time, but some CPUs ignore a hint for seconds on end; {QUIETER}"
    return {hint: Answer(reason=why) if each.value == NONE else each for hint, each in found.items()}


def findings(trials: Trials) -> Iterator[Finding]:
    """The level that each hint brings a line to from memory."""
    found = answers(trials.fills)
    for hint in HINTS:
        name = f"software_prefetch.fills.{hint}"
        if hint in found:
            yield found[hint].finding(name, "string", "lines in memory, prefetched, then loaded", "landed")
        else:
            yield decide.unavailable(name, "string", f"this machine has no prefetch hint {hint}")

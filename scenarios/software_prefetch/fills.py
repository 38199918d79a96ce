"""The cache level into which each prefetch hint loads lines, sampled several times during a run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from setebench.experiments.bursts.controls import NONE, UNCLEAR, UNSTEADY
from setebench.probe import HINTS
from setebench.results import Finding
from setebench.stats import decide

from .trials import QUIETER, Answer, Trials

REST_SECONDS = 1.0
"""How long the core rests before hints that did nothing are tried again; a third of that often didn't suffice."""


def sample(trials: Trials) -> None:
    """Sample which level each hint fills now, add that to `trials.fills`, and choose `trials.hint` for the other
    questions. Call it between these questions: some CPUs ignore some hints for seconds, so samples must be spread over
    the run. A Zen 4 in a guest ignores t1 and t2 after some thousands of them, until its core has rested: so a hint
    that has done nothing so far is sampled once more after a rest."""
    for hint in trials.context.machine.facts.prefetch_hints:
        level, before = trials.controls.landed(hint), trials.fills.setdefault(hint, [])
        if {level, *before} == {NONE}:
            time.sleep(REST_SECONDS)
            level = trials.controls.landed(hint)
        before.append(level)
    trials.context.evidence["landed"] = trials.fills
    trials.hint = chosen(trials.fills)


def chosen(fills: Mapping[str, Sequence[str]]) -> str:
    """Return the hint that works and whose samples agree best, "" if none works; of several one that fills L1. `fills`
    has, by hint, the level that it filled in each sample."""
    working = [hint for hint, found in fills.items() if landed(found).value not in (None, NONE)]
    return min(working, key=lambda hint: (len(set(fills[hint])), landed(fills[hint]).value != "l1"), default="")


def landed(found: Sequence[str]) -> Answer:
    """Infer the level that a hint fills from its samples: all in which it worked steadily must show the same level."""
    levels = {level for level in found if level not in (NONE, UNSTEADY, UNCLEAR)}
    silent = sum(level == NONE for level in found)
    if len(levels) == 1:
        (level,) = levels
        return Answer(level, remark=f"ignored altogether in {silent} of {len(found)} samples" if silent else "")
    if silent == len(found):
        return Answer(NONE)
    return Answer(reason=f"samples at {len(found)} times say {', '.join(found)}; {QUIETER}")


def answers(fills: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """Return the level that each hint fills. A hint that did nothing gets `none` only if no hint does anything, else no
    value: it may work later, as a Zen core in a guest ignored t1 and t2 for seconds, then honoured them."""
    found = {hint: landed(each) for hint, each in fills.items()}
    if all(each.value == NONE for each in found.values()):
        return found
    why = f"it did nothing at any time, but some CPUs ignore a hint for seconds on end; {QUIETER}"
    return {hint: Answer(reason=why) if each.value == NONE else each for hint, each in found.items()}


def findings(trials: Trials) -> Iterator[Finding]:
    """Yield for each hint the level into which it loads a line from memory."""
    found = answers(trials.fills)
    for hint in HINTS:
        name = f"software_prefetch.fills.{hint}"
        if hint in found:
            yield found[hint].finding(name, "string", "lines in memory, prefetched, then loaded", "landed")
        else:
            yield decide.unavailable(name, "string", f"this machine has no prefetch hint {hint}")

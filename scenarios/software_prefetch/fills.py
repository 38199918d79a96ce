"""Where prefetched lines land, by hint, from samples at many times."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from setebench.experiments.lines.serving import PARAMS as SERVING
from setebench.machine import Ticks
from setebench.probe import HINTS
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.ticks.mixture import Shares

from . import answers
from .answers import Answer, Between
from .run import Run, Way, nothing, prefetched


def choose_hint(run: Run) -> None:
    """First samples, which find the hint that other questions are asked with: so many at most until one shows a hint
    that fills the first level, as any core has; a sample may be disturbed."""
    for _ in range(run.params.first_samplings):
        look_again(run)
        run.hint = chosen(landed(run), run.ignored)
        if not run.fills or (run.hint not in run.ignored and run.hint and run.fills[run.hint].value == "l1"):
            return


def look_again(run: Run) -> None:
    """One more look at lines from memory: what a hint does changes with time on some CPUs."""
    run.samplings.append(_look(run, "memory"))
    run.refresh_references(run.samples // 8)


def _look(run: Run, source: str) -> dict[str, Ticks]:
    """Loads of lines that were in `source`, after each hint and after none (the empty name)."""
    run.context.progress(f"where prefetched lines land, from {source}")
    hints = run.context.machine.facts.prefetch_hints
    ways: dict[str, Way] = {hint: prefetched(hint) for hint in hints} | {"": nothing}
    return run.side_by_side(source, ways, run.samples // 4)


def landed(run: Run) -> dict[str, Answer]:
    """Where each hint's lines landed in all samples together."""
    honoured = {name: _honoured(run, name) for name in run.samplings[0]}
    run.ignored = {name for name, each in honoured.items() if each[1]}
    ticks = {name: each[0] for name, each in honoured.items()}
    shares = run.shares(*ticks.values())
    rows = {name: number for number, name in enumerate(ticks)}
    found = {
        hint: replace(_landed(run, ticks[hint], shares, row, rows[""]), remark=honoured[hint][1])
        for hint, row in rows.items()
        if hint
    }
    run.landed["memory"] = {name: shares.value[row].round(4).tolist() for name, row in rows.items()}
    found = answers.without_silent(found, SERVING.layouts * len(run.samplings))
    run.fills = answers.numbered(found, run.references.levels)
    return run.fills


def _honoured(run: Run, hint: str) -> tuple[Ticks, str]:
    """A hint's loads from all samples, without those of layouts in which it did nothing at all, and how many these
    were; but all of them where it never did anything."""
    layouts = [part for look in run.samplings for part in np.array_split(look[hint], SERVING.layouts)]
    ignored = run.ignored_in(layouts)
    if not hint or ignored.all() or not ignored.any():
        return np.concatenate(layouts), ""
    kept = [part for part, none in zip(layouts, ignored, strict=True) if not none]
    return np.concatenate(kept), f"ignored altogether in {ignored.sum()} of {len(layouts)} turns"


def _landed(run: Run, ticks: Ticks, shares: Shares, row: int, baseline: int) -> Answer:
    found = answers.landed(shares, row, baseline, run.params)
    seen, per_tick = answers.between(run.references.ticks, ticks, shares, row, run.step), run.cycles_per_tick()
    seen = Between(seen.apart * per_tick, seen.error * per_tick, seen.cycles * per_tick)
    return answers.unless_between(found, seen, run.context.calibration.level_cycles["l1"], run.params)


def findings(run: Run) -> Iterator[Finding]:
    """The level that each hint brings a line to: from memory as findings, from nearer levels as evidence.

    Samples from memory come before, between and after all other questions: some CPUs ignore some hints for milliseconds
    or seconds on end, and such a while must not be reported as what the hint does."""
    for source in [name for name in reversed(run.references.levels) if name not in ("l1", "memory")]:
        ticks = _look(run, source)
        shares = run.shares(*ticks.values())
        run.landed[source] = {name: each.round(4).tolist() for name, each in zip(ticks, shares.value, strict=True)}
    look_again(run)
    found = landed(run)
    run.context.evidence["landed"] = {"levels": list(run.references.levels), "shares": run.landed}
    for hint in HINTS:
        name = f"software_prefetch.fills.{hint}"
        if hint in found:
            yield found[hint].finding(name, "string", "lines in memory, prefetched, then loaded", "landed")
        else:
            yield decide.unavailable(name, "string", f"this machine has no prefetch hint {hint}")


def chosen(fills: dict[str, Answer], ignored: Collection[str] = ()) -> str:
    """A hint that does something; one that fills level 1 if there is one, and rather one that no turn `ignored`."""
    working = [hint for hint, answer in fills.items() if answer.value not in (None, "none")]
    return min(working, key=lambda hint: (hint in ignored, fills[hint].value != "l1"), default="")

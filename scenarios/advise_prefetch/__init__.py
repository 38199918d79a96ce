"""Advice on software prefetches for a loop: which hint, how many iterations ahead, and whether they pay, proven by
timing (Fang et al. 2014, section 7).

Two formulas over measured latencies and miss queues give some distances; those and a sweep of distances are timed in
interleaved rounds beside no prefetch: a third of them choose what is advised, others time it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from setebench import files
from setebench.errors import ProbeError, UnsupportedError, UsageError
from setebench.loops import LOOP_NAMES, Loop, Policy
from setebench.loops.advice import START, Advice, Advisor, loop_of
from setebench.loops.shapes import shape
from setebench.loops.traces import loops_of
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats.decide import absent, measured, unavailable
from setebench.stats.decide import chosen as one_of
from setebench.stats.estimate import Interval

from .figure import advice_figure
from .proof import HOLDS_AGAINST, Bench, Params, Proof, prove

METHOD = "distances and hints of two formulas and of a sweep; proven in interleaved rounds"
EVIDENCE = "advice"
MOST_BYTES = 1 << 16
"""Largest size in bytes of a TOML file that describes a loop."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the advice for each chosen loop, with the measurements that prove it. A loop that a file describes can't be
    run: its advice, from formulas alone, is stored as evidence, and no finding is yielded."""
    if described := context.options.get("describe"):  # nothing is timed, so there is nothing to report
        advisor = _advisor(context, loop := read_loop(described))
        context.evidence["described"] = {"advice": advisor.advice(advisor.choice(), START), "loop": loop}
        return
    params = Params().faster() if context.fast else Params()
    stored: dict[str, Any] = {}
    context.evidence["advice"] = stored
    with loops_of(context.machine) as loops:
        for name in tuple(context.options.get("kernel") or ()) or LOOP_NAMES:
            try:
                yield from _advised(Bench(context, loops, params), name, stored)
            except (UnsupportedError, ProbeError) as error:  # this loop alone: the machine may run the others
                yield unavailable(f"advice.{name}.strategy", "string", str(error))


def _advised(bench: Bench, name: str, stored: dict[str, Any]) -> Iterator[Finding]:
    """Yield the findings of the built-in loop `name`: try prefetch policies, prove the best. Its evidence are the
    advice, the loop's description, and cycles per iteration of each policy."""
    bench.context.progress(f"{name}: described")
    advisor = _advisor(bench.context, bench.described(name))
    by_table, proof = advisor.choice(), prove(bench, advisor)
    advice = advisor.advice(proof.advised(advisor.params.least_gain))
    policies = [{"policy": policy, "cycles": round(proof.cycles(policy), 3)} for policy in proof.sweep]
    stored[name] = {"advice": advice, "loop": proof.loop, "policies": policies}
    yield from _findings(name, advice, by_table, proof)


def _findings(name: str, advice: Advice, by_table: Policy, proof: Proof) -> Iterator[Finding]:
    """Yield a loop's findings: advice, speedup, and by how many % it and `by_table` (formulas) exceed the best time."""
    prefix, policy = f"advice.{name}", advice.policy
    yield one_of(f"{prefix}.strategy", advice.strategy, "string", METHOD, EVIDENCE)
    unit = "lines" if advice.unit == "lines" else "iterations"
    stages = {stage: (distance, hint) for stage, distance, hint in policy.parts}
    for stage in ("l1", "l2"):
        if stage in stages:
            yield one_of(f"{prefix}.distance.{stage}", stages[stage][0], unit, METHOD, EVIDENCE)
            yield one_of(f"{prefix}.hint.{stage}", stages[stage][1], "string", METHOD, EVIDENCE)
        else:
            yield absent(f"{prefix}.distance.{stage}", 0, unit, METHOD)
    yield measured(f"{prefix}.speedup", proof.ratio(Policy(), policy), "ratio", METHOD, EVIDENCE)
    for kind in ("folklore", "prefetchers_off", "compiler"):
        yield unavailable(f"{prefix}.speedup.{kind}", "ratio", "not measured since 0.2", METHOD)
    for kind, other in (("regret", policy), ("regret.table", by_table)):
        ratio = proof.ratio(other, proof.best_of_all(HOLDS_AGAINST))  # the best was chosen by other rounds
        yield measured(f"{prefix}.{kind}", Interval(*(100 * (end - 1) for end in ratio)), "%", METHOD, EVIDENCE)


def _advisor(context: Context, loop: Loop) -> Advisor:
    """Return an advisor that computes prefetch distances for a loop from other scenarios' findings."""
    return Advisor(loop, {finding.parameter: finding for finding in context.foundations})


def read_loop(path: str) -> Loop:
    """Return the loop that the TOML file at `path` describes. Raises `UsageError` where it can't be read as one."""
    try:
        return loop_of(tomllib.loads(files.read_bytes(path, MOST_BYTES).decode()))
    except OSError as error:
        raise UsageError(f"can't read {path!r}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, or a number of thousands of digits
        raise UsageError(f"{path!r} can't be read as a loop: {error}") from error


def words(evidence_of: dict[str, Any]) -> str:
    """Return the advice on all loops in `evidence_of` a run, and the reasons for it, as lines of text for the user."""
    lines = list[str]()
    for own in (*evidence_of.get("advice", {}).values(), *filter(None, [evidence_of.get("described")])):
        advice = own["advice"]
        surer = (f"It would be surer with {parameter}: {reason}." for parameter, reason in advice["needs"].items())
        lines += [f"{advice['loop']}: {advice['strategy']}", *(f"  {each}" for each in (*advice["why"], *surer))]
    return "\n".join(lines)


SCENARIO = Scenario(
    name="advise-prefetch",
    summary="which prefetches pay for a loop, how far ahead, and the proof",
    answer=answer,
    parameters=("advice.",),
    plot=advice_figure,
    options=(
        Option(
            name="kernel",
            help=f"Only this loop (may be repeated): {', '.join(LOOP_NAMES)}; with a size as in hash_join@256K.",
            multiple=True,
            check=shape,
        ),
        Option(name="result", help="Result file with the measured table; without, the machine is measured first."),
        Option(name="describe", help="Advise for the loop that this TOML file describes.", check=read_loop),
    ),
    order=110,
    on_request=True,
    needs=("latency", "hierarchy", "mshr", "software-prefetch"),
    words=words,
)

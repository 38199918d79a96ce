"""Whether SMT threads of one core share the entries of its miss queues: one thread fills them, the other is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from setebench.experiments.bursts.bursts import (
    EVICTED,
    FLUSHED,
    GONE,
    LINE,
    LOADED,
    STATES,
    TARGETS,
    Burst,
    Bursts,
    Times,
)
from setebench.machine import Facts
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.stats import decide

from .ask import Evidence, Questions
from .findings import filling, l1_demand

QUIETER = "run again at a quieter time"


def threads_of_core(facts: Facts, cpu: int) -> tuple[int, ...]:
    """Return the usable CPUs (threads) in `facts` of the measured core, `cpu` itself first."""
    group = next((group for group in facts.siblings if cpu in group), (cpu,))
    return cpu, *(other for other in group if other in facts.cpus and other != cpu)


def ask_threads(questions: Questions, evidence: Evidence, levels: tuple[str, ...]) -> Iterator[Finding]:
    """Yield for each level whether SMT threads share its miss queue; `evidence` is what one thread alone measured."""
    context = questions.context
    cpus = threads_of_core(context.machine.facts, context.own_cpu)[:2]
    if len(cpus) < 2:
        why = "no other thread of the same core can be used here"
        yield from (decide.unavailable(f"mshr.{level}.shared_by_smt", "bool", why) for level in levels)
        return
    context.progress("threads of a core together")
    questions.bursts.refresh()
    first = _waits(questions, cpus, "l1", _filling_first(questions, evidence))
    if "l1" in levels:
        yield first
    if "l2" in levels:
        burst, alone = _filling_second(evidence, private=first.value is False), filling(evidence, "l1")
        found = _waits(questions, cpus, "l2", burst)
        if isinstance(burst, Burst) and found.value is False and alone and alone.set_out.last == burst.count:
            why = "one thread alone may run out of level 1, so level 2 may have enough for several and yet be shared"
            found = decide.unresolved(found.parameter, "bool", why)
        yield found


def _waits(questions: Questions, cpus: tuple[int, ...], level: str, burst: Burst | str) -> Finding:
    """Return whether a hit in the next level (behind L2: a load from memory) on one thread waits while the other keeps
    all entries of this level busy with `burst`. Its delay over a hit in L1 is compared beside more misses than there
    are entries, and beside fewer. Where `burst` is a text, that is the reason why this could not be measured."""
    name, params = f"mshr.{level}.shared_by_smt", questions.params
    if isinstance(burst, str):
        return decide.unresolved(name, "bool", burst)
    state, delays = EVICTED if level == "l1" else FLUSHED, list[float]()
    for count in (params.fills * burst.count, max(burst.count - params.next_to, 1)):
        occupying, wait = replace(burst, count=count), params.half * questions.unit
        rounds = [line_beside(questions.bursts, cpus, occupying, wait) for _ in range(params.rounds)]
        hit, near = (float(np.median(np.concatenate([each[of] for each in rounds]))) for of in (state, LOADED))
        delays.append((hit - near) / questions.unit)
    delay, key = delays[0] - delays[1], f"{level}_beside_another_thread"
    questions.context.evidence[key] = {"burst": burst.count, "delay_units": round(delay, 3)}
    where = "level 2" if level == "l1" else "memory"
    method = f"a hit in {where} of one thread while another keeps as many misses under way as it can"
    if delay > params.waits:
        return decide.chosen(name, True, "bool", f"{method} has to wait", key)
    if delay < params.free:
        return decide.chosen(name, False, "bool", f"{method} does not wait", key)
    return decide.unresolved(name, "bool", f"{method} waits a little, but not for a miss; {QUIETER}")


def line_beside(bursts: Bursts, cpus: tuple[int, ...], burst: Burst, wait_cycles: float) -> dict[str, Times]:
    """Return the cycles of loading one line on the first CPU `wait_cycles` after the second began a burst, by the level
    that the line was in, shape (repetitions,)."""
    params, line = bursts.params, LINE + bursts.near
    probe = bursts.pushed_out(Probe().load(line))
    # evictors also evict TLB entries of the other thread, which therefore warms its own after a barrier
    probe = bursts.settled(probe.flush(GONE + 0)).barrier()
    probe = bursts.settled(probe.flush(LINE + bursts.aside)).barrier().wait(max(int(wait_cycles), 1))
    probe = bursts.settled(probe.start(dither=False).load(line).stop())
    drawn = np.resize(STATES[:3], params.warmup + 3 * params.line_repetitions)
    drawn[params.warmup :] = bursts.rng.permutation(drawn[params.warmup :])
    targets, start = bursts.targets(burst.count), bursts.base(burst.count, 1)
    bursts.bring_pairs(targets, start, cpus[1])
    misses = bursts.flushed(targets, burst, Probe().barrier()).barrier()
    misses = bursts.settled(bursts.requested(misses, targets, burst), burst.count)
    places = bursts.placements(drawn) | {TARGETS: np.full(len(drawn), start, dtype=np.int64)}
    placed = {base: places[base] for base in (*probe.bases, *misses.bases)}
    probes = dict(zip(cpus, (probe, misses), strict=True))
    ticks = bursts.context.machine.run_together(probes, placed, warmup=params.warmup)[cpus[0]][:, 0]
    return {state: ticks[drawn[params.warmup :] == state] * bursts.cycles_per_tick for state in STATES[:3]}


def _filling_first(questions: Questions, evidence: Evidence) -> Burst | str:
    """Return a burst by which one thread takes all entries of L1, or the reason why none is known."""
    if not questions.controls.second:
        return "no evictors were found that leave a line in level 2"
    entries = l1_demand(evidence, questions.params)
    if entries.outcome is Outcome.MEASURED and isinstance(entries.value, int) and entries.value > 1:
        return Burst(count=entries.value)
    own = filling(evidence, "l1")
    if own is not None and own.set_out.certain and (own.set_out.last or 0) > 1:
        burst = replace(own.burst, count=own.set_out.last or 0)
        if questions.waiting(burst) > questions.params.half:
            return burst
        return "prefetches leave entries to loads of the same thread, too"
    return "the number of entries is not known, and no prefetch was seen to lack one"


def _filling_second(evidence: Evidence, *, private: bool) -> Burst | str:
    """Return a burst of as many prefetches as one thread has entries of L2 for, or why that isn't known. `private` says
    that threads share nothing of L1."""
    first = filling(evidence, "l1")
    for each in (filling(evidence, "l2"), first if private else None):
        if each is None or not each.set_out.certain or (each.set_out.last or 0) < 2:
            continue
        entries = each.set_out.last or 0
        if private or first is None or entries != first.set_out.last:
            return replace(each.burst, count=entries)
        return "what limits level-2 prefetches may be level 1"
    return "no prefetch was seen to lack an entry of this level"

"""What the threads of a core take from each other's entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from setebench.experiments.bursts.bursts import EVICTED, LOADED, Burst
from setebench.experiments.bursts.of_threads import ThreadBursts, threads_of_core
from setebench.results import Finding
from setebench.stats import decide

from .ask import Evidence, Prefetching, Questions
from .findings import l1_demand

QUIETER = "run again at a quieter time"


def ask_threads(questions: Questions, evidence: Evidence, levels: tuple[str, ...]) -> Iterator[Finding]:
    """Whether the threads draw on one pool of each level's entries, after all that one thread alone shows."""
    context = questions.context
    cpus = threads_of_core(context.machine.facts, context.own_cpu)
    if len(cpus) < 2:
        why = "no other thread of the same core can be used here"
        yield from (decide.unavailable(f"mshr.{level}.shared_by_smt", "bool", why) for level in levels)
        return
    context.progress("threads of a core together")
    questions.bursts.refresh()
    together = ThreadBursts(questions.bursts, cpus)
    first = _first(questions, evidence, together)
    if "l1" in levels:
        yield first
    if "l2" in levels:
        yield _second(questions, evidence, together, private=first.value is False)


def _first(questions: Questions, evidence: Evidence, together: ThreadBursts) -> Finding:
    """A hit in level 2 of one thread, in the middle of a miss, while another keeps all entries of level 1 busy: by how
    much longer it takes than a hit in level 1 at that time, beside many misses and beside one."""
    name, params = "mshr.l1.shared_by_smt", questions.params
    filling = _filling(questions, evidence)
    if isinstance(filling, str):
        return decide.unresolved(name, "bool", filling)
    delays = []
    for burst in (replace(filling, count=params.fills * filling.count), replace(filling, count=1)):
        rounds = [together.line_beside(burst, params.half * questions.unit) for _ in range(params.rounds)]
        hit, near = (float(np.median(np.concatenate([each[state] for each in rounds]))) for state in (EVICTED, LOADED))
        delays.append((hit - near) / questions.unit)
    delay = delays[0] - delays[1]
    questions.context.evidence["beside_another_thread"] = {"burst": filling.count, "delay_units": round(delay, 3)}
    method = "a hit in level 2 of one thread while another keeps as many misses under way as it can"
    if delay > params.waits:
        return decide.chosen(name, True, "bool", f"{method} has to wait", "beside_another_thread")
    if delay < params.free:
        return decide.chosen(name, False, "bool", f"{method} does not wait", "beside_another_thread")
    return decide.unresolved(name, "bool", f"{method} waits a little, but not for a miss; {QUIETER}")


def _filling(questions: Questions, evidence: Evidence) -> Burst | str:
    """How one thread takes all entries of level 1: by loads, or by prefetches behind which its own hits wait."""
    if not questions.controls.second:
        return "no evictors were found that leave a line in level 2"
    entries = l1_demand(evidence, questions.params)
    if entries.outcome == "measured" and isinstance(entries.value, int) and entries.value > 1:
        return Burst(count=entries.value)
    for own in evidence.prefetching:
        if own.level == "l1" and own.set_out.certain and (own.set_out.last or 0) > 1:
            burst = replace(own.burst, count=own.set_out.last or 0)
            if questions.waiting(burst) > questions.params.half:
                return burst
            return "prefetches leave entries to loads of the same thread, too"
    return "the number of entries is not known, and no prefetch was seen to lack one"


def _second(questions: Questions, evidence: Evidence, together: ThreadBursts, *, private: bool) -> Finding:
    """Prefetches of all threads at once, on either side of where a shared pool runs out and of where private ones do;
    `private`: threads share nothing of level 1."""
    name, params, threads = "mshr.l2.shared_by_smt", questions.params, len(together.cpus)
    own = next((own for own in evidence.prefetching if own.level == "l2"), None)
    first = next((own.set_out for own in evidence.prefetching if own.level == "l1"), None)
    limit = _limit_of_second(evidence, own, private=private)
    if isinstance(limit, str):
        return decide.unresolved(name, "bool", limit)
    part = limit.count // threads
    around = (max(part - 1, 1), part + params.next_to), (limit.count - 1, limit.count + params.next_to)
    numbers = sorted({number for pair in around for number in pair})
    samples: dict[int, list[float]] = {number: [] for number in numbers}
    for _ in range(params.rounds):
        for number in questions.bursts.rng.permutation(numbers).tolist():
            times = together.all_at_once(replace(limit, count=number))
            samples[number].append(questions.calm(times) / questions.unit)
    level = {number: float(np.median(times)) for number, times in samples.items()}
    at_part, at_all = (level[more] - level[few] for few, more in around)
    questions.context.evidence["all_threads"] = {"part": around[0], "rise_units": [round(at_part, 3), round(at_all, 3)]}
    what = f"prefetches of {threads} threads"
    if at_part > params.half:
        how = f"{what} run out as soon as all of them together hold as many as one alone can"
        return decide.chosen(name, True, "bool", how, "all_threads")
    if own is None or (first is not None and first.last == limit.count):
        why = "one thread alone may run out of level 1, so level 2 may have enough for several and yet be shared"
        return decide.unresolved(name, "bool", why)
    if at_part < params.waits and at_all > params.half:
        return decide.chosen(name, False, "bool", f"{what} each have as many in flight as one alone", "all_threads")
    return decide.unresolved(name, "bool", f"{what} run out a little earlier than one, but not as of a shared pool")


def _limit_of_second(evidence: Evidence, own: Prefetching | None, *, private: bool) -> Burst | str:
    """As many prefetches as one thread has entries of level 2 for; or why that isn't known."""
    first = next((each for each in evidence.prefetching if each.level == "l1"), None)
    kinds: Sequence[Prefetching | None] = (own, first) if private else (own,)
    for each in kinds:
        if each is None or not each.set_out.certain or (each.set_out.last or 0) < 2:
            continue
        entries = each.set_out.last or 0
        if private or first is None or entries != first.set_out.last:
            return replace(each.burst, count=entries)
        return "what limits level-2 prefetches may be level 1"
    return "no prefetch was seen to lack an entry of this level"

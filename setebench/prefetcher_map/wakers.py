"""Whether requests of level 1's own prefetchers start streams of level 2 (Fang et al. 2014, Table VI)."""

from __future__ import annotations

from dataclasses import replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import even_line
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Visit

METHOD = "accesses to one line that level 2 holds, so that level 1's next-line prefetcher alone misses there"
NOT_ONE = "one request of level 1's next-line prefetcher does not start it, and more can't be made one by one"


def tell_waking(lab: Laboratory, degree: int | None, told: Told) -> None:
    """Tell whether one request of level 1's next-line prefetcher starts a stream. Nothing is told where there is no
    such prefetcher, or its rules are not known.

    The line is even and the next one odd, so that no line pair reaches beyond them; of two lines that a stream brings
    the second counts, which a next-line prefetcher of level 2 would not bring. The same accesses must bring nothing
    where level 1 has the next line already, so that its prefetcher asks for none."""
    if lab.next_repeats is None or degree is None:
        return
    if degree == 1 and lab.outer_next:
        told.unresolved(
            "trigger_by_l1_prefetcher",
            "it brings one line, as would a next-line prefetcher of level 2; switch that off and run again",
        )
        return
    line = even_line(lab)
    target = line + 1 + min(degree, 2)
    asking = _repeated(lab, line, lab.next_repeats)
    woken, asleep = (lab.brings(visit, target) for visit in (asking, replace(asking, warm=(line + 1,))))
    reason = NOT_ONE if woken is False else "lines ahead come without the request, or in some repetitions only"
    told.value("trigger_by_l1_prefetcher", 1 if woken and asleep is False else None, METHOD, reason)


def _repeated(lab: Laboratory, line: int, count: int) -> Visit:
    """Accesses to a line that is in level 2 alone; for each where the prefetcher counts misses of level 1."""
    where = line * lab.line_size
    steps = [Access(where)]
    for _ in range(count - 1):
        steps += [Access(where, "demote")] * lab.next_counts_misses + [Access(where)]
    return Visit(tuple(steps), demoted=(line,))

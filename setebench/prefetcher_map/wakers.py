"""Whether requests of level 1's own prefetchers start streams of level 2 (Fang et al. 2014, Table VI)."""

from __future__ import annotations

from dataclasses import replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import even_line
from setebench.prefetcher_map.stream_rules import Rules
from setebench.prefetcher_map.streams import ahead, next_lines
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
    if lab.known.next_repeats is None or degree is None:
        return
    if degree == 1 and lab.known.outer_next:
        told.unresolved(
            "trigger_by_l1_prefetcher",
            "it brings one line, as would a next-line prefetcher of level 2; switch that off and run again",
        )
        return
    if lab.known.next_counts_misses and lab.known.next_repeats > 1:
        told.unresolved("trigger_by_l1_prefetcher", "what would push the line out each time has its own lines watched")
        return
    line = even_line(lab)
    target = line + 1 + min(degree, 2)
    asking = Visit((Access(line * lab.line_size),) * lab.known.next_repeats, demoted=(line,))
    woken, asleep = (lab.brings(visit, target) for visit in (asking, replace(asking, warm=(line + 1,))))
    reason = NOT_ONE if woken is False else "lines ahead come without the request, or in some repetitions only"
    told.value("trigger_by_l1_prefetcher", 1 if woken and asleep is False else None, METHOD, reason)


def hears_requests(rules: Rules) -> bool | None:
    """Whether a run's last access may be a request of level 1's next-line prefetcher: the line before it is in level 2
    and is accessed, so that nothing else misses there. None where that stays unclear."""
    lab = rules.lab
    lines = rules.low_run(rules.found.trigger or 0)
    asking = lines[-1] - 1
    visit = Visit(
        tuple(Access(line * lab.line_size) for line in (*lines[:-1], asking)),
        warm=next_lines(lab, lines[:-1]),
        demoted=(asking,),
        thrash=True,
    )
    targets = [line for line in ahead(lines, 1, 4, rules.down) if line != asking]
    alone = lab.scan(replace(visit, steps=visit.steps[-1:]), targets)
    if alone[targets[0]] is not False:  # a next-line prefetcher of level 2 brings it, and a stream perhaps no other
        return None
    return lab.any_of(visit, [line for line in targets if alone[line] is False])

"""What a prefetcher with a name does to a run by its rules, and which rules fit what was seen.

A rule says how many lines ahead of each access of a run are there once it was made, in an empty cache of endless
size. Every combination of rules of a family is a candidate; those that explain the counts best are kept, and how much
even they leave unexplained says whether any of them is right ("none of them" is an answer). Lines are counted in the
direction of the run from the page's end that it comes from.

Streams after Fang et al. 2014 (5.3.2; a batch follows if its first line lies less than a distance ahead of the access),
and after the optimization manuals of Intel (248966: further lines with each new line, or with each access, at most so
many lines ahead); strides after Baer and Chen 1991.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

BATCH, NEW_LINE, ACCESS = "batch", "new_line", "access"


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """most_degree: lines, of the rules that are compared. unexplained: fraction of counts that a true rule
    may leave unexplained, as single answers are wrong now and then."""

    most_degree: int = 8
    unexplained: float = 0.2


C = Candidates()


@dataclass(frozen=True, kw_only=True)
class StreamRule:
    """A stream that starts with the `trigger`th access, and then fetches `degree` lines at a time (at first as `ramp`
    says), up to `distance` lines ahead, as `leads_by` says."""

    trigger: int
    degree: int
    distance: int
    leads_by: str
    ramp: tuple[int, ...] = ()

    def fetched(self, lines: Sequence[int], page_lines: int) -> Iterator[set[int]]:
        """Lines that it has fetched after each access."""
        fetched: set[int] = set()
        count, following, last, batches, first = 0, 0, -1, 0, 0
        for line in lines:
            new = line > last
            if following and first <= line < following:
                draws = new or self.leads_by != NEW_LINE
            else:  # still training, or beyond what was fetched: a new run
                count = 1 if following else count + new
                following, draws = 0, count >= self.trigger
                if draws:
                    first, following, batches = line + 1, line + 1, 0
            last = max(line, last)
            if draws and not (self.leads_by == BATCH and following - line >= self.distance):
                size = self.ramp[batches] if batches < len(self.ramp) else self.degree
                batches += 1
                end = following + size
                if self.leads_by != BATCH:
                    end = min(end, line + self.distance + 1)
                end = max(min(end, page_lines), following)
                fetched.update(range(following, end))
                following = end
            yield fetched


def ahead(there: set[int], lines: Sequence[int]) -> int:
    """Lines ahead of the last access that are there without a gap."""
    at = lines[-1] + 1
    while at in there or at in lines:
        at += 1
    return at - 1 - lines[-1]


@dataclass(frozen=True)
class Seen:
    """Lines ahead that were seen after some accesses (by number, from 1) of a run."""

    lines: tuple[int, ...]
    ahead: Mapping[int, int]


def _counts(rule: StreamRule, run: Seen, page_lines: int) -> list[int]:
    counts = []
    for number, fetched in enumerate(rule.fetched(run.lines, page_lines), 1):
        made = run.lines[:number]
        counts.append(min(ahead(fetched, made), page_lines - 1 - made[-1]))
    return counts


@dataclass(frozen=True)
class Fit:
    """The rules that explain most counts, and which fraction of them even these leave unexplained; none, and no number,
    where nothing could be counted."""

    rules: tuple[StreamRule, ...]
    unexplained: float

    @property
    def fits(self) -> bool:
        """Whether any rule is right."""
        return self.unexplained <= C.unexplained

    def values(self, name: str) -> list[int] | list[str]:
        """What the rules say of one field."""
        return sorted({getattr(rule, name) for rule in self.rules})

    def lead(self, lines: Sequence[int], page_lines: int) -> list[int] | None:
        """Lines ahead of another run after each access, where all the rules agree."""
        leads = {tuple(_counts(rule, Seen(tuple(lines), {}), page_lines)) for rule in self.rules}
        return list(leads.pop()) if len(leads) == 1 else None


def fit_stream(runs: Sequence[Seen], page_lines: int, triggers: Sequence[int]) -> Fit:
    """Compare all rules of streams with what was seen of some runs. No distance beyond what was seen is compared: from
    there on all say the same."""
    furthest = max((count for run in runs for count in run.ahead.values()), default=0)
    best: list[StreamRule] = []
    total = sum(len(run.ahead) for run in runs)
    if not total:
        return Fit((), math.nan)
    fewest = total + 1
    for rule in _stream_rules(triggers, furthest + C.most_degree):
        missed = 0
        for run in runs:
            counts = _counts(rule, run, page_lines)
            missed += sum(counts[number - 1] != count for number, count in run.ahead.items())
            if missed > fewest:
                break
        if missed < fewest:
            best, fewest = [], missed
        if missed == fewest:
            best.append(rule)
    return Fit(tuple(best), fewest / total)


def _stream_rules(triggers: Sequence[int], most_distance: int) -> Iterator[StreamRule]:
    """All that are compared."""
    for trigger in triggers:
        for degree in range(1, C.most_degree + 1):
            for ramp in ((), *(tuple(range(first, degree)) for first in range(1, degree))):
                for leads_by in (BATCH, NEW_LINE, ACCESS):
                    for distance in range(1 if leads_by == BATCH else degree, most_distance + 1):
                        yield StreamRule(
                            trigger=trigger, degree=degree, distance=distance, leads_by=leads_by, ramp=ramp
                        )


def stride_lead(trigger: int, degree: int, distance: int, accesses: int) -> list[int]:
    """Strides ahead after each access of a run: so many further ones with each, up to a distance."""
    lead, counts = 0, []
    for number in range(1, accesses + 1):
        lead = max(lead - 1, 0)
        if number >= trigger:
            lead = min(lead + degree, distance)
        counts.append(lead)
    return counts


def next_line_lead(degree: int, only_misses: bool, accesses: int) -> list[int]:
    """Lines ahead after each access of a run of neighbouring lines that all bring the next `degree` lines, or only
    those that miss."""
    lead, counts = 0, []
    for _ in range(accesses):
        lead = degree if lead == 0 or not only_misses else lead - 1
        counts.append(lead)
    return counts

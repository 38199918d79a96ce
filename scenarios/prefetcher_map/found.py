"""Questions, their answers, and what was found by them: all that further questions depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from setebench.experiments.visits import Visit

Answer = bool | None
"""None where it stays unclear."""


def some(answers: Iterable[Answer]) -> Answer:
    """Whether any holds; None where none surely does and one is unclear."""
    given = set(answers)
    return True if True in given else None if None in given else False


def first_that(holds: Callable[[int], Answer], counts: Iterable[int]) -> int | None:
    """The first number for which something holds; None where one before it is unclear, or none does."""
    for count in counts:
        answers = holds(count)
        if answers is None or answers:
            return count if answers else None
    return None


@dataclass(frozen=True)
class Question:
    """Whether a visit brings any of its targets (`inner`: to level 1) which none of its controls brings."""

    visit: Visit
    targets: tuple[int, ...]
    controls: tuple[Visit, ...] = ()
    inner: bool = False


@dataclass
class Found:
    """What was found of one prefetcher before its rules are asked; each family uses what it needs.

    present, reason: whether it is there, and why that stays open. question: the smallest by which it shows.
    trigger: accesses that it takes. down: found going down. dense: follows neighbouring lines only.
    warm: learns from hits of level 1 too. stride: lines apart. flushed: its accesses have to miss each time.
    inner: it was found by lines in level 1. hidden: level 1 brings the same line on every access.
    seen: something of the kind was there, whatever explains it.
    active: regions watched at once."""

    present: Answer = None
    reason: str = ""
    question: Question | None = None
    trigger: int | None = None
    down: bool = False
    dense: bool = False
    warm: bool = False
    stride: int = 0
    flushed: bool = False
    inner: bool = False
    hidden: bool = False
    seen: bool = False
    active: int | None = None


def first_shown(tries: Iterable[tuple[Answer, Question, Found]]) -> Found:
    """What the first question says that holds, of questions that are asked in turn. A trigger is not known where one
    before was unclear."""
    answers: list[Answer] = []
    for came, question, found in tries:
        answers.append(came)
        if came:
            trigger = None if None in answers else found.trigger
            return replace(found, present=True, question=question, trigger=trigger)
    return Found(some(answers))


@dataclass
class Known:
    """What a survey knows of its machine, on which further questions depend.

    finds: what was found, by identity; what was not looked for yet counts as there, as it might disturb a question.
    forget: regions to be opened before every visit so that region prefetchers remember nothing; 0 without any.
    beside: they remember no single lines, so that each line there is accessed with another one.
    others_learn: something that no family explains is there, and may have learned from the questions.
    changed: lines that had come came no longer a moment later: something there learns.
    inner_starts_at_ends: one access at a page's end may start level 1's streams.
    demotes: what pushes a line out of level 1 does so; where that one's index is a hash, its lines go elsewhere.
    traversals_fit: the lines of traversals stay in level 2, but for a few; traversals_whole: all of them."""

    finds: dict[str, Found] = field(default_factory=dict)
    forget: int = 0
    beside: bool = False
    others_learn: bool = False
    changed: bool = False
    inner_starts_at_ends: bool = True
    demotes: bool = True
    traversals_fit: bool = True
    traversals_whole: bool = True

    def may(self, *identities: str) -> bool:
        """Whether any of these may be there."""
        return any(each not in self.finds or self.finds[each].present is not False for each in identities)

    @property
    def inner_next(self) -> Found:
        """The next-line prefetcher of level 1."""
        return self.finds.get("l1.next_line", Found())

    @property
    def next_after_hits(self) -> bool:
        """Whether level 1 may bring the next line after some accesses to one line."""
        return self.inner_next.present is not False

    @property
    def next_in_l1(self) -> bool:
        """Whether level 1 may bring the next line on every access."""
        return self.next_after_hits and self.inner_next.trigger in (None, 1)

    @property
    def outer_next(self) -> bool:
        """Whether level 2 may bring the next line after one access."""
        return self.may("l2.next_line", "l2.up_down")

    @property
    def inner_streams(self) -> bool:
        """Whether level 1 may follow runs."""
        return self.may("l1.stream") or self.others_learn

    @property
    def level_two_listens(self) -> bool:
        """Whether level 2 may have prefetchers."""
        return self.others_learn or self.may("l2.pair", "l2.next_line", "l2.up_down", "l2.stride", "l2.stream")

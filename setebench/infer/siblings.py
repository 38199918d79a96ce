"""Whether the threads of a core draw on one pool of miss entries. Knows no machine."""

from __future__ import annotations

from dataclasses import dataclass

from setebench.results import Finding, Outcome

SHARED_SHARE, PRIVATE_SHARE = 0.5, 0.2
"""Rise, as a share of one thread's jump, that shows a shared pool running out, and the most of a private one."""

WAITS_SHARE, FREE_SHARE = 0.25, 0.1
"""A hit that sets out in the middle of the other thread's misses waits half a miss for their entries, if it needs one;
with so much of a miss it waited, with so little it didn't."""


THERE_SHARE = 0.5
"""A line that takes less than this share of a miss was there, so that it had been asked for."""


@dataclass(frozen=True)
class Filling:
    """How one thread takes all `entries` of a level: by loads, or with prefetches of a `hint`, each behind a load of
    its page if `escorted`. `height` is the rise of time, in cycles, where it asks for more: of setting out, or of loads
    long after where prefetches are `dropped` that find no entry. `maybe_first`: what one thread lacks of level 2 may
    as well be level 1, which threads do not share."""

    hint: str
    entries: int
    height: float
    escorted: bool = False
    dropped: bool = False
    maybe_first: bool = False


@dataclass(frozen=True)
class Together:
    """How the time in which prefetches set out, or in which their lines are loaded later, rises on `threads` siblings
    at once: where each sends its share of what one thread alone can have in flight (`at_share`), and where each sends
    all of that (`at_all`). `height` is the rise of one thread alone. All in cycles, of the slowest thread.
    `maybe_first` as in `Filling`."""

    threads: int
    height: float
    at_share: float
    at_all: float
    maybe_first: bool = False


@dataclass(frozen=True)
class Beside:
    """By how many cycles a hit in level 2 is slower while another thread keeps all entries of level 1 busy than while
    that has one miss under way; how long a miss takes (`unit`); and how long, when all is over, a load of a line that
    the other thread asked for (`later`)."""

    delay: float
    unit: float
    later: float = 0.0


def one_thread(level: str) -> Finding:
    """Nothing to share."""
    why = "no other thread of the same core can be used here"
    return Finding(parameter=_name(level), unit="bool", outcome=Outcome.UNAVAILABLE, reason=why)


def first_shared(found: Beside | str) -> Finding:
    """Whether level 1's pool is shared; a text says why that was not asked."""
    if isinstance(found, str):
        return _unresolved("l1", found)
    method = "a hit in level 2 of one thread while another keeps as many misses under way as it can"
    if found.delay > WAITS_SHARE * found.unit:
        return _told("l1", True, f"{method} has to wait")
    if found.later > THERE_SHARE * found.unit:
        return _unresolved("l1", "another thread's prefetches left no lines, so they may have held nothing; run again")
    if found.delay < FREE_SHARE * found.unit:
        return _told("l1", False, f"{method} does not wait")
    return _unresolved("l1", f"{method} waits a little, but not for a miss; run again")


def second_shared(found: Together | str) -> Finding:
    """Whether level 2's pool is shared; a text says why that was not asked."""
    if isinstance(found, str):
        return _unresolved("l2", found)
    threads = f"prefetches of {found.threads} threads"
    if found.at_share > SHARED_SHARE * found.height:
        return _told("l2", True, f"{threads} run out as soon as all of them together hold as many as one alone can")
    if found.maybe_first:
        why = "one thread alone may run out of level 1, so that level 2 may have enough for several and yet be shared"
        return _unresolved("l2", why)
    if found.at_share < PRIVATE_SHARE * found.height and found.at_all > SHARED_SHARE * found.height:
        return _told("l2", False, f"{threads} each have as many in flight as one alone")
    why = f"{found.threads} threads at once run out a little earlier than one, but not as of a shared pool; run again"
    return _unresolved("l2", why)


def _name(level: str) -> str:
    return f"mshr.{level}.shared_by_smt"


def _told(level: str, value: bool, method: str) -> Finding:
    return Finding(parameter=_name(level), value=value, unit="bool", method=method, evidence="siblings")


def _unresolved(level: str, why: str) -> Finding:
    return Finding(parameter=_name(level), unit="bool", outcome=Outcome.UNRESOLVED, reason=why)

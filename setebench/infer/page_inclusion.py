"""Whether an outer cache includes the inner one, from a page in use while others of its sets pass. Knows no machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNKEPT_LINES = 3.0
"""Lines of a page of other sets that the inner cache gives up between two uses, from which on it doesn't keep what is
in use: losses of the other page would then tell nothing."""

LOST_LINES, SPARED_LINES = 8.0, 2.0
"""Lines of the page in use that are lost per round at least where the outer cache takes them along: of a set that it
gives up a line of in every round this page's is the oldest, as its uses aren't heard of; and at most where it
doesn't."""

HELD_LINES = 16.0
"""Lines of the others that are missing per round at most where all of them are held beside the page in use, but for
what replacement at random in both caches moves about. An inclusive cache has to give up one of all 64 sets, and
prefetchers leave two thirds of these missing at least in groups that are clear."""

LEAST_LOSING, LEAST_KEEPING = 2, 3
"""Groups at least of which pages in use lose lines, or all lose none. A group that was found while somebody else held a
part of its sets is one page too small, and loses nothing either."""

Inclusive = tuple[bool | None, str]


@dataclass(frozen=True)
class InUse:
    """Per round over pages of the same sets, one of which is used again after each other: lines of it that are `lost`,
    and lines of the others that are `missing`, more than if a page of other sets is used instead; lines of that one
    that are `unkept` from use to use; and lines of the others that are missing beside it, `anyway`."""

    lost: float
    missing: float
    unkept: float
    anyway: float = 0.0


def included(found: Sequence[InUse]) -> Inclusive:
    """Whether the outer cache takes lines out of the inner one when it gives them up, from several groups of pages; or
    None and why that isn't told."""
    if not found:
        return None, "no group of pages of the same sets was found"
    if float(np.median([each.unkept for each in found])) > UNKEPT_LINES:
        return None, "the first cache gives up lines that are used all the time (random replacement?)"
    lost, missing = ([getattr(each, name) for each in found] for name in ("lost", "missing"))
    if min(lost) > LOST_LINES and len(found) >= LEAST_LOSING:
        return True, ""
    spared = max(abs(each) for each in lost) < SPARED_LINES
    held = max(max(abs(each.missing), each.anyway) for each in found) < HELD_LINES
    if spared and held and len(found) >= LEAST_KEEPING:
        return False, ""
    lines = f"{np.median(lost):.1f} lines of a page in use are lost per round, {np.median(missing):.1f} of others"
    return None, f"{lines} of its sets; run again at a quieter time"

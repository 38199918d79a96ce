"""From how far a stream ran ahead to its degree and distance. Knows no machine.

The rule (Fang et al. 2014, 5.3.2): on an access to a line fetched before, a further batch of `degree` lines follows if
its first line lies less than `max_distance` lines ahead of the access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def batches(frontiers: Sequence[int]) -> list[int]:
    """Lines by which the frontier moved with each further access."""
    return [after - before for before, after in pairwise(frontiers)]


def steady_degree(frontiers: Sequence[int]) -> int | None:
    """Lines per batch once a stream runs steadily: the last two batches, if they are alike and none was larger.
    `frontiers` are the furthest lines after each access, while the stream still grows."""
    grown = [step for step in batches(frontiers) if step > 0]
    if len(grown) < 2 or grown[-1] != max(grown) or grown[-1] != grown[-2] or min(batches(frontiers)) < 0:
        return None
    return grown[-1]


def distance_bounds(final: Mapping[int, int], degree: int) -> tuple[int, int] | None:
    """Least and largest `max_distance` that explain where a stream stopped: `final[access]` is the furthest line
    fetched (both counted from the same line, in the direction of the stream) when hits on `access` bring no more.

    The last batch was still started, so its first line was less than the distance ahead; the next one was not. None
    where no distance explains all of them."""
    low = max(line - degree + 1 - access + 1 for access, line in final.items())
    high = min(line + 1 - access for access, line in final.items())
    return (low, high) if low <= high else None


def least_distance(final: Mapping[int, int], degree: int) -> int:
    """What `max_distance` is at least, whatever made the stream fetch on: `final` as for `distance_bounds`. By the
    batch rule a batch may end `degree` - 2 lines beyond it; other streams bring no line that lies further ahead."""
    return max(line - access for access, line in final.items()) - max(degree - 2, 0)

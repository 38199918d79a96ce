"""What a survey knows of its machine, on which further questions depend: what must be kept quiet, and how."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Known:
    """As long as nothing was found out, everything counts as there that might disturb a question.

    `forget`: regions to be opened before every visit so that region prefetchers remember nothing; 0 without any.
    `next_in_l1`: level 1 may bring the next line on every access, `next_after_hits`: after some accesses to one line;
    `next_repeats`: after how many, `next_counts_misses`: each a miss.
    `level_two_listens`: level 2 may have prefetchers; `outer_next`, `outer_streams`: of these kinds.
    `inner_streams`: level 1 may have streams, `inner_starts_at_ends`: which one access at a page's end starts.
    `walks_fit`: the lines of walks stay in level 2, but for a few; `walks_whole`: all of them.
    """

    forget: int = 0
    next_in_l1: bool = True
    next_after_hits: bool = True
    next_repeats: int | None = None
    next_counts_misses: bool = False
    level_two_listens: bool = True
    outer_next: bool = True
    outer_streams: bool = True
    inner_streams: bool = True
    inner_starts_at_ends: bool = True
    walks_fit: bool = True
    walks_whole: bool = True

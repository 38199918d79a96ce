"""The schema of a machine file's `[[prefetchers]]`: what all kinds have in common, and the kinds that scenarios name.

Kinds after further publications, which no scenario has a name for, are in `spec_published.py`.
"""

from __future__ import annotations

from typing import Literal

from setebench.sim.spec.table import Table as Table

AccessKind = Literal["load", "store", "prefetch", "l1_prefetcher"]
"""What may train a prefetcher: loads, stores, software prefetches, and (at level 2) requests of level-1 prefetchers."""

TableReplacement = Literal["lru", "fifo"]
WhenFull = Literal["stalls", "drops"]


class Prefetcher(Table, frozen=True, kw_only=True, tag_field="kind"):
    """What all hardware prefetchers have in common."""

    level: Literal[1, 2]  # sees the accesses to this level: level 1 virtual addresses, level 2 physical ones
    fills: Literal["l1", "l2", "l3"] = "l2"  # nearest level that gets the lines (not above `level`)
    trained_by: tuple[AccessKind, ...] = ("load",)
    crosses_4k: bool = False  # goes past a 4 KiB boundary (at level 2: to the physically next page)
    crosses_4k_in_2m: bool = False  # goes past a 4 KiB boundary inside a 2 MiB page
    shared_by_smt: bool = True  # False: each SMT thread trains entries of its own
    shared_by_cores: bool = False  # True: all cores train one table, as beside a shared cache; level 2 only
    when_full: WhenFull = "drops"  # a prefetch that finds no miss entry free is dropped or waits for one


class NextLine(Prefetcher, frozen=True, kw_only=True, tag="next_line"):
    """The lines after one that was accessed `trigger` times (Sandy Bridge's level-1 streamer: 3 loads).

    With a degree above 1 it is next-N-line prefetching (Smith, ACM Computing Surveys 14(3), 1982).
    """

    trigger: int = 1  # accesses to the same line, in a row or not, before the next line is fetched; 1 to 16
    only_misses: bool = False  # only accesses that miss this level count
    streams: int = 8  # lines watched at once (LRU), 1 to 64; matters for trigger > 1 only
    degree: int = 1  # lines fetched after it, 1 to 8


class LinePair(Prefetcher, frozen=True, kw_only=True, tag="pair"):
    """The other line of an aligned pair of lines, on a miss."""


class Streamer(Prefetcher, frozen=True, kw_only=True, tag="stream"):
    """Ascending or descending misses in a 4 KiB page, then batches ahead of the accesses (the paper's Figure 7).

    A batch starts after the last line fetched. On an access to a line fetched before, the next batch follows if its
    first line lies less than `max_distance` lines ahead of the access; so batches reach `max_distance + degree - 2`
    lines ahead at most. With trigger 3, degree 4, ramp 2, 3 and distance 16 that is Figure 7 line for line.

    Other streamers fetch `degree` further lines at every access to a new line of the run, or at every access, and never
    a line more than `max_distance` ahead (after the optimization manuals of Intel, 248966, whose streamer runs up to 20
    lines ahead of the loads). With a ramp of 1, 2 and a degree of 3 such a one goes from one line per access to three.
    """

    trigger: int = 3  # misses in one direction before the first batch; 1 to 16
    trigger_at_page_edge: tuple[int, ...] = ()
    # misses needed when a run starts at line 0, 1, last but one, last of a page; empty = `trigger` everywhere
    trigger_by_l1_prefetcher: int = 0  # misses needed when they come from a level-1 prefetcher; 0 = as any other
    degree: int = 4  # lines per batch in steady state, 1 to 16
    ramp: tuple[int, ...] = ()  # lines of the first batches of a stream, before `degree` holds; at most 4
    max_distance: int = 16  # lines, see above; 1 to 256
    directions: Literal["up", "down", "both"] = "both"
    streams: int = 16  # streams followed at once, 1 to 128
    replacement: TableReplacement = "lru"  # which stream a new one replaces: unused longest, or followed longest
    streams_per_page: Literal[1, 2] = 1  # 2 = one upwards and one downwards
    leads_by: Literal["batch", "new_line", "access"] = "batch"
    # what makes a stream fetch on: an access near enough to its end, one to a line that the run had not reached, or any
    silenced_by_software: bool = False
    # True: a software prefetch of a line that a stream fetched, or would fetch before long, ends that stream


class Stride(Prefetcher, frozen=True, kw_only=True, tag="stride"):
    """Equal distances between the accesses of one instruction (or page)."""

    trigger: int = 3  # accesses at equal distances before the first prefetch; 2 to 16
    degree: int = 1  # prefetches per access at most, 1 to 16
    max_distance: int = 1  # furthest prefetch, in strides ahead of the access, >= degree; 1 to 64
    min_stride_bytes: int = 1  # smaller strides are not followed
    max_stride_bytes: int = 2048
    directions: Literal["up", "down", "both"] = "both"
    entries: int = 8  # table size, 1 to 256
    replacement: TableReplacement = "lru"  # which entry a new one replaces: unused longest, or there longest
    indexed_by: Literal["ip", "page", "ip+page"] = "ip"
    ip_bits: int = 8  # low bits of the instruction address that distinguish entries, 1 to 26


class Region(Prefetcher, frozen=True, kw_only=True, tag="region"):
    """The lines of a region that earlier visits by the same key had touched, on the first access to a new region."""

    region_size_bytes: int = 2048  # power of two, at most 64 lines
    trigger: int = 1  # visits that must have touched a line before it is fetched, 1 to 3
    active_regions: int = 16  # regions whose footprint is recorded at once (LRU), 1 to 128
    entries: int = 64  # footprints remembered (LRU), 1 to 1024
    indexed_by: Literal["ip", "ip+offset", "offset"] = "ip+offset"  # of the first access to the region
    ip_bits: int = 12  # 1 to 26


class UpDown(Prefetcher, frozen=True, kw_only=True, tag="up_down"):
    """The next or the previous line on every miss, whichever way the page's latest accesses went."""

    streams: int = 32  # pages whose direction is remembered (LRU), 1 to 128


Known = NextLine | LinePair | Streamer | Stride | Region | UpDown
"""Kinds that scenarios have names for."""

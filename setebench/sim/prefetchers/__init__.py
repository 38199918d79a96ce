"""Hardware prefetchers.

Adding a kind takes four steps: (1) a `spec.Prefetcher` subclass with its fields, added to `spec.AnyPrefetcher`; (2) a
module here with `..._settings(kind, page_lines) -> (configuration words, words of state per core)` and a Numba function
`train_...` that notes one access and hands out lines with `common.hand_out`; (3) its name in `KINDS` below;
(4) a branch in `train`. Lines are virtual at level 1 and physical at level 2; the caller filters lines that are there
already, finds miss entries and does the fetching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import C_LINE_BITS, P_KIND
from setebench.sim.prefetchers.next_line import next_line_settings, pair_settings, train_next_line, train_pair
from setebench.sim.prefetchers.region import region_settings, train_region
from setebench.sim.prefetchers.streamer import silence_streamer, streamer_settings, train_streamer
from setebench.sim.prefetchers.stride import stride_settings, train_stride
from setebench.sim.prefetchers.up_down import train_up_down, up_down_settings

NEXT_LINE, PAIR, STREAM, STRIDE, REGION, UP_DOWN = range(6)

KINDS: dict[type[spec.Prefetcher], tuple[int, Callable[[Any, int], tuple[list[int], int]]]] = {
    spec.NextLine: (NEXT_LINE, next_line_settings),
    spec.LinePair: (PAIR, pair_settings),
    spec.Streamer: (STREAM, streamer_settings),
    spec.Stride: (STRIDE, stride_settings),
    spec.Region: (REGION, region_settings),
    spec.UpDown: (UP_DOWN, up_down_settings),
}


@compiled
def train(
    c: Ints, s: Ints, p: int, q: int, owner: int, address: int, ip: int, misses: bool, source: int, n: int
) -> int:
    """Show one access to the prefetcher with configuration at `p` and state at `q`.

    `owner` is the SMT thread where threads have entries of their own, else 0; `n` lines were handed out before.
    Returns how many have been handed out now.
    """
    line = address >> c[C_LINE_BITS]
    kind = c[p + P_KIND]
    if kind == STREAM:
        return train_streamer(c, s, p, q, owner, line, misses, source, n)
    if kind == STRIDE:
        return train_stride(c, s, p, q, owner, address, ip, n)
    if kind == NEXT_LINE:
        return train_next_line(c, s, p, q, line * 8 + owner, line, misses, n)
    if kind == PAIR:
        return train_pair(c, s, line, misses, n)
    if kind == REGION:
        return train_region(c, s, p, q, owner, line, ip, n)
    return train_up_down(c, s, p, q, owner, line, misses, n)


@compiled
def silence(c: Ints, s: Ints, p: int, q: int, owner: int, address: int) -> None:
    """Show a software prefetch to a prefetcher that it may put to silence."""
    if c[p + P_KIND] == STREAM:
        silence_streamer(c, s, p, q, owner, address >> c[C_LINE_BITS])
